"""What a sandboxed command gets to see: from folders by name to the entries of its policy.

Owns which folders of the system are shown, what of a repository must be writable to commit in a linked worktree, and
which entry lies over which. Looks at files; starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pilothouse.adapters.work.sandbox.policy import Entry, Kind
from pilothouse.errors import BadInput

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store")
_ELSEWHERE = ("/etc/resolv.conf", "/etc/localtime", "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/cert.pem")
"""Of these, some systems keep the file outside of /etc."""
_WRITTEN_BY_COMMITS = ("objects", "lfs")
_SAYS_WHERE_THE_REPOSITORY_IS = ("commondir", "gitdir", "config.worktree")
_MOST_LINKS = 40


class Scene:
    """Collects entries; what is added later lies over what was added before."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def show(self, *paths: Path, kind: Kind = Kind.READ) -> None:
        """Have ``paths`` appear where they are, and the links on the way to them. What does not exist is left out.

        Raises ``BadInput`` for the root: that would be no sandbox.
        """
        for path in sorted(dict.fromkeys(paths), key=lambda path: len(path.parts)):
            links, real = trail(path)
            if real == "/":
                raise BadInput(f"{str(path)!r} is the whole file system", fix="name the folders that are needed")
            self._entries += (entry for entry in links if entry not in self._entries)
            if Path(real).exists():
                self._add(Entry(kind, real, real))

    def replace(self, path: Path, source: Path) -> None:
        """Have ``source`` appear, writable, at ``path``."""
        self._entries.append(Entry(Kind.WRITE, str(path), os.path.realpath(source)))

    def hide(self, *paths: Path) -> None:
        """Take away what has appeared of ``paths`` so far."""
        for path in paths:
            real = os.path.realpath(path)
            if self._over(real) is not None:
                self._entries.append(Entry(Kind.EMPTY, real, ""))

    def _add(self, entry: Entry) -> None:
        over = self._over(entry.path)
        if over is None or (over.kind, over.path) != (entry.kind, over.source):
            self._entries.append(entry)

    def _over(self, path: str) -> Entry | None:
        """The entry that ``path`` would be a part of."""
        for entry in reversed(self._entries):
            if entry.kind is not Kind.LINK and Path(path).is_relative_to(entry.path):
                return entry
        return None


def system() -> Iterator[Path]:
    """What every program may need."""
    yield from map(Path, _SYSTEM)
    yield from (found for name in _ELSEWHERE if not (found := Path(name).resolve()).is_relative_to("/etc"))


def declared(paths: Iterable[str], field: str, private: Iterable[Path]) -> list[Path]:
    """Folders that a plan names. Raises ``BadInput`` for what is no folder or lies in ``private``."""
    found: list[Path] = []
    for index, name in enumerate(paths):
        path, where = Path(name), f"{field}[{index}]"
        if not path.is_absolute() or not path.is_dir():
            raise BadInput(f"{name!r} is not an absolute path of a folder that exists", field=where)
        real = path.resolve()
        if any(real.is_relative_to(own.resolve()) for own in private):
            raise BadInput(f"{name!r} lies in Pilothouse's own data directory", field=where)
        found.append(path)
    return found


def show_repository(scene: Scene, worktree: Path) -> None:
    """The worktree, and what git needs to commit in it: a detached HEAD moves, objects appear, and nothing else.

    What says where the repository is cannot be changed: Pilothouse's own git, which is not in the sandbox, believes it.
    Raises ``BadInput`` when the worktree and its repository do not point at each other.
    """
    scene.show(worktree, kind=Kind.WRITE)
    pointer = worktree / ".git"
    if not pointer.exists():
        return
    admin = _admin(worktree)
    common = admin.parent.parent
    scene.show(common, *_alternates(common / "objects"))
    scene.show(*(common / name for name in _WRITTEN_BY_COMMITS), admin, kind=Kind.WRITE)
    scene.show(common / "objects" / "info")
    _have_a_configuration_of_its_own(common, admin)
    scene.show(pointer, *(admin / name for name in _SAYS_WHERE_THE_REPOSITORY_IS))


def trail(path: Path) -> tuple[list[Entry], str]:
    """The symbolic links on the way to ``path``, and where it leads. Raises ``BadInput`` for links in a circle."""
    links: list[Entry] = []
    real = "/"
    waiting = list(reversed(path.parts[1:]))
    while waiting:
        part = waiting.pop()
        if part == "..":
            real = os.path.dirname(real)  # noqa: PTH120 - strings throughout, as ".." means the real parent here
            continue
        here = os.path.join(real, part)  # noqa: PTH118 - as above
        try:
            target = os.readlink(here)  # noqa: PTH115 - as above
        except OSError:
            real = here
            continue
        links.append(Entry(Kind.LINK, here, target))
        if len(links) > _MOST_LINKS:
            raise BadInput(f"the links of {str(path)!r} go in a circle")
        if target.startswith("/"):
            real = "/"
        waiting += [part for part in reversed(target.split("/")) if part not in ("", ".")]
    return links, real


def _admin(worktree: Path) -> Path:
    """Where git keeps what is the linked worktree's own."""
    try:
        said = (worktree / ".git").read_text(encoding="utf-8", errors="surrogateescape")
        admin = Path(worktree, said.removeprefix("gitdir: ").removesuffix("\n")).resolve(strict=True)
        back = (admin / "gitdir").read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
    except OSError:
        raise BadInput(f"{worktree} is not a linked worktree of a repository") from None
    if admin.parent.name != "worktrees" or Path(admin, back).resolve() != (worktree / ".git").resolve():
        raise BadInput(f"{worktree} and {admin} do not belong to each other")
    return admin


def _have_a_configuration_of_its_own(common: Path, admin: Path) -> None:
    """Where worktrees may have one, what is missing could be made: what is there is shown and stays as it is."""
    try:
        if "worktreeconfig" in (common / "config").read_text(encoding="utf-8", errors="replace").lower():
            (admin / "config.worktree").touch()
    except OSError:
        pass  # no configuration at all, or none that is ours to change


def _alternates(objects: Path) -> Iterator[Path]:
    """Other places of objects, such as those of the repository this one was cloned from."""
    try:
        lines = (objects / "info" / "alternates").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    yield from (Path(objects, line) for line in lines if line and not line.startswith("#"))
