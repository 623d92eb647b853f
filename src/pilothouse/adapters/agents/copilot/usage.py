"""What one run of the Copilot CLI used. Its events do not say; two files that it writes do.

The conversation's own file has a record per call of a model, written within a moment of the call: from there usage is
told while the agent works. The report it leaves at its end has sums. Both are of the whole conversation, earlier runs
included, so ``begin`` notes where the conversation stands when a run is launched.

Knows nothing of the agent's events but when they happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.launching import is_id
from pilothouse.adapters.agents.private import left_behind
from pilothouse.adapters.agents.reading import NOT_JSON, missing
from pilothouse.core.run.agents import Used
from pilothouse.core.run.usage import Tally, Usage

REPORT = "usage.json"
"""Where below the run's directory it is told to leave its sums."""
_BEGUN = "conversation.json"

SETTLED_S = 2.0
"""Seconds after which a record that is to come is in the file (seen: 0.5). It is told with the first event that is so
much younger, never sooner: whoever reads the events again finds the same."""


class Begun(msgspec.Struct, frozen=True):
    """Which conversation a run is, where its file may be, and how long that was when the run began."""

    conversation: str
    files: tuple[str, ...] = ()
    size: int = 0


def begin(work: AgentWork, homes: Iterable[Path]) -> Begun:
    """Note how a run begins, once: whoever launches it again finds it begun. ``homes`` are the directories in which the
    agent may keep its state. A conversation whose file is gone is not gone on with. Raises ``OSError``."""
    note = begun(work.run)
    if note is None:
        note = _beginning(work, tuple(homes))
        if work.run:
            Path(work.run, _BEGUN).write_bytes(msgspec.json.encode(note))
    return note


def begun(run: str) -> Begun | None:
    """How a run began; None when that is not known."""
    try:
        return msgspec.json.decode(left_behind(Path(run, _BEGUN)), type=Begun) if run else None
    except (OSError, *NOT_JSON):
        return None


def _beginning(work: AgentWork, homes: tuple[Path, ...]) -> Begun:
    for conversation in filter(is_id, (work.session_id, work.new_session_id)):
        files = tuple(str(home / "session-state" / conversation / "events.jsonl") for home in homes)
        if (found := _first(files)) is not None:
            return Begun(conversation, files, found.stat().st_size)
        if conversation == work.new_session_id:
            return Begun(conversation, files)
    return Begun("")


class _Tokens(msgspec.Struct, frozen=True, rename="camel"):
    """As it counts them: input includes cached tokens, output includes reasoning."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class _Call(_Tokens, frozen=True, rename="camel"):
    model: str = ""
    duration: float = 0
    """Milliseconds."""


class _Requests(msgspec.Struct, frozen=True):
    cost: float = 0
    """In premium requests."""


class _Model(msgspec.Struct, frozen=True):
    requests: _Requests = _Requests()
    usage: _Tokens = _Tokens()


class _Report(msgspec.Struct, frozen=True, rename="camel"):
    """Sums over a conversation; ``None`` where it does not say."""

    total_premium_request_cost: float = 0
    total_api_duration_ms: float = 0
    model_metrics: dict[str, _Model] | None = None


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    usage: _Call | None = None
    accounting_snapshot: _Report | None = None


class _Line(msgspec.Struct, frozen=True):
    type: str
    timestamp: str = ""
    data: _Data = _Data()


_line = msgspec.json.Decoder(_Line)
_report = msgspec.json.Decoder(_Report)
_RECORD, _SHUTDOWN = b'"session.usage_record"', b'"session.shutdown"'


class Ledger:
    """Usage of one run, each token of it told once."""

    def __init__(self, work: AgentWork) -> None:
        self._run = work.run
        self._fresh = not work.session_id
        self._begun: Begun | None = None
        self._file: Path | None = None
        self._read = 0
        self._waiting: list[tuple[float, str, Usage]] = []
        self._told = Tally()
        self._earlier = Tally()
        """What the conversation had used when this run began."""

    def settled(self, stamp: str) -> Iterator[Used]:
        """What is known for certain at an event of this time."""
        now = _time(stamp)
        self._look()
        while self._waiting and self._waiting[0][0] <= now - SETTLED_S:
            _, model, usage = self._waiting.pop(0)
            self._told.add(model, usage)
            yield Used(usage=usage, model=model)

    def rest(self) -> Iterator[Used]:
        """What was not told before; the run has ended."""
        self._look()
        for _, model, usage in self._waiting:
            self._told.add(model, usage)
            yield Used(usage=usage, model=model)
        self._waiting.clear()
        yield from self._from_report()

    @property
    def told(self) -> bool:
        """Whether anything was found at all."""
        return bool(self._told.by_model)

    def _from_report(self) -> Iterator[Used]:
        """What only the report has: calls that left no record, premium requests."""
        try:
            report = _report.decode(left_behind(Path(self._run, REPORT))) if self._run else None
        except (OSError, *NOT_JSON):
            return
        if report is None or (self._file is None and not self._fresh):
            return  # without the conversation's file nobody knows what of its sums is of this run
        known = Tally()
        known.include(self._earlier)
        known.include(self._told)
        for model, usage in missing(_sums(report), known):
            self._told.add(model, usage)
            yield Used(usage=usage, model=model)

    def _look(self) -> None:
        """Read what was written to the conversation's file since the last time. Whatever is wrong with it, it tells
        less."""
        try:
            if self._file is None and not self._open():
                return
            assert self._file is not None
            if self._file.stat().st_size <= self._read:
                return
            with self._file.open("rb") as file:
                file.seek(self._read)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._note(line)
                    self._read += len(line)
        except OSError:
            return

    def _open(self) -> bool:
        self._begun = self._begun or begun(self._run)
        self._file = _first(self._begun.files) if self._begun else None
        return self._file is not None

    def _note(self, line: bytes) -> None:
        earlier = self._begun is not None and self._read < self._begun.size
        if _RECORD not in line and not (earlier and _SHUTDOWN in line):
            return
        try:
            event = _line.decode(line)
        except NOT_JSON:
            return
        call, snapshot = event.data.usage, event.data.accounting_snapshot
        if event.type == "session.usage_record" and call is not None:
            usage = msgspec.structs.replace(_tokens(call), api_ms=round(call.duration))
            if earlier:
                self._earlier.add(call.model, usage)
            else:
                self._waiting.append((_time(event.timestamp), call.model, usage))
        elif event.type == "session.shutdown" and snapshot is not None and earlier:
            for model, usage in list(missing(_sums(snapshot), self._earlier)):
                self._earlier.add(model, usage)


def _first(files: tuple[str, ...]) -> Path | None:
    return next((path for path in map(Path, files) if path.is_file()), None)


def _time(stamp: str) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError):
        return 0


def _tokens(given: _Tokens) -> Usage:
    return Usage(
        input_tokens=given.input_tokens,
        output_tokens=given.output_tokens,
        cached_tokens=given.cache_read_tokens,
        cache_write_tokens=given.cache_write_tokens,
        reasoning_tokens=given.reasoning_tokens,
    )


def _sums(report: _Report) -> Tally:
    """By model; what is told in all only, under ``""``."""
    sums, models = Tally(), report.model_metrics or {}
    for model, metrics in models.items():
        sums.add(model, msgspec.structs.replace(_tokens(metrics.usage), premium_requests=metrics.requests.cost))
    sums.add("", Usage(premium_requests=report.total_premium_request_cost, api_ms=round(report.total_api_duration_ms)))
    return sums
