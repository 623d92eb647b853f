"""A turn without an engine: told inputs, it decides, records and folds them as an actor would."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.chat.backend import BackendEvent
from pilothouse.core.chat.calls import Features, Offered
from pilothouse.core.chat.events import TurnReceived
from pilothouse.core.chat.inputs import Heard, Say
from pilothouse.core.chat.kind import TurnKind
from pilothouse.core.chat.state import TurnState
from pilothouse.core.run.contract import Effect, Ended, NotStarted, TimeUp
from pilothouse.core.run.events import Event, Recorded, RunCreated
from pilothouse.core.run.inputs import Input, Outcome, Recover, Settle
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.rows import RunRow, project
from pilothouse.core.tools.spec import Permit, ToolAnswer, ToolSpec

TURN = "turn-1"
KIND = TurnKind()
TOOLS = (
    Offered(name="look", repeatable=True),
    Offered(name="write"),
    Offered(name="ask", permit=Permit.ASK),
    Offered(name="never", permit=Permit.DENY),
    Offered(name="tab", spec=ToolSpec(name="tab", description="the sender's own", parameters={"type": "object"})),
)


def say(*, features: Features | None = None, tools: tuple[Offered, ...] = TOOLS, **given: Any) -> Say:
    received = {"message_id": "m1", "message": "hello", "backend": "script", "timeout_ms": 60_000, **given}
    return Say(
        created=RunCreated(kind="turn", name="hello", owner="alice", session_id="chat-1", root_run_id=TURN),
        received=TurnReceived(features=features or Features(), tools=tools, **received),
    )


class Turn:
    """``flying`` are the effects that have been begun and have not answered; ``begun`` all there ever were."""

    def __init__(self, said: Say | None = None, **given: Any) -> None:
        self.state: TurnState = KIND.initial(TURN)
        self.log: list[Recorded] = []
        self.row: RunRow | None = None
        self.now = 1_000
        self.flying: dict[str, Effect] = {}
        self.begun: list[Effect] = []
        self.tell(said or say(**given))

    def tell(self, given: Input) -> list[Event]:
        """What was recorded. Raises what ``decide`` raises; then nothing was."""
        before = len(self.log)
        self._fold(KIND.decide(self.state, given))
        self._settle()
        if not isinstance(given, Recover):
            self._withdraw()
        if isinstance(given, Outcome):
            self.flying.pop(given.key, None)
        self.dispatch()
        if isinstance(given, Recover):
            for key, effect in KIND.unfinished(self.state).items():
                self.flying.setdefault(key, effect)  # followed to its end, though it is not wanted
        return [recorded.event for recorded in self.log[before:]]

    def restart(self, *known: str) -> list[Event]:
        """The owner is gone with all it had in flight, and another one takes over."""
        self.flying.clear()
        return self.tell(Recover(epoch=2, instance="i2", known=frozenset(f"{TURN}/{key}" for key in known)))

    def _withdraw(self) -> None:
        """What was admitted and never begun."""
        while True:
            todo = KIND.todo(self.state)
            never = [key for key in KIND.unfinished(self.state) if key not in todo and key not in self.flying]
            if not never:
                return
            for key in never:
                self._fold(KIND.decide(self.state, Outcome(key=key, result=NotStarted())))
            self._settle()

    def dispatch(self) -> None:
        running = self.lifecycle() is Lifecycle.RUNNING
        for key, effect in self.todo.items():
            if key not in self.flying and (running or not effect.gated):
                self.flying[key] = effect
                self.begun.append(effect)

    @property
    def todo(self) -> dict[str, Effect]:
        return dict(KIND.todo(self.state))

    @property
    def unwanted(self) -> list[str]:
        return [key for key in self.flying if key not in self.todo]

    def _settle(self) -> None:
        for _ in range(1_000):
            events = KIND.decide(self.state, Settle())
            if not events:
                return
            self._fold(events)
        raise AssertionError("it never settles")

    def _fold(self, events: Any) -> None:
        for event in events:
            recorded = Recorded(TURN, len(self.log) + 1, self.now, event)
            self.log.append(recorded)
            self.state = KIND.evolve(self.state, recorded)
            self.row = project(self.row, recorded)

    # What happens to it.

    def hear(self, *said: BackendEvent, call: int | None = None) -> list[Event]:
        number = call or (self.state.last.number if self.state.last else 1)
        return self.tell(Heard(key=f"call/{number}", said=said))

    def land(self, key: str, result: msgspec.Struct) -> list[Event]:
        return self.tell(Outcome(key=key, result=result))

    def answer_tool(self, call_id: str, result: Any = "ok", *, attempt: int = 1, **more: Any) -> list[Event]:
        answer = ToolAnswer(ok=more.pop("ok", True), result=result, **more)
        return self.land(f"tool/{call_id}/{attempt}", answer)

    def time_up(self, key: str) -> list[Event]:
        timer = self.state.timers[key]
        self.now = max(self.now, timer.until)
        return self.land(key, TimeUp())

    def end_unwanted(self) -> None:
        """Whatever is not wanted any more has ended."""
        while keys := self.unwanted:
            self.land(keys[0], Ended())

    def lifecycle(self) -> Lifecycle:
        return self.state.common.lifecycle

    def kinds(self) -> list[str]:
        return [recorded.event.type_name() for recorded in self.log]

    def last(self, kind: type[Event]) -> Any:
        return next(r.event for r in reversed(self.log) if type(r.event) is kind)


def names(events: list[Event]) -> list[str]:
    return [event.type_name() for event in events]
