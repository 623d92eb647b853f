"""Full text over a handful of documents: SQLite's FTS5 in memory, ranked, with what was found shown in its place.

Knows only sections: where they come from is said by whoever makes the index. Blocking; one thread at a time.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pilothouse.errors import Unavailable

_WORD = re.compile(r"\w+")
_MOST_WORDS = 32
_SHORTEST_BEGINNING = 3
"""Letters of a word that may be the beginning of another."""
# fmt: off
_SAY_NOTHING = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "how", "i", "in", "is", "it",
    "my", "of", "on", "or", "that", "the", "this", "to", "was", "what", "when", "where", "which", "who", "why", "will",
    "with", "you", "your",
})
# fmt: on
_EXCERPT_TOKENS = 60

_MAKE = "CREATE VIRTUAL TABLE sections USING fts5(key UNINDEXED, title, text, tokenize = 'porter unicode61')"
_ADD = "INSERT INTO sections (key, title, text) VALUES (?, ?, ?)"
# A word in the title counts for several in the text.
_FIND = f"""
SELECT key, snippet(sections, 2, '', '', ' … ', {_EXCERPT_TOKENS}), bm25(sections, 0.0, 5.0, 1.0) AS rank
FROM sections WHERE sections MATCH ? ORDER BY rank, key LIMIT ?
"""


class Section(msgspec.Struct, frozen=True):
    """What is found as one. ``key`` says to its maker what it is."""

    key: str
    title: str
    text: str


class Found(NamedTuple):
    key: str
    excerpt: str


class Index:
    """Sections, as they were when it was made."""

    def __init__(self, sections: Iterable[Section]) -> None:
        """Raises ``Unavailable`` when this SQLite cannot search texts."""
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._connection.execute(_MAKE)
        except sqlite3.OperationalError as error:
            self._connection.close()
            raise Unavailable(f"this Python's SQLite cannot search texts: {error}") from None
        self._connection.executemany(_ADD, ((one.key, one.title, one.text) for one in sections))

    def find(self, query: str, limit: int) -> list[Found]:
        """The best first. What has all words comes before what has some; a word may be the beginning of one."""
        given = list(dict.fromkeys(word.lower() for word in _WORD.findall(query)))
        words = ([word for word in given if word not in _SAY_NOTHING] or given)[:_MOST_WORDS]
        if not words:
            return []
        found: dict[str, Found] = {}
        with self._lock:
            for joint in (" AND ", " OR "):
                asked = joint.join(map(_term, words))
                for key, excerpt, _ in self._connection.execute(_FIND, (asked, limit)):
                    found.setdefault(key, Found(key, " ".join(excerpt.split())))
                if len(found) >= limit:
                    break
        return list(found.values())[:limit]

    def close(self) -> None:
        self._connection.close()


def _term(word: str) -> str:
    """Quoted: nothing in it is an operator."""
    return f'"{word}"*' if len(word) >= _SHORTEST_BEGINNING else f'"{word}"'
