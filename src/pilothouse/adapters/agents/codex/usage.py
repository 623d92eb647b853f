"""What one run of Codex used. Its last event has the sum of the whole thread, earlier runs included; the file in which
it keeps the thread (its *rollout*) has a record per answer of a model, also of a run that was killed.

So ``begin`` notes how long that file is when a run is launched, and what stands behind that is of the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from pilothouse.adapters.agents.codex.events import Tokens
from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.launching import is_id
from pilothouse.adapters.agents.private import left_behind
from pilothouse.adapters.agents.reading import NOT_JSON, more
from pilothouse.core.run.agents import Used
from pilothouse.core.run.usage import NOTHING, Tally, Usage

_BEGUN = "thread.json"
_RECORD, _MODEL, _SUM = b'"token_usage_record"', b'"turn_context"', b'"token_count"'


class Begun(msgspec.Struct, frozen=True):
    """How a run began. ``homes`` are the directories in which its thread may be kept, that which Codex was told first.

    ``thread`` is what it goes on with, empty for a new one; with its file, how long that was, and what it had used."""

    homes: tuple[str, ...] = ()
    thread: str = ""
    file: str = ""
    size: int = 0
    used: Usage = NOTHING


class _Info(msgspec.Struct, frozen=True):
    total_token_usage: Tokens = Tokens()


class _Payload(msgspec.Struct, frozen=True):
    type: str = ""
    model: str | None = None
    usage: Tokens | None = None
    info: _Info | None = None


class _Line(msgspec.Struct, frozen=True):
    type: str = ""
    payload: _Payload = _Payload()


_line = msgspec.json.Decoder(_Line)


def usage_of(tokens: Tokens) -> Usage:
    return Usage(
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cached_tokens=tokens.cached_input_tokens,
        cache_write_tokens=tokens.cache_write_input_tokens,
        reasoning_tokens=tokens.reasoning_output_tokens,
    )


def begin(work: AgentWork, homes: tuple[str, ...]) -> Begun:
    """Note how a run begins, once: whoever launches it again finds it begun. ``homes`` are where Codex may keep the
    thread, the first for a new one. One whose file is gone is not gone on with. Raises ``OSError``."""
    note = begun(work.run)
    if note is None:
        note = _beginning(work.session_id, homes)
        if work.run:
            Path(work.run, _BEGUN).write_bytes(msgspec.json.encode(note))
    return note


def begun(run: str) -> Begun | None:
    """How a run began; None when that is not known."""
    try:
        return msgspec.json.decode(left_behind(Path(run, _BEGUN)), type=Begun) if run else None
    except (OSError, *NOT_JSON):
        return None


def spent(run: str, thread: str, model: str, told: Tokens | None) -> Iterator[Used]:
    """What a run that has ended used, by model. ``told`` is the sum of the thread as its last event has it: that counts
    where there are no records. ``model`` is used where they name none."""
    note = begun(run) or Begun()
    if note.thread != thread:
        note = Begun(homes=note.homes, file=_rollout(note.homes, thread)[1])
    found = _read(note.file, note.size, model)
    if not found.by_model and told is not None:
        found.add(model, more(usage_of(told), note.used))
    for name, usage in found.by_model.items():
        yield Used(usage=usage, model=name)


def _beginning(thread: str, homes: tuple[str, ...]) -> Begun:
    home, file = _rollout(homes, thread)
    if not file:
        return Begun(homes=homes)
    first = tuple(dict.fromkeys((home, *homes)))
    return Begun(homes=first, thread=thread, file=file, size=Path(file).stat().st_size, used=_sum(file))


def _rollout(homes: tuple[str, ...], thread: str) -> tuple[str, str]:
    """The home and the file of a thread; empty when there is none. The newest, if it was ever written anew."""
    for home in homes if is_id(thread) else ():
        if found := max(Path(home).glob(f"sessions/*/*/*/rollout-*-{thread}.jsonl"), default=None):
            return home, str(found)
    return "", ""


def _read(file: str, start: int, model: str) -> Tally:
    found = Tally()
    for line in _lines(file, start, _RECORD, _MODEL):
        if line.type == "turn_context":
            model = line.payload.model or model
        elif line.type == "token_usage_record" and line.payload.usage is not None:
            found.add(model, usage_of(line.payload.usage) + Usage(turns=1))
    return found


def _sum(file: str) -> Usage:
    used = NOTHING
    for line in _lines(file, 0, _SUM):
        if line.payload.type == "token_count" and line.payload.info is not None:
            used = usage_of(line.payload.info.total_token_usage)
    return used


def _lines(file: str, start: int, *marks: bytes) -> Iterator[_Line]:
    """Lines that hold one of ``marks``. Whatever is wrong with the file, it tells less."""
    if not Path(file).is_file():
        return
    try:
        with Path(file).open("rb") as content:
            content.seek(start)
            yield from _decoded(content, marks)
    except OSError:
        return


def _decoded(content: IO[bytes], marks: tuple[bytes, ...]) -> Iterator[_Line]:
    for line in content:
        if any(mark in line for mark in marks):
            try:
                yield _line.decode(line)
            except NOT_JSON:
                continue
