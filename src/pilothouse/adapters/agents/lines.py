"""The line protocol of Pilothouse's own agents: one JSON object a line, news as ``core.run.agents`` has it.

``type`` says which (``text``, ``toolStarted`` …); the last one is ``finished``. Spoken by the scripted agent and by the
agents of the in-memory twin. Other lines are kept as notes: a tool may have printed them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pilothouse.adapters.agents.endings import agrees, reason
from pilothouse.core.run.agents import MAX_TEXT, AgentEnded, News, Noted
from pilothouse.core.run.commands import Exit


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="finished", omit_defaults=True):
    """The agent's own verdict; nothing comes after it."""

    ok: bool = True
    error: str = ""
    transient: bool = False
    retry_after_ms: int = 0


_decoder: msgspec.json.Decoder[News | Finished] = msgspec.json.Decoder(News | Finished)


def encode(*told: News | Finished) -> bytes:
    """Whole lines, as such an agent prints them."""
    return b"".join(msgspec.json.encode(item) + b"\n" for item in told)


class LineReader:
    """Implements ``AgentReader``."""

    def __init__(self) -> None:
        self._finished: Finished | None = None

    @property
    def finished(self) -> bool:
        return self._finished is not None

    def line(self, line: bytes) -> Iterable[News]:
        try:
            told = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            text = line.decode(errors="replace").rstrip("\r\n")[:MAX_TEXT]
            return (Noted(text=text),) if text.strip() else ()
        if isinstance(told, Finished):
            self._finished = self._finished or told
            return ()
        return (told,)

    def end(self, exit: Exit, errors: str) -> AgentEnded:
        told = self._finished
        if told is None:
            why = reason(exit, errors)
            return AgentEnded(exit=exit, ok=False, error=f"it ended without saying how its work went; {why}")
        if told.ok and agrees(exit):
            return AgentEnded(exit=exit, ok=True)
        return AgentEnded(
            exit=exit,
            ok=False,
            error=told.error or reason(exit, errors),
            transient=told.transient,
            retry_after_ms=told.retry_after_ms,
        )
