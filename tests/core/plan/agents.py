"""Agents at work in a test: jobs that are theirs, what they tell, how they end."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.core.plan.execution import Execution, task

from pilothouse.core.plan.agent_events import agent_event
from pilothouse.core.plan.approvals import approval
from pilothouse.core.plan.effects import AnswerAgent, RunWork
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec, JobSpec, OnInterrupted
from pilothouse.core.run.agents import AgentEnded, Asked, News, SessionStarted, ToolEnded, ToolStarted, ToolStatus, Used
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.contract import TimeUp
from pilothouse.core.run.events import Event
from pilothouse.core.run.inputs import Answer, Outcome, Progress
from pilothouse.core.run.usage import Budget, Usage

CANCELED = Exit(reason=ExitReason.CANCELED, signal=15)


def agent(name: str, *dependencies: str, budget: Budget | None = None, rerun: bool = False, **spec: Any) -> JobSpec:
    """A job for an agent; ``spec`` are fields of its work."""
    on_interrupted = OnInterrupted.RERUN if rerun else OnInterrupted.REVIEW
    work = AgentSpec(**{"agent": "claude", "on_interrupted": on_interrupted, **spec})
    return msgspec.structs.replace(task(name, *dependencies), work=work, budget=budget)


def tokens(count: int, model: str = "m", **more: Any) -> Used:
    return Used(usage=Usage(input_tokens=count, **more), model=model)


def failing(error: str = "It broke", **more: Any) -> AgentEnded:
    exit = more.pop("exit", Exit(reason=ExitReason.EXITED, code=1))
    return AgentEnded(exit=exit, ok=False, error=error, **more)


def passing(error: str = "429 too many requests", **more: Any) -> AgentEnded:
    """A failure that passes."""
    return failing(error, transient=True, **more)


def done(*news: News, exit: Exit | None = None) -> AgentEnded:
    return AgentEnded(exit=exit or Exit(reason=ExitReason.EXITED, code=0, output_to=10_000), ok=True, news=news)


def canceled(*, ok: bool = False, news: tuple[News, ...] = ()) -> AgentEnded:
    return AgentEnded(exit=CANCELED, ok=ok, error="" if ok else "It was ended", news=news)


LOST = AgentEnded(exit=Exit(reason=ExitReason.LOST), ok=False)
TIMEOUT = AgentEnded(exit=Exit(reason=ExitReason.TIMEOUT, signal=15), ok=False, error="It told no result")


class Agents(Execution):
    """An execution whose agents can be let speak."""

    def work(self, name: str) -> RunWork:
        effect = self.effect(name)
        assert isinstance(effect, RunWork)
        return effect

    def reach(self, *names: str) -> None:
        """Their work is in flight."""
        for name in names:
            self.until(name, Phase.WORK)

    def tell(self, name: str, *news: News, to: int = 0) -> list[Event]:
        """A batch of news of the agent at work."""
        effect = self.work(name)
        spot: dict[str, Any] = {"node_id": effect.node_id, "attempt": effect.attempt, "phase": effect.phase, "to": to}
        events = tuple(
            approval(effect, item, to) if isinstance(item, Asked) else agent_event(item, **spot) for item in news
        )
        return self.give(Progress(key=effect.key, events=events))

    def speaking(self, name: str, session: str = "s1") -> None:
        """It is at work, and its conversation can be resumed."""
        self.reach(name)
        self.tell(name, SessionStarted(session_id=session, model="opus"), to=100)

    def denied(self, name: str, *tools: str) -> None:
        for number, tool in enumerate(tools):
            self.tell(name, ToolStarted(call_id=f"c{number}", tool=tool))
            self.tell(name, ToolEnded(call_id=f"c{number}", status=ToolStatus.DENIED))

    def ask(self, name: str, request: str = "r1", tool: str = "bash", *, can_remember: bool = False) -> str:
        """It asks; answers the wait's id."""
        asked = Asked(
            request_id=request, tool=tool, title="rm -rf x", input='{"command": "rm -rf x"}', can_remember=can_remember
        )
        self.tell(name, asked, to=200)
        return approval(self.work(name), asked, 200).wait.id

    def reply(self, wait_id: str, answer: str) -> list[Event]:
        return self.give(Answer(wait_id=wait_id, answer=answer, by="ann"))

    @property
    def timers(self) -> dict[str, int]:
        return {key: timer.until for key, timer in self.state.timers.items()}

    def time_passes(self) -> list[Event]:
        """The one timer there is has come to its end."""
        (key,) = self.state.timers
        assert key in self.kind.todo(self.state)
        return self.give(Outcome(key=key, result=TimeUp()))

    @property
    def replies(self) -> list[AnswerAgent]:
        """The answers that are to be handed over."""
        return [effect for effect in self.kind.todo(self.state).values() if isinstance(effect, AnswerAgent)]
