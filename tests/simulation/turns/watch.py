"""Watches simulated turns: the log as it is committed, the tools as they begin, the text as it leaves the backend.

It folds every committed batch by itself, so what it compares with the engine is the log and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from tests.simulation.report import recorded_in

from pilothouse.core.chat import backend as says
from pilothouse.core.chat.calls import BackendEnd, CallStatus
from pilothouse.core.chat.events import BackendCalled, BackendEnded, TextDelta
from pilothouse.core.chat.kind import TurnKind
from pilothouse.core.chat.result import result_of
from pilothouse.core.chat.state import TurnState
from pilothouse.core.chat.tool_events import ToolApproved, ToolEnded, ToolStarted
from pilothouse.core.run.events import Recorded, RunCanceled, RunResumed, RunStarted, StopAcknowledged
from pilothouse.core.run.lifecycle import TERMINAL, TERMINAL_EVENTS, Lifecycle
from pilothouse.core.run.rows import RunRow, project
from pilothouse.core.run.segments import Append
from pilothouse.engine.kinds import REGISTRY
from pilothouse.engine.tools.callers import ToolOutcome

if TYPE_CHECKING:
    from tests.simulation.turns.life import TurnLife
    from tests.simulation.turns.world import TurnWorld

KIND = TurnKind()
ASKS = frozenset({"pay"})
REPEATABLE = frozenset({"look"})
STOP_BOUND_S = 0.1 + 0.5


@dataclass
class TurnLog:
    """One turn as the log has it."""

    state: TurnState
    row: RunRow | None = None
    log: list[Recorded] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    """By request: what the turn itself answered."""
    ended: dict[int, BackendEnd] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)
    approved: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)
    leg_open: bool = False
    stopping: bool = False
    stopped_from: tuple[float, float, int] | None = None
    """When a stop was acknowledged, the delays handed out by then, and what had gone wrong by then."""
    calls: int = 0
    number: int = 0
    acknowledged: int = 0
    """The last sequence number somebody was told was durable."""

    @property
    def seq(self) -> int:
        return len(self.log)


class TurnWatch:
    def __init__(self, world: TurnWorld) -> None:
        self.world = world
        self.runs: dict[str, TurnLog] = {}
        self.first: str | None = None
        """The first promise that was broken."""
        self.said: dict[tuple[str, int], list[str]] = {}
        """By turn and request: the main text of each chunk that left the backend."""
        self.began: Counter[tuple[str, str]] = Counter()
        """How often the tool of a call really began, over all owners."""
        self.requests: Counter[tuple[str, int]] = Counter()
        self.power_was_lost = False

    def broken(self, what: str) -> None:
        if self.first is None:
            self.first = what
            self.world.tell(f"BROKEN: {what}")

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken(what)

    # The log.

    def appended(self, life: TurnLife, append: Append, position: int, holder: int) -> None:
        run = self.runs.setdefault(append.run_id, TurnLog(KIND.initial(append.run_id)))
        self.check(append.expected_seq == run.seq, f"{append.run_id}: batch at {append.expected_seq}, log at {run.seq}")
        for index, event in enumerate(REGISTRY.decode(append.body)):
            self._add(run, Recorded(append.run_id, append.expected_seq + 1 + index, append.at, event))
        life.acknowledging[append.run_id] = run.seq

    def _add(self, run: TurnLog, recorded: Recorded) -> None:
        self._judge(run, recorded)
        try:
            run.state = KIND.evolve(run.state, recorded)
            run.row = project(run.row, recorded)
        except Exception as error:
            self.broken(f"{recorded.id} {recorded.event.type_name()} cannot be folded: {error!r}")
        run.log.append(recorded)

    def _judge(self, run: TurnLog, recorded: Recorded) -> None:
        event, at = recorded.event, recorded.id
        match event:
            case RunStarted() | RunResumed():
                self.check(not run.leg_open, f"{at}: a leg is opened twice")
                run.leg_open, run.stopping = True, False
            case StopAcknowledged():
                run.stopping, run.stopped_from = True, self._now()
            case BackendCalled():
                run.number = event.call
                run.calls += 1
                self.check(event.call == run.calls, f"{at}: request {event.call} is the {run.calls}th")
                self.check(run.leg_open and not run.stopping, f"{at}: the backend is asked after a stop")
            case BackendEnded():
                self.check(event.call not in run.ended, f"{at}: request {event.call} ends twice")
                run.ended[event.call] = event.end
            case TextDelta(lane=""):
                run.texts[run.number] = run.texts.get(run.number, "") + event.text
            case ToolApproved():
                run.approved.add(event.tool_call_id)
            case ToolStarted():
                run.started[event.tool_call_id] += 1
                self.check(event.attempt == run.started[event.tool_call_id], f"{at}: attempt {event.attempt}")
                self.check(run.leg_open and not run.stopping, f"{at}: a tool is begun after a stop")
                self.check(event.tool_call_id not in run.over, f"{at}: a call that is over is begun")
            case ToolEnded():
                self.check(event.tool_call_id not in run.over, f"{at}: a call ends twice")
                run.over.add(event.tool_call_id)
        if event.type_name() in TERMINAL_EVENTS:
            discard = isinstance(event, RunCanceled) and run.state.common.lifecycle in TERMINAL
            self.check(run.leg_open or discard, f"{at}: a leg ends twice")
            self.check(not run.state.open, f"{at}: the leg ends while {list(run.state.open)} are open")
            if run.stopped_from is not None:
                self._judge_stop(at, run.stopped_from)
            run.leg_open, run.stopped_from = False, None

    def _now(self) -> tuple[float, float, int]:
        world = self.world
        late = max(0.0, world.faults.delayed_until - world.loop.now)
        return world.loop.now, world.faults.delayed - late, world.lives + sum(world.faults.failed_at.values())

    def _judge_stop(self, at: str, since: tuple[float, float, int]) -> None:
        now, _, troubles = self._now()
        if troubles == since[2]:
            bound = STOP_BOUND_S + self.world.faults.delayed - since[1]
            self.check(now - since[0] <= bound, f"{at}: stopped after {now - since[0]:.3f} s")

    def acknowledged(self, append: Append) -> None:
        if append.durable:
            run = self.runs[append.run_id]
            run.acknowledged = max(run.acknowledged, append.expected_seq + append.count)

    def published(self, life: TurnLife, run_id: str) -> None:
        """The engine shows a batch: its own state is that of the log now."""
        if not life.up or life is not self.world.life or life.supervisor is None:
            return
        actor = life.supervisor.live.get(run_id)
        if actor is not None:
            self.check(_told(actor._state) == _told(self.runs[run_id].state), f"{run_id}: the state is not the log's")

    def crashed(self, *, powerless: bool) -> None:
        """The tail of the log may be gone: what was acknowledged as durable may not."""
        self.power_was_lost = self.power_was_lost or powerless
        for run_id, run in list(self.runs.items()):
            stored = self.world.disk.runs.get(run_id)
            seq = stored.row.seq if stored else 0
            self.check(seq >= run.acknowledged, f"{run_id}: {run.acknowledged} was acknowledged, the log ends at {seq}")
            if seq != run.seq:
                again = self.runs[run_id] = TurnLog(KIND.initial(run_id), acknowledged=run.acknowledged)
                for recorded in recorded_in(stored.segments if stored else ()):
                    self._add(again, recorded)
                if stored is None:
                    del self.runs[run_id]

    # The world.

    def asked(self, turn_id: str, call: int) -> None:
        self.requests[turn_id, call] += 1
        run = self.runs.get(turn_id)
        intent = run is not None and any(
            isinstance(r.event, BackendCalled) and r.event.call == call for r in run.log[: run.acknowledged]
        )
        self.check(intent, f"{turn_id}: request {call} is made without its intent in the log")
        # A power cut may take an intent that was acted upon only if it was not acknowledged, which the above excludes.
        self.check(self.requests[turn_id, call] == 1, f"{turn_id}: request {call} is made twice")

    def says(self, turn_id: str, call: int, chunk: Iterable[says.BackendEvent]) -> None:
        text = "".join(one.text for one in chunk if isinstance(one, says.Said) and not one.lane)
        self.said.setdefault((turn_id, call), []).append(text)

    def begins(self, turn_id: str, call_id: str, name: str) -> None:
        """A tool really begins."""
        self.began[turn_id, call_id] += 1
        run = self.runs[turn_id]
        where = f"{turn_id}: {name} {call_id}"
        self.check(self.began[turn_id, call_id] == 1 or name in REPEATABLE, f"{where} began twice")
        started = sum(
            isinstance(r.event, ToolStarted) and r.event.tool_call_id == call_id for r in run.log[: run.acknowledged]
        )
        self.check(started >= self.began[turn_id, call_id], f"{where} began without its intent in the log")
        self.check(not run.stopping and run.leg_open, f"{where} began after a stop")
        self.check(name not in ASKS or call_id in run.approved or "pay" in run.state.grants, f"{where} was not allowed")

    def answered(self, turn_id: str, call_id: str, outcome: ToolOutcome) -> None:
        """An agent is told what came of a call: never what is not in the log."""
        self.world.tell(f"{turn_id}: {call_id} {'ok' if outcome.ok else outcome.error}")
        call = self.runs[turn_id].state.calls.get(call_id)
        where = f"{turn_id}: {call_id}"
        if outcome.pending:
            self.check(call is not None and call.background, f"{where} does not go on in the background")
        elif outcome.ok:
            good = call is not None and (call.status, call.result) == (CallStatus.SUCCESS, outcome.result)
            self.check(good, f"{where} was said to have come to a good end")
        elif call is not None:
            self.check(call.status is not CallStatus.SUCCESS, f"{where} came to a good end")

    # At the end.

    def judge_end(self) -> None:
        for run_id, run in self.runs.items():
            stored = self.world.disk.runs[run_id]
            log = recorded_in(stored.segments)
            self.check(list(log) == run.log, f"{run_id}: the log is not what was appended")
            self.check(msgspec.structs.replace(stored.row, epoch=0) == run.row, f"{run_id}: the row is not the log's")
            self.check(stored.row.detail.get("owed", 0) == 0, f"{run_id}: {list(run.state.housekeeping)} are owed")
            self.check(run.state.common.lifecycle in TERMINAL, f"{run_id} is {run.state.common.lifecycle} at the end")
            self.check(not run.state.open and not run.state.common.waits, f"{run_id}: something is open")
            left = [c.id for c in run.state.live.values() if c.ours and c.status is not CallStatus.PENDING]
            self.check(not left, f"{run_id}: calls {left} are not over")
            result = result_of(run.state)
            good = run.state.common.lifecycle is Lifecycle.SUCCEEDED
            self.check(result.success is good and (good or bool(result.error)), f"{run_id}: {result}")
            self._judge_text(run_id, run, result.content)

    def _judge_text(self, run_id: str, run: TurnLog, content: str) -> None:
        self.check(content == "".join(run.texts[n] for n in sorted(run.texts)), f"{run_id}: the answer is not its text")
        for number, text in run.texts.items():
            chunks = self.said[run_id, number]
            whole = "".join(chunks)
            self.check(whole.startswith(text), f"{run_id}/{number}: {text!r} of {whole!r}")
            if run.ended[number] in (BackendEnd.COMPLETE, BackendEnd.PAUSED):
                self.check(text == whole, f"{run_id}/{number}: {text!r} is not all of {whole!r}")
            elif not self.power_was_lost:  # the last chunk may be lost with its owner
                self.check(
                    len(text) >= len("".join(chunks[:-1])), f"{run_id}/{number}: more is lost than the last chunk"
                )


def _told(state: TurnState) -> tuple[Any, ...]:
    parts = [getattr(part, "text", part) for part in state.parts]
    return (parts, state.open, state.timers, state.housekeeping, state.common, state.live.keys(), state.last)
