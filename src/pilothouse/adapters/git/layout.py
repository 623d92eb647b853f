"""The files of ``.git`` that are read directly, each documented in ``gitrepository-layout``.

Where git has no command for a question, or a process per question costs more than the answer, this is the one
place that knows file names inside a repository. It reads, and removes what is no file; everything is written by git
itself.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEADS = b"refs/heads/"
_LONGEST_CHAIN = 5
"""As in git: symbolic refs that lead further are broken."""
_GITLINK_MODE = (0o160000).to_bytes(4, "big")
_DETACHED = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_MOST = 256 << 20
"""Bytes of a file that are read: more than any index has, less than a server has memory."""
_OPENED_BY_GIT = ("HEAD", "commondir", "config.worktree", "gitdir", "index")
"""What git opens of a worktree's own directory, whatever it is asked."""


class CommonDir(NamedTuple):
    """The directory all worktrees of a repository share, and whether it has a main worktree beside it."""

    path: str
    bare: bool


def read(path: Path) -> bytes | None:
    """A file without its final newline; None when it is not there, or is none that can be read to its end."""
    content = _content(path)
    return None if content is None else content.removesuffix(b"\n")


def _content(path: Path) -> bytes | None:
    """What ran in a worktree may have left anything here: a named pipe would be waited for for ever."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        raise
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def disarm(admin: Path) -> str:
    """Remove what lies at the name of one of git's own files and is none: git, and every other worktree's git, would
    wait for ever at a named pipe. Answers its name; empty when all is well."""
    for name in _OPENED_BY_GIT:
        place = admin / name
        try:
            mode = place.lstat().st_mode
        except OSError:
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
            place.unlink()
            return name
    return ""


def disarm_all(common_dir: str) -> None:
    """Of whatever worktree: git looks at all of them when one is added."""
    for admin in Path(common_dir, "worktrees").glob("*/"):
        disarm(admin)


def admin_dir(worktree: str | Path) -> Path | None:
    """Where git keeps HEAD and index of a linked worktree, as its ``.git`` file says; None when it has none, or when
    what ran there has closed the directory to us."""
    pointer = Path(worktree) / ".git"
    try:
        content = None if pointer.is_symlink() else read(pointer)
    except PermissionError:
        return None
    if content is None or not content.startswith(b"gitdir: "):
        return None
    return Path(worktree, os.fsdecode(content.removeprefix(b"gitdir: ")))


def is_registered(worktree: str | Path) -> bool:
    """Whether the worktree and a repository, whichever, point at each other. What is only a link to one is not it."""
    admin = None if Path(worktree).is_symlink() else admin_dir(worktree)
    back = None if admin is None else read(admin / "gitdir")
    if admin is None or back is None:
        return False
    return os.path.realpath(admin / os.fsdecode(back)) == os.path.realpath(Path(worktree) / ".git")


def registered(common_dir: str) -> Iterator[tuple[Path, Path]]:
    """(worktree, admin directory) of every linked worktree of a repository, also of those that are gone."""
    try:
        admins = sorted(Path(common_dir, "worktrees").iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for admin in admins:
        pointer = read(admin / "gitdir")
        if pointer:
            yield (admin / os.fsdecode(pointer)).parent, admin


def detached_head(admin: Path) -> str | None:
    """The commit of a detached HEAD; None when HEAD names a branch or cannot be read this way.

    A link names a branch to git, whatever the file it leads to holds: following it would have that branch moved."""
    head = admin / "HEAD"
    content = None if head.is_symlink() else read(head)
    return content.decode("ascii") if content is not None and _DETACHED.match(content) else None


def git_dir(worktree: Path) -> Path | None:
    """Where the repository of a working tree lies, be it beside its files or pointed at."""
    beside = worktree / ".git"
    found = beside if beside.is_dir() else admin_dir(worktree)
    return found if found is not None and _is_git_dir(found) else None


def modules(admin: Path) -> list[Path]:
    """The repositories of a worktree's submodules, of submodules in these too."""
    found: list[Path] = []
    for folder, names, _ in os.walk(admin / "modules"):
        if _is_git_dir(Path(folder)):
            found.append(Path(folder))
            names[:] = [name for name in names if name == "modules"]
    return found


def may_nest(admin: Path) -> bool:
    """Whether the worktree may hold other repositories that its index records; never a wrong no.

    An index has the mode of every entry as four bytes, whatever its version; to have git list them would be a process
    for every removal."""
    indexes = (admin / "index", *admin.glob("sharedindex.*"))
    return (admin / "modules").exists() or any(map(may_have_gitlinks, indexes))


def may_have_gitlinks(index: Path) -> bool:
    """Whether an index records other repositories; never a wrong no."""
    content = _content(index)
    return os.path.lexists(index) if content is None else _GITLINK_MODE in content


def _is_git_dir(folder: Path) -> bool:
    """A repository, or what a linked worktree has in place of one."""
    return (folder / "HEAD").is_file() and ((folder / "objects").is_dir() or (folder / "commondir").is_file())


def parents(common_dir: str, commit: str) -> tuple[str, ...] | None:
    """The parents of a commit that was made lately; None for one that lies in a pack, or is none."""
    try:
        content = zlib.decompress(_content(Path(common_dir, "objects", commit[:2], commit[2:])) or b"")
    except (OSError, zlib.error):
        return None
    kind, _, head = content.partition(b"\n\n")[0].partition(b"\0")
    if not kind.startswith(b"commit "):
        return None
    return tuple(line[7:].decode("ascii") for line in head.splitlines() if line.startswith(b"parent "))


def half_made(admin: Path) -> bool:
    """Whether ``git worktree add`` was killed in the middle: it locks with this reason until it is done."""
    return read(admin / "locked") == b"initializing" or not (admin / "index").exists()


def checked_out(common_dir: CommonDir) -> dict[str, str]:
    """Branches that are checked out in some worktree, or that a rebase or bisect there will come back to, with
    that worktree's path: what ``git branch -f`` refuses to move.

    Read from the files, because ``git worktree list`` does not name the latter, and because every git command
    that goes through all worktrees dies when one of them is being added or removed at that moment. Repositories
    that keep their refs in a ``reftable`` have no such file for HEAD: see :func:`keeps_heads_in_files`.
    """
    common = Path(common_dir.path)
    main = [] if common_dir.bare else [(common.parent if common.name == ".git" else common, common)]
    found: dict[str, str] = {}
    for worktree, admin in (*main, *registered(common_dir.path)):
        head = _symbolic(admin / "HEAD")
        rebased = (read(admin / folder / "head-name") or b"" for folder in ("rebase-merge", "rebase-apply"))
        bisected = read(admin / "BISECT_START") or b""
        for name in (head, *rebased, _HEADS + bisected.removeprefix(_HEADS)):
            if name.startswith(_HEADS) and name != _HEADS:
                branch = os.fsdecode(name.removeprefix(_HEADS))
                found.setdefault(branch, str(worktree))
                found.setdefault(real_branch(common_dir, branch), str(worktree))
    return found


def real_branch(common_dir: CommonDir, branch: str) -> str:
    """The branch that moves when ``branch`` does: itself, unless it is another name of one (``git symbolic-ref
    refs/heads/master refs/heads/main``). Such a name is always a file: git does not pack symbolic refs."""
    for _ in range(_LONGEST_CHAIN):
        name = _symbolic(Path(common_dir.path, "refs/heads", branch))
        if not name.startswith(_HEADS):
            break
        branch = os.fsdecode(name.removeprefix(_HEADS))
    return branch


def _symbolic(ref: Path) -> bytes:
    """What a symbolic ref refers to; empty when it is none. Old gits made it a link (``core.preferSymlinkRefs``)."""
    if ref.is_symlink():
        return os.fsencode(ref.readlink())
    content = read(ref) or b""
    return content.removeprefix(b"ref:").strip() if content.startswith(b"ref:") else b""


def keeps_heads_in_files(common_dir: CommonDir) -> bool:
    return not Path(common_dir.path, "reftable").exists()
