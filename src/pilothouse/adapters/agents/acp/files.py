"""Files that an agent reads and writes through us: those of its worktree and of the folders it was allowed, no others.

Wherever symbolic links lead. Asks nobody: whether a write is permitted is for ``permissions`` to say.
"""

from __future__ import annotations

import itertools
from pathlib import Path

MAX_FILE = 16 << 20
"""Bytes of a file, or of the part of it that was asked for, that are handed over."""


class Refused(Exception):
    """Raised for a file that the agent does not get; the text is for it to read."""


class Files:
    """``worktree`` and ``folders`` are absolute."""

    def __init__(self, worktree: str, folders: tuple[str, ...] = ()) -> None:
        self._worktree = Path(worktree)
        self._roots = tuple(Path(root).resolve() for root in (worktree, *folders))

    def place(self, path: str) -> Path:
        """Where ``path`` leads, without symbolic links. Raises ``Refused`` for what lies elsewhere."""
        try:
            found = (self._worktree / path).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # links in a circle, NUL characters
            raise Refused(f"{path!r} cannot be followed: {error}") from None
        if not any(found.is_relative_to(root) for root in self._roots):
            raise Refused(f"{path} is outside of the worktree and of the folders that are allowed")
        return found

    def holds(self, path: str) -> bool:
        """Whether ``place`` would answer."""
        try:
            self.place(path)
        except Refused:
            return False
        return True

    def read(self, path: str, line: int | None = None, limit: int | None = None) -> str:
        """From ``line`` (the first is 1), at most ``limit`` lines. Raises ``Refused``, ``OSError``."""
        start = max((line or 1) - 1, 0)
        stop = None if limit is None else start + max(limit, 0)
        lines: list[str] = []
        size = 0
        try:
            with self.place(path).open(encoding="utf-8", newline="") as file:
                for text in itertools.islice(file, start, stop):
                    lines.append(text)
                    size += len(text)
                    if size > MAX_FILE:
                        raise Refused(f"{path} is too large; ask for some of its lines")
        except UnicodeDecodeError:
            # Replaced characters would come back when it is written.
            raise Refused(f"{path} is not UTF-8 text") from None
        return "".join(lines)

    def write(self, path: str, content: str) -> str | None:
        """Answers what was in it before, None for a new file. Raises ``Refused``, ``OSError``."""
        place = self.place(path)
        if any(".git" in place.relative_to(root).parts for root in self._roots if place.is_relative_to(root)):
            # Git would run hooks from there, or look for the repository elsewhere.
            raise Refused(f"{path} belongs to git")
        place.parent.mkdir(parents=True, exist_ok=True)
        before = self._content(path) if place.exists() else None
        place.write_text(content, encoding="utf-8", newline="")
        return before

    def _content(self, path: str) -> str:
        try:
            return self.read(path)
        except Refused:
            return ""
