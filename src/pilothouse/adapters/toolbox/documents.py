"""The documents that can be searched: Pilothouse's own, wherever it is installed, and those in the user's folders.

Owns which files count, how one is cut into sections, and noticing that something has changed. Blocking.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from pilothouse.errors import BadInput

SUFFIXES = frozenset({".md", ".mdx", ".markdown", ".txt", ".rst", ".adoc"})
MOST_FILES = 5_000
LARGEST = 1 << 20
"""Bytes of one file; a longer one is left out."""

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*")
_FENCE = re.compile(r"\s*(```|~~~)")
_LONGEST_SECTION = 20_000
_SHIPPED = Path(__file__).with_name("documentation")
_CHECKOUT = Path(__file__).parents[4] / "docs"


class Part(msgspec.Struct, frozen=True):
    """A section of a file: the headings above it, and the line it begins in."""

    path: str
    title: str
    line: int
    text: str


class Folder(msgspec.Struct, frozen=True):
    """``name`` stands before the paths of its files."""

    name: str
    path: Path


def own_documentation() -> Folder | None:
    """What comes with Pilothouse: in the package, or in the checkout it runs from."""
    for path in (_SHIPPED, _CHECKOUT):
        if (path / "plan-files.md").is_file():
            return Folder("pilothouse", path)
    return None


def folders_of(paths: Iterable[str]) -> Iterator[Folder]:
    """Raises ``BadInput`` for what is no folder."""
    for text in paths:
        path = Path(text).expanduser()
        if not path.is_dir():
            raise BadInput(f"{text} is no folder", field="PILOTHOUSE_DOCS", fix="give folders that exist")
        yield Folder(path.name or str(path), path.absolute())


def files_of(folder: Folder) -> Iterator[tuple[Path, int, int]]:
    """(path, size, time of change) of each document, links and hidden folders left out."""
    count = 0
    for place, inner, names in os.walk(folder.path):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if path.suffix.lower() not in SUFFIXES or path.is_symlink():
                continue
            try:
                found = path.stat()
            except OSError:
                continue
            if found.st_size <= LARGEST:
                count += 1
                if count > MOST_FILES:
                    return
                yield path, found.st_size, found.st_mtime_ns


def parts_of(folder: Folder, path: Path) -> Iterator[Part]:
    """A file cut at its headings; none of one that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    name = f"{folder.name}/{path.relative_to(folder.path).as_posix()}"
    above: list[str] = []
    begin, lines, fenced = 1, [], False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= _FENCE.match(line) is not None
        heading = None if fenced else _HEADING.fullmatch(line)
        if heading is None:
            lines.append(line)
            continue
        if any(one.strip() for one in lines):
            yield Part(name, _title(above, path), begin, "\n".join(lines)[:_LONGEST_SECTION])
        above = [*above[: len(heading[1]) - 1], heading[2]]
        begin, lines = number, []
    if any(one.strip() for one in lines):
        yield Part(name, _title(above, path), begin, "\n".join(lines)[:_LONGEST_SECTION])


def _title(above: list[str], path: Path) -> str:
    return " › ".join(above) or path.stem
