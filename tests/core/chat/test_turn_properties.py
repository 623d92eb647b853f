"""Whatever a backend says and whoever does what in whichever order: what always holds of a turn."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.turns import KIND, TOOLS, TURN, Turn, say

from pilothouse.core.chat import backend as b
from pilothouse.core.chat.answers import OPTIONS
from pilothouse.core.chat.blocks import blocks_of, content_of, messages_of
from pilothouse.core.chat.calls import BackendEnd, CallStatus, Features, OnApproval
from pilothouse.core.chat.effects import CallBackend, CallEnded, RunTool, Title, TookTooLong
from pilothouse.core.chat.events import BackendAborted, BackendEnded, TitleUpdated, UsageRecorded
from pilothouse.core.chat.inputs import Confirm, Heard, Steer
from pilothouse.core.chat.result import result_of
from pilothouse.core.chat.shown import Shown
from pilothouse.core.chat.state import TextPart, TurnState
from pilothouse.core.chat.tool_events import PermitRemembered, ToolEnded, ToolReported, ToolStarted
from pilothouse.core.run.contract import Ended, Failed, Timer, TimeUp
from pilothouse.core.run.events import Recorded, RunCanceled, RunRecovered, RunResumed
from pilothouse.core.run.inputs import Answer, Cancel, Pause, Resume, Retry, Stop
from pilothouse.core.run.lifecycle import TERMINAL, TERMINAL_EVENTS, Lifecycle
from pilothouse.core.tools.spec import ToolAnswer
from pilothouse.engine.driving.effects import Done
from pilothouse.engine.kinds import REGISTRY
from pilothouse.errors import PilothouseError

IDS = st.sampled_from(["a", "b", "c", "d/1"])
NAMES = st.sampled_from(["look", "look", "write", "ask", "ask", "never", "ghost", "plan", "plan_respond", "tab", ""])
LANES = st.sampled_from(["", "", "a", "b"])
TEXT = st.sampled_from(["x", "yy", "z ", "", "ü", "\ud800"])
ARGS = st.sampled_from([None, {}, {"n": 1}, {"n": {"m": [1, "\udfff"]}}])
RESULT = st.sampled_from([None, 1, "ok", {"x": [1, 2]}, (1, 2), float("inf")])


def _call(**fixed: Any) -> st.SearchStrategy[b.BackendEvent]:
    return st.builds(
        b.ToolCalled,
        id=IDS,
        name=NAMES,
        arguments=ARGS,
        lane=LANES,
        executor=st.sampled_from(["", "", "server", "server", "go", "client", "sim"]),
        **{name: st.just(value) for name, value in fixed.items()},
    )


SAID = st.one_of(
    st.builds(b.Said, TEXT, LANES),
    st.builds(b.Said, TEXT, LANES),
    st.builds(b.Thought, TEXT, LANES, begins=st.booleans(), ends=st.booleans()),
    _call(),
    _call(),
    _call(partial=True),
    st.builds(b.ToolGenerating, id=IDS, name=NAMES, lane=LANES),
    st.builds(b.ToolArguments, id=IDS, delta=st.sampled_from(["{", '"n":1', "}", "{}", ""]), name=NAMES),
    st.builds(
        b.ToolAnswered,
        id=IDS,
        name=NAMES,
        success=st.booleans(),
        result=RESULT,
        status=st.sampled_from(["", "success", "skipped", "nonsense"]),
    ),
    st.builds(b.LaneOpened, id=IDS, agent=NAMES, lane=LANES),
    st.builds(b.LaneClosed, id=st.sampled_from(["", "a", "b"])),
    st.builds(b.Structured, kind=NAMES, data=RESULT),
    st.builds(b.ConversationKnown, st.sampled_from(["c1", "c2", ""])),
    st.builds(b.Titled, TEXT),
    st.builds(b.Noticed, kind=st.sampled_from(["compaction_done", "steering_applied", "backend_error"])),
    st.builds(b.Noticed, kind=st.just("steering_applied"), data=st.just({"steeringId": "s1"})),
    st.builds(
        b.Spent, input_tokens=st.integers(0, 9), model=st.sampled_from(["", "m"]), cost=st.sampled_from([None, 1])
    ),
    st.builds(b.Asked, request_id=st.sampled_from(["r1", "r/2"]), tool=NAMES, can_remember=st.booleans()),
    st.builds(b.NotUnderstood, why=TEXT),
    st.builds(b.Failed, message=TEXT),
)
ENDS: st.SearchStrategy[b.BackendEvent] = st.one_of(
    st.builds(b.Completed, status=st.sampled_from(["complete", "complete", "complete", "error", "cancelled"])),
    st.builds(b.Paused, checkpoint_id=TEXT.filter(str.isascii), pending=st.lists(IDS, max_size=3).map(tuple)),
)
CHUNKS = st.lists(SAID, max_size=6)
AFTERWARDS = (ToolReported, TitleUpdated, BackendAborted, PermitRemembered, UsageRecorded, RunResumed, RunCanceled)
"""What may still be recorded of a leg that has ended."""


class AnyTurn(RuleBasedStateMachine):
    turn: Turn

    @initialize(
        features=st.builds(
            Features,
            reports=st.booleans(),
            steers=st.booleans(),
            aborts=st.booleans(),
            repeats=st.booleans(),
            own_tools=st.sampled_from([False, False, True]),
        ),
        auto_execute=st.sampled_from([True, True, True, False]),
        on_approval=st.sampled_from([OnApproval.WAIT, OnApproval.WAIT, OnApproval.REFUSE, OnApproval.RUN]),
        headless=st.booleans(),
        title=st.booleans(),
    )
    def begin(self, **given: Any) -> None:
        self.turn = Turn(say(**given))
        self.said = ""
        """What the turn itself answered, as far as a request was open."""
        self.restarts = 0

    # --- what happens ---

    def _tell(self, given: Any) -> None:
        try:
            self.turn.tell(given)
        except PilothouseError:
            pass  # a refusal records nothing

    @rule(chunk=CHUNKS, ends=st.none() | ENDS, after=st.lists(SAID, max_size=2), late=st.sampled_from([0, 0, 0, 1]))
    def hear(self, chunk: list[Any], ends: Any, after: list[Any], late: int) -> None:
        request = self.turn.state.request
        number = (self.turn.state.last.number if self.turn.state.last else 1) - late
        if request is not None and not late:
            self.said += "".join(one.text for one in chunk if isinstance(one, b.Said) and not one.lane)
        more = [ends, *after] if ends is not None else []
        self.turn.tell(Heard(key=f"call/{number}", said=(*chunk, *more)))

    @rule(data=st.data())
    def land(self, data: st.DataObject) -> None:
        if not self.turn.flying:
            return
        key = data.draw(st.sampled_from(sorted(self.turn.flying)))
        effect = self.turn.flying[key]
        unwanted = key in self.turn.unwanted
        results: list[Any] = [Failed(error="it failed")]
        match effect:
            case Timer():
                results = [TimeUp()] if not unwanted else [Ended()]
                self.turn.now = max(self.turn.now, effect.until)
            case CallBackend():
                results += [CallEnded(), CallEnded(end=BackendEnd.FAILED, transient=True, retry_after_ms=5)]
            case RunTool():
                results += [ToolAnswer(ok=True, result=data.draw(RESULT), workflow_id="w"), ToolAnswer(ok=False)]
                results.append(TookTooLong())
            case _:
                results += [Done(), Title(title="A title")] if key == "title" else [Done()]
        if unwanted and effect.gated:
            results.append(Ended())
        self.turn.land(key, data.draw(st.sampled_from(results)))

    @rule(seconds=st.integers(0, 50))
    def time_passes(self, seconds: int) -> None:
        self.turn.now += seconds * 1000

    @rule(data=st.data(), answer=st.sampled_from([*OPTIONS, "nonsense"]), arguments=ARGS)
    def answer(self, data: st.DataObject, answer: str, arguments: Any) -> None:
        wait_id = data.draw(st.sampled_from([*sorted(self.turn.state.common.waits), "nobody"]))
        self._tell(Answer(wait_id=wait_id, answer=answer, by="bob", arguments=arguments))

    @rule(
        call=IDS,
        status=st.sampled_from(["accepted", "rejected", "background", "success", "error", "nonsense"]),
        scope=st.sampled_from(["once", "once", "chat", "always", "nonsense"]),
        result=RESULT,
    )
    def confirm(self, call: str, status: str, scope: str, result: Any) -> None:
        self._tell(Confirm(tool_call_id=call, status=status, by="bob", scope=scope, result=result))

    @rule(steering_id=st.sampled_from(["s1", "s2"]))
    def steer(self, steering_id: str) -> None:
        self._tell(Steer(steering_id=steering_id, content="left"))

    @rule(given=st.sampled_from([Stop(), Stop(), Cancel(), Pause()]))
    def end(self, given: Any) -> None:
        self._tell(given)

    @rule(given=st.sampled_from([Resume(), Retry()]))
    def go_on(self, given: Any) -> None:
        self._tell(given)

    @precondition(lambda self: self.turn.lifecycle() not in TERMINAL)
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        held = [key for key, effect in self.turn.state.open.items() if isinstance(effect, CallBackend | RunTool)]
        known = data.draw(st.lists(st.sampled_from(held), unique=True)) if held else []
        self.turn.restart(*known)
        self.restarts += 1

    @rule()
    def all_that_is_unwanted_ends(self) -> None:
        self.turn.end_unwanted()

    # --- what holds ---

    @invariant()
    def text_is_neither_lost_nor_doubled(self) -> None:
        if hasattr(self, "turn"):
            assert content_of(self.turn.state) == self.said.replace("\ud800", "?")

    @invariant()
    def a_tool_is_begun_once_unless_a_restart_lost_one_that_may_be_repeated(self) -> None:
        if not hasattr(self, "turn"):
            return
        attempts: dict[str, int] = {}
        ended: dict[str, int] = {}
        recovered = False
        repeatable = {tool.name for tool in TOOLS if tool.repeatable}
        for recorded in self.turn.log:
            match recorded.event:
                case RunRecovered():
                    recovered = True
                case ToolStarted(tool_call_id=call_id, attempt=attempt):
                    assert attempt == attempts.get(call_id, 0) + 1
                    assert attempt == 1 or (recovered and self.turn.state.calls[call_id].name in repeatable)
                    assert call_id not in ended
                    attempts[call_id] = attempt
                case ToolEnded(tool_call_id=call_id):
                    assert call_id not in ended, f"{call_id} ended twice"
                    ended[call_id] = 1
        fresh = [effect.key for effect in self.turn.begun if isinstance(effect, RunTool | CallBackend)]
        adopted = [e.key for e in self.turn.begun if isinstance(e, RunTool | CallBackend) and e.adopted]
        assert len(fresh) - len(adopted) == len({*fresh}), "an effect was begun twice"
        if not self.restarts:
            keys = [effect.key for effect in self.turn.begun]
            assert len(keys) == len({*keys}), "a key came again"

    @invariant()
    def a_leg_has_one_end_and_nothing_happens_after_it(self) -> None:
        if not hasattr(self, "turn"):
            return
        over = False
        for recorded in self.turn.log:
            event = recorded.event
            if over:
                assert isinstance(event, AFTERWARDS), event
            if event.type_name() in TERMINAL_EVENTS:
                assert not over or isinstance(event, RunCanceled)
                over = True
            elif isinstance(event, RunResumed):
                over = False

    @invariant()
    def an_ended_turn_owes_only_housekeeping(self) -> None:
        if not hasattr(self, "turn"):
            return
        state, row = self.turn.state, self.turn.row
        assert row is not None
        assert row.detail.get("owed", 0) == len(state.housekeeping)
        assert [wait.id for wait in row.waits] == list(state.common.waits)
        if state.common.terminal:
            assert not state.open
            assert not state.common.waits
            assert {*self.turn.todo} == {*state.housekeeping}
            left = [call for call in state.live.values() if call.status is not CallStatus.PENDING and call.ours]
            assert not left
            silent = [part for part in state.steering.values() if not part.call and not part.told]
            assert not silent or state.common.lifecycle is not Lifecycle.SUCCEEDED, "it was said, and nobody heard it"
            result = result_of(state)
            assert result.success is (state.common.lifecycle is Lifecycle.SUCCEEDED)
            assert result.success or result.error, "whatever went wrong says so"
        if state.common.lifecycle is Lifecycle.STOPPING:
            assert not [effect for effect in self.turn.todo.values() if effect.gated]

    @invariant()
    def it_never_hangs(self) -> None:
        """While it runs, something is in flight or a person is asked."""
        if not hasattr(self, "turn"):
            return
        state = self.turn.state
        if state.common.lifecycle in TERMINAL:
            return
        waits = bool(state.common.waits) or any(call.status is CallStatus.PENDING for call in state.live.values())
        assert self.turn.flying or waits

    def teardown(self) -> None:
        if hasattr(self, "turn"):
            _fold_again(self.turn)


def _fold_again(turn: Turn) -> None:
    """The log as it would be stored gives the same state, and every prefix of it something that can be shown."""
    stored = REGISTRY.decode(REGISTRY.encode([recorded.event for recorded in turn.log]))
    state = KIND.initial(TURN)
    shown, ends = Shown(TURN), 0
    for recorded, event in zip(turn.log, stored, strict=True):
        assert event == recorded.event
        state = KIND.evolve(state, Recorded(TURN, recorded.seq, recorded.at, event))
        told = shown.show(recorded)
        ends += told is not None and told["type"] in ("done", "error")
        KIND.todo(state)
        if state.received is not None:
            messages_of(state)
            result_of(state)
    assert _joined(state) == _joined(turn.state)
    kept = blocks_of(state)
    for part in state.parts:
        part.block = None
    assert blocks_of(state) == kept, "a block was kept that has changed since"
    legs = sum(isinstance(r.event, RunResumed) for r in turn.log) + 1
    assert ends == legs - (turn.lifecycle() not in TERMINAL)
    assert sum(isinstance(r.event, BackendEnded) for r in turn.log) <= turn.kinds().count("BACKEND_CALLED")


def _joined(state: TurnState) -> TurnState:
    for part in (*state.parts, *state.tails.values()):
        if isinstance(part, TextPart):
            assert isinstance(part.text, str)
    return state


AnyTurn.TestCase.settings = settings(
    max_examples=int(os.environ.get("TURNS", "60")),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestAnyTurn = AnyTurn.TestCase
