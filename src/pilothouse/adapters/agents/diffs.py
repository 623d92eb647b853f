"""How many lines a unified diff adds and removes, by file. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_FILE = re.compile(r"(?:---|\+\+\+) (?:[ab]/)?([^\t\r\n]+)")


@dataclass(slots=True)
class Change:
    added: int = 0
    removed: int = 0


def changes_of(diff: str) -> dict[str, Change]:
    """By path, without the ``a/`` and ``b/`` before it or a slash at its beginning. What is no diff has none."""
    changes: dict[str, Change] = {}
    current = Change()
    old = new = 0  # lines left of the hunk: only they tell a line that was removed from a header
    for line in diff.split("\n"):
        if old > 0 or new > 0:
            if line.startswith("+"):
                current.added, new = current.added + 1, new - 1
            elif line.startswith("-"):
                current.removed, old = current.removed + 1, old - 1
            elif not line.startswith("\\"):
                old, new = old - 1, new - 1
        elif found := _HUNK.match(line):
            old, new = (int(count) if count else 1 for count in found.groups())
        elif (found := _FILE.match(line)) and found[1] != "/dev/null" and found[1] != "dev/null":
            current = changes.setdefault(found[1].lstrip("/"), Change())
    return changes
