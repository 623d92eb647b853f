"""The calls of the Linux kernel that Python has no function for. Each raises ``OSError`` that says what was tried.

Owns numbers and structures, no policy. Standard library only; can be imported on every system.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

CLONE_NEWNS = 0x0002_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000
_MNT_DETACH = 2

_SYS_MOUNT_SETATTR = 442
_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1

_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x2008_0522
_LAST_CAPABILITY = 63


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def syscall(what: str, number: int, *arguments: Any) -> int:
    """A call by its number; integers are passed as longs. Raises ``OSError``."""
    longs = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(what, _libc().syscall(ctypes.c_long(number), *longs))


def unshare(flags: int) -> None:
    _checked("make namespaces", _libc().unshare(flags))


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    texts = [os.fsencode(text) for text in (source, target, kind)]
    answer = _libc().mount(*texts, ctypes.c_ulong(flags), os.fsencode(options) or None)
    _checked(f"mount {source} at {target}", answer)


def bind(source: str, target: str) -> None:
    """Have ``source``, and whatever is mounted below it, appear at ``target``, which exists."""
    mount(source, target, flags=MS_BIND | MS_REC)


def make_read_only(target: str) -> None:
    """The mount at ``target`` and those below it."""
    _set_read_only(target, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE)


def make_one_read_only(target: str, descriptor: int) -> None:
    """The mount whose root ``descriptor`` is, also when others lie over it or in it; ``target`` is for people."""
    _set_read_only(target, descriptor, b"", _AT_EMPTY_PATH)


def _set_read_only(target: str, directory: int, path: bytes, flags: int) -> None:
    attributes = _MountAttributes(set=_MOUNT_ATTR_RDONLY)
    syscall(
        f"make {target} read-only",
        _SYS_MOUNT_SETATTR,
        directory,
        path,
        flags,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )


def unmount(target: str) -> None:
    """Lazily, with everything below it."""
    _checked(f"unmount {target}", _libc().umount2(os.fsencode(target), _MNT_DETACH))


def pivot_root(new: str, old: str) -> None:
    """Make the mount at ``new`` the root and have the root so far appear at ``old``."""
    _checked(f"make {new} the root", _libc().pivot_root(os.fsencode(new), os.fsencode(old)))


def no_new_privileges() -> None:
    """From now on no program gains rights by being started, such as ``sudo``. Inherited; cannot be undone."""
    _checked("forbid new privileges", _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def drop_capabilities() -> None:
    """Give up every capability, for good."""
    for number in range(_LAST_CAPABILITY + 1):
        if _libc().prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # the first number this kernel does not know, or not ours to drop: none are held then
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _checked("drop capabilities", _libc().capset(header, (ctypes.c_uint32 * 6)()))


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _checked(what: str, answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")
    return answer
