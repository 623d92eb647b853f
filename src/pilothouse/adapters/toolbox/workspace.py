"""Files of a workspace, reached without ever leaving it.

Every step of a path is taken from the directory before it, as it was opened, and symbolic links are followed by us:
what somebody changes meanwhile cannot lead outside, nor into ``.git``. Blocking: call it on a thread. Knows no tool.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import PurePosixPath

from pilothouse.errors import BadInput

_MOST_LINKS = 40
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # NONBLOCK: a pipe must not keep us waiting
_TEMPORARY = ".pilothouse-"


class Workspace:
    """One folder. Paths are relative to it; an absolute one that lies in it is understood."""

    def __init__(self, root: str) -> None:
        """Raises ``BadInput`` when there is none."""
        if not root:
            fix = "choose a repository for this conversation"
            raise BadInput("this conversation has no workspace", field="workspace", fix=fix)
        self.root = os.path.realpath(root)

    def relative(self, path: str) -> str:
        """A path in its plainest form. Raises ``BadInput`` for one that leads outside."""
        return "/".join(self._parts(path)) or "."

    @contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """A descriptor of a directory. Raises ``BadInput``."""
        with self._located(path) as (parent, name):
            descriptor = self._open(name, _DIRECTORY, parent, path)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def file(self, path: str) -> Iterator[int]:
        """A descriptor of a regular file, for reading. Raises ``BadInput``."""
        with self._located(path) as (parent, name):
            descriptor = self._open(name, _FILE, parent, path)
            try:
                found = os.fstat(descriptor)
                if stat.S_ISDIR(found.st_mode):
                    raise BadInput(f"{path!r} is a directory", field="path", fix="use list_dir")
                if not stat.S_ISREG(found.st_mode):
                    raise BadInput(f"{path!r} is no regular file", field="path")
                yield descriptor
            finally:
                os.close(descriptor)

    def write(
        self,
        path: str,
        content: bytes,
        seen: os.stat_result | None,
        last: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> bool:
        """Replace a file as a whole, or make it, with the directories above it; whoever reads it meanwhile sees either.

        ``seen`` is the file as it was read, None when it is to be made or replaced whatever it holds. ``last`` is
        around the step that does it: what it raises is raised, and nothing is done. Answers whether the file was made.
        Raises ``BadInput``, also when it has changed since."""
        with self._located(path, make=True) as (parent, name):
            before = self._replaced(parent, name, path, seen)
            temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
            try:
                self._fill(temporary, parent, content, before)
                with last():
                    self._replaced(parent, name, path, seen)  # writing took its time
                    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError as error:
                _remove(temporary, parent)
                raise self._failed(error, path) from None
            except BaseException:
                _remove(temporary, parent)
                raise
            return before is None

    def _replaced(self, parent: int, name: str, path: str, seen: os.stat_result | None) -> os.stat_result | None:
        """What is there now. Raises ``BadInput`` for what must not be replaced."""
        before = _status(parent, name)
        if name == "." or (before is not None and not stat.S_ISREG(before.st_mode)):
            raise BadInput(f"{path!r} is no regular file", field="path")
        if seen is not None and (before is None or _identity(before) != _identity(seen)):
            raise BadInput(f"{path!r} was changed by somebody else meanwhile", field="path", fix="read it again")
        return before

    def _fill(self, name: str, parent: int, content: bytes, before: os.stat_result | None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, 0o666, dir_fd=parent)
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            file.write(content)
            file.flush()
            os.fsync(descriptor)

    @contextmanager
    def _located(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The directory that ``path`` ends in, opened, and the name there, which was no link when it was looked at."""
        parts = deque(self._parts(path))
        links = 0
        stack: list[int] = []
        try:
            stack.append(self._open(self.root, _DIRECTORY, None, path))
            name = "."
            while parts:
                name = parts.popleft()
                if name == "..":
                    if len(stack) == 1:
                        raise self._outside(path)
                    os.close(stack.pop())
                    name = "."
                    continue
                if name.lower() == ".git":
                    raise BadInput(f"{path!r} belongs to git", field="path", fix="use git through run_shell")
                if (target := _link(name, stack[-1])) is not None:
                    links += 1
                    if links > _MOST_LINKS:
                        raise BadInput(f"the symbolic links of {path!r} go in a circle", field="path")
                    if target.startswith("/"):
                        _close(stack[1:])
                        del stack[1:]
                    parts.extendleft(reversed(self._parts(target, link_of=path)))
                    name = "."
                elif parts:
                    if make:
                        _make(name, stack[-1])
                    stack.append(self._open(name, _DIRECTORY, stack[-1], path))
            yield stack[-1], name
        except OSError as error:
            raise self._failed(error, path) from None
        finally:
            _close(stack)

    def _parts(self, path: str, link_of: str = "") -> list[str]:
        """The steps of a path, from the root of the workspace where it is absolute. Only links may go up."""
        pure = PurePosixPath(path)
        if "\0" in path or (".." in pure.parts and not link_of):
            raise self._outside(path)
        if pure.is_absolute():
            if not pure.is_relative_to(self.root):
                raise self._outside(link_of or path)
            pure = pure.relative_to(self.root)
        return list(pure.parts)

    def _open(self, name: str, flags: int, parent: int | None, path: str) -> int:
        try:
            return os.open(name, flags, dir_fd=parent)
        except OSError as error:
            raise self._failed(error, path) from None

    def _outside(self, path: str) -> BadInput:
        return BadInput(f"{path!r} leads outside of the workspace", field="path", fix="give a relative path inside it")

    def _failed(self, error: OSError, path: str) -> BadInput:
        match error.errno:
            case errno.ENOENT:
                return BadInput(f"there is no {path!r}", field="path", fix="list_dir shows what there is")
            case errno.ENOTDIR:
                return BadInput(f"{path!r} is no directory, or leads through a file", field="path")
            case errno.ELOOP:
                return BadInput(f"{path!r} became a symbolic link meanwhile", field="path")
        return BadInput(f"{path!r}: {error.strerror or error}", field="path")


def _link(name: str, parent: int) -> str | None:
    """What a symbolic link says; None when it is none, or there is nothing."""
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _make(name: str, parent: int) -> None:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        pass  # a file by that name is found out when it is opened


def _status(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _remove(name: str, parent: int) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except OSError:
        pass  # it was never made, or has its place already


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
