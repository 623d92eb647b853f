"""What the scripted agent tells, as lines of the protocol that ``lines`` reads; and its memory of a conversation.

Standard library only: it runs in the agent's process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TextIO

MAX_PIECE = 8_192
"""Characters of one piece of text."""
MAX_TOLD = 16_384
"""Characters of a tool's input or output."""


class Voice:
    """Writes news, one line each, at once."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._calls = 0
        self._sums = {"toolCalls": 0, "linesAdded": 0, "linesRemoved": 0}

    def tell(self, type: str, **fields: Any) -> None:
        self.raw(json.dumps({"type": type, **fields}, ensure_ascii=False))

    def raw(self, line: str) -> None:
        self._out.write(f"{line}\n")
        self._out.flush()

    def speak(self, type: str, text: str) -> None:
        """A paragraph, in pieces that are not too long for a line."""
        whole = f"{text}\n"
        for start in range(0, len(whole), MAX_PIECE):
            self.tell(type, text=whole[start : start + MAX_PIECE])

    def begin(self, tool: str, title: str = "", input: str = "") -> str:
        """A use of a tool; answers its id."""
        self._calls += 1
        self.count_tool()
        call_id = str(self._calls)
        self.tell("toolStarted", call_id=call_id, tool=tool, title=title, input=input[:MAX_TOLD])
        return call_id

    def count_tool(self) -> None:
        """One more that was used."""
        self._sums["toolCalls"] += 1

    def end(self, call_id: str, tool: str, output: str = "", status: str = "succeeded") -> None:
        self.tell("toolEnded", call_id=call_id, tool=tool, status=status, output=output[:MAX_TOLD])

    def edited(self, path: str, change: str, added: int, removed: int) -> None:
        self._sums["linesAdded"] += added
        self._sums["linesRemoved"] += removed
        self.tell("fileEdited", path=path, change=change, lines_added=added, lines_removed=removed)

    def finish(self, error: str = "", *, retry_after_ms: int | None = None) -> None:
        """The verdict: without ``error`` success; with ``retry_after_ms`` a failure that may pass."""
        if any(self._sums.values()):
            self.tell("used", usage=self._sums)
        self.tell(
            "finished",
            ok=not error,
            error=" ".join(error.splitlines()),
            transient=retry_after_ms is not None,
            retry_after_ms=retry_after_ms or 0,
        )


class Conversation:
    """How often a conversation has been taken up, kept in the node's private directory. Without one it is always new.

    ``turn`` counts from 1. ``lost``: it was to be resumed, and is not known.
    """

    def __init__(self, private: str, resume: str, new: str) -> None:
        folder = Path(private, "scripted") if private else None
        place = folder / f"{resume}.json" if folder and resume else None
        before = _turns(place) if place else 0
        self.id = resume if before else new
        self.turn = before + 1
        self.lost = bool(resume) and not before
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{self.id}.json").write_text(json.dumps({"turns": self.turn}), encoding="utf-8")


def _turns(place: Path) -> int:
    try:
        return int(json.loads(place.read_text(encoding="utf-8"))["turns"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
