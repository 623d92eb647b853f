"""Landlock: what a process and its descendants may do with files and to other processes, said by themselves.

Owns the rule set and what each version (ABI) of it can express. Decides nothing: which directories may be written
is given. Standard library only. Nothing that is restricted here can be had back, not by root either.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable

from pilothouse.adapters.work.sandbox import kernel

_SYS_CREATE, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FIRST = (1 << 13) - 1
"""Reading, executing, writing, making and removing: what the first version knows."""
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1

REFER_SINCE = 2
"""Without it no file can be moved between two directories, which git does: such a version is as good as none."""
SCOPES_SINCE = 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """Which version this kernel speaks; 0 when it has none or was started without it."""
    if sys.platform != "linux":
        return 0
    try:
        return kernel.syscall("ask for Landlock", _SYS_CREATE, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(writable: Iterable[str]) -> None:
    """Restrict the calling thread: nothing is written but below ``writable``, nothing is mounted any more, and no
    process outside is traced or, from ABI 6 on, signalled or reached by an abstract socket.

    Reading is left as it is: what may not be seen is not mounted. Call ``kernel.no_new_privileges`` first. Does
    nothing before ABI 2. Raises ``OSError``.
    """
    version = abi()
    if version < REFER_SINCE:
        return
    every = _FIRST | _REFER | (_TRUNCATE if version >= 3 else 0) | (_IOCTL_DEV if version >= 5 else 0)
    scoped = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if version >= SCOPES_SINCE else 0
    rules = _Ruleset(fs=every, scoped=scoped)
    size = 8 if version < 4 else 16 if version < SCOPES_SINCE else 24
    ruleset = kernel.syscall("make Landlock rules", _SYS_CREATE, ctypes.byref(rules), size, 0)
    try:
        _allow(ruleset, "/", every & _READ)
        for path in writable:
            _allow(ruleset, path, every)
        kernel.syscall("apply Landlock rules", _SYS_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(f"/proc/self/fd/{parent}"):  # noqa: PTH112 - the descriptor, not the name
            access &= _OF_A_FILE
        rule = _PathBeneath(allowed=access, parent=parent)
        kernel.syscall(f"allow {path}", _SYS_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)
