"""The file system a sandboxed command sees: an empty one, with what its policy names mounted at its own path.

Owns the order of mounts and the devices. To be called in a mount namespace of one's own, once. What is not named is
not there: neither a file nor the socket of a service that would run commands for whoever asks. Standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path

from pilothouse.adapters.work.sandbox import kernel
from pilothouse.adapters.work.sandbox.policy import Entry, Kind

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_OLD, _NEW = "/old", "/new"
_SMALL = "mode=755,size=4m"


def enter(entries: tuple[Entry, ...], scratch: str, hosts: str) -> None:
    """Leave everything behind but ``entries``, /proc, /sys and the usual devices; the working directory becomes /.

    ``scratch`` is a directory that exists, ``hosts`` what /etc/hosts says, empty for the system's own. Raises
    ``OSError``.
    """
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    _tmpfs(scratch)
    for name in (_OLD, _NEW):
        Path(scratch + name).mkdir()
    kernel.pivot_root(scratch, scratch + _OLD)
    os.chdir("/")
    kernel.bind(_NEW, _NEW)
    empty = [os.open(_NEW, os.O_PATH | os.O_CLOEXEC)]
    for path in ("/proc", "/sys"):
        _appear(Entry(Kind.READ, path, path))
    _devices()
    for entry in entries:
        _appear(entry)
        if entry.kind is Kind.EMPTY:
            empty.append(os.open(_NEW + entry.path, os.O_PATH | os.O_CLOEXEC))
    if hosts:
        _say_hosts(hosts)
    for descriptor in empty:  # last: the places of later entries had to be made in them
        kernel.make_one_read_only("an empty directory", descriptor)
        os.close(descriptor)
    kernel.unmount(_OLD)
    os.chdir(_NEW)
    kernel.pivot_root(".", ".")
    kernel.unmount(".")
    os.chdir("/")


def _appear(entry: Entry) -> None:
    target = Path(_NEW + entry.path)
    match entry.kind:
        case Kind.LINK:
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_symlink() and not target.exists():
                target.symlink_to(entry.source)
        case Kind.EMPTY:
            target.mkdir(parents=True, exist_ok=True)
            _tmpfs(str(target))
        case Kind.READ | Kind.WRITE:
            source = Path(_OLD + entry.source)
            _make_place(target, is_directory=source.is_dir())
            kernel.bind(str(source), str(target))
            if entry.kind is Kind.READ:
                kernel.make_read_only(str(target))


def _make_place(target: Path, *, is_directory: bool) -> None:
    if is_directory:
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        target.touch(0o600)


def _devices() -> None:
    devices = Path(f"{_NEW}/dev")
    for name in _DEVICES:
        if Path(f"{_OLD}/dev/{name}").exists():
            _appear(Entry(Kind.WRITE, f"/dev/{name}", f"/dev/{name}"))
    for name in ("pts", "shm"):
        (devices / name).mkdir(parents=True)
    flags = kernel.MS_NOSUID | kernel.MS_NOEXEC
    kernel.mount("devpts", f"{devices}/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620")
    kernel.mount("tmpfs", f"{devices}/shm", "tmpfs", flags | kernel.MS_NODEV, "mode=1777")
    for name, says in _DEVICE_LINKS.items():
        (devices / name).symlink_to(says)


def _say_hosts(hosts: str) -> None:
    Path("/hosts").write_text(hosts, encoding="utf-8")
    kernel.bind("/hosts", f"{_NEW}/etc/hosts")
    kernel.make_read_only(f"{_NEW}/etc/hosts")


def _tmpfs(target: str) -> None:
    kernel.mount("tmpfs", target, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, _SMALL)
