"""Any story at all of a plan with agents: whatever comes in, in whatever order, the rules hold and it can end."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.plan.agents import LOST, TIMEOUT, Agents, agent, canceled, done, failing, passing, tokens
from tests.core.plan.execution import SECOND_LIFE, good_result, task

from pilothouse.core.plan.effects import AnswerAgent, PhaseEffect, RunWork
from pilothouse.core.plan.integration import NoEvidence
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.plan.states import ACTIVE, TERMINAL
from pilothouse.core.run.agents import Asked, Permissions, SessionStarted, Text
from pilothouse.core.run.contract import Ended, NotStarted, TimeUp
from pilothouse.core.run.inputs import Answer, Cancel, CancelPart, Outcome, Pause, Resume, Retry, Stop
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.usage import NOTHING, Budget
from pilothouse.errors import PilothouseError

NAMES = ["a", "b", "c", "d", "e"]


class Story:
    """What may happen next, chosen by a seeded die."""

    def __init__(self, seed: int) -> None:
        self.die = random.Random(seed)
        self.number = 0
        self.run = Agents(
            agent("a", budget=self._budget()),
            agent("b", max_turns=3, resume_session=self.die.random() < 0.7),
            agent("c", "a", "b", budget=self._budget(), rerun=True),
            task("d", "a", checks=True),
            agent("e", "d"),
            budget=self._budget(),
            max_parallel=self.die.choice((0, 1, 2)),
            permissions=Permissions.ASK,
        )

    def _budget(self) -> Budget | None:
        return self.die.choice((None, Budget(tokens=20), Budget(turns=5, time_ms=10_000)))

    def step(self) -> None:
        moves: list[tuple[Callable[[], None], int]] = [
            (self._end_one, 10),
            (self._tell, 8),
            (self._time, 3),
            (self._answer, 4),
            (self._clean_up, 4),
            (self._verb, 3),
            (self._restart, 1),
        ]
        actions, weights = zip(*moves, strict=True)
        self.die.choices(actions, weights)[0]()

    def _end_one(self) -> None:
        todo = self.run.kind.todo(self.run.state)
        if not self.run.state.open:
            return
        key, effect = self.die.choice(list(self.run.state.open.items()))
        if not isinstance(effect, PhaseEffect):
            return
        name = self.run.state.nodes[effect.node_id].node.producer_id
        result: msgspec.Struct
        if key not in todo:
            result = canceled() if isinstance(effect, RunWork) else self.die.choice((Ended(), NotStarted()))
        elif isinstance(effect, RunWork) and isinstance(effect.spec, AgentSpec):
            news = tokens(self.die.randrange(8), turns=1, wall_ms=self.die.randrange(900))
            result = self.die.choice((done(news), done(), failing(), passing(news=(news,)), LOST, TIMEOUT, canceled()))
        elif effect.phase is Phase.COMMIT and self.die.random() < 0.2:
            result = NoEvidence()
        else:
            result = good_result(name, effect)
        self.run.give(Outcome(key=key, result=result))

    def _tell(self) -> None:
        agents = [
            self.run.state.nodes[effect.node_id].node.producer_id
            for effect in self.run.state.open.values()
            if isinstance(effect, RunWork) and isinstance(effect.spec, AgentSpec)
        ]
        if agents:
            self.number += 1
            news = self.die.choice(
                (
                    Text(text="…"),
                    SessionStarted(session_id=f"s{self.number}"),
                    tokens(self.die.randrange(6), turns=1),
                    Asked(request_id=f"r{self.die.randrange(4)}", tool="bash", can_remember=True),
                )
            )
            self.run.tell(self.die.choice(agents), news, to=self.number)

    def _time(self) -> None:
        if self.run.state.timers:
            self.run.give(Outcome(key=self.die.choice(list(self.run.state.timers)), result=TimeUp()))

    def _answer(self) -> None:
        waits = [wait for wait in self.run.state.common.waits.values() if wait.options]
        if waits:
            wait = self.die.choice(waits)
            self._try(Answer(wait_id=wait.id, answer=self.die.choice(wait.options), by="ann"))

    def _clean_up(self) -> None:
        for key, effect in list(self.run.state.housekeeping.items()):
            if isinstance(effect, AnswerAgent):
                self.run.give(Outcome(key=key, result=self.die.choice((TimeUp(), Ended()))))
        self.run.clean_up()

    def _verb(self) -> None:
        name = self.die.choice(NAMES)
        verbs = (
            Stop(),
            Pause(),
            Resume(),
            Resume(),
            Retry(),
            Retry(scopes=(name,), fresh=self.die.random() < 0.3),
            CancelPart(scope=name),
        )
        self._try(self.die.choice(verbs) if self.die.random() < 0.97 else Cancel())

    def _try(self, given: Stop | Answer | Retry | Cancel | CancelPart | Pause | Resume) -> None:
        try:
            self.run.give(given)
        except PilothouseError:
            pass  # a refusal changes nothing

    def _restart(self) -> None:
        if self.run.state.common.terminal:
            return
        working = [
            self.run.state.nodes[effect.node_id].node.producer_id
            for effect in self.run.state.open.values()
            if isinstance(effect, RunWork)
        ]
        known = [name for name in working if self.die.random() < 0.6]
        self.run.restart(*known, instance=SECOND_LIFE)


def check(run: Agents) -> None:
    state = run.state
    assert state.slots == sum(node.holds_slot for node in state.nodes.values())
    for node in state.nodes.values():
        told = sum((a.usage.total for attempt in node.attempts for a in attempt.agents), NOTHING)
        assert node.used.tokens == node.usage.total.tokens == told.tokens
        assert set(node.waits) == {w.id for w in state.common.waits.values() if w.scope == node.node.id}
        assert not node.waits or node.status in ACTIVE
        assert node.parked == (bool(node.waits) and state.open_effect(node.node.id) is None)
    assert state.used.tokens == sum(node.used.tokens for node in state.nodes.values())
    assert {key.removesuffix(".timer") for key in state.timers} <= set(state.common.waits)
    assert set(state.questions) <= set(state.common.waits)
    if state.common.lifecycle is Lifecycle.STOPPING:
        assert run.kind.todo(state) == {} and not state.timers
    if state.common.terminal:
        assert not state.open and not state.timers and not state.over
        assert not any(isinstance(effect, AnswerAgent) for effect in state.housekeeping.values())


def bring_to_an_end(run: Agents) -> None:
    """Everything goes well from here on; people answer, and resume what was stopped."""
    for _ in range(300):
        state = run.state
        if state.common.lifecycle is Lifecycle.CREATED:
            return
        if state.common.lifecycle in (Lifecycle.PAUSED, Lifecycle.PAUSING, Lifecycle.STOPPED):
            run.give(Resume())
        for key, effect in list(state.open.items()):
            if isinstance(effect, PhaseEffect):
                wanted = key in run.kind.todo(state)
                over = canceled() if isinstance(effect, RunWork) else Ended()
                run.give(Outcome(key=key, result=good_result("x", effect) if wanted else over))
        for wait in list(run.state.common.waits.values()):
            if run.state.common.terminal:
                break  # it was stopping, and has stopped: resumed the next time round
            if wait.options:
                run.give(Answer(wait_id=wait.id, answer=wait.options[0], by="ann"))
            else:
                run.give(Outcome(key=f"{wait.id}.timer", result=TimeUp()))
        run.clean_up()
        if run.state.common.terminal and run.lifecycle != "STOPPED" and not run.state.housekeeping:
            assert run.state.count(*TERMINAL) == len(run.state.nodes)
            return
    raise AssertionError(f"it never ends: {run.lifecycle} {run.statuses}")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 120))
def test_the_rules_hold_in_any_story_and_every_story_can_end(seed: int, length: int) -> None:
    story = Story(seed)
    for _ in range(length):
        story.step()
        check(story.run)
        if story.run.lifecycle == "CANCELED":
            return
    bring_to_an_end(story.run)
    check(story.run)
