"""What the log says agents told, against what they printed; and what became of their requests. Judged at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pilothouse.adapters.agents.lines import LineReader
from pilothouse.core.plan.agent_events import (
    AgentAnswered,
    AgentEvent,
    AgentNoted,
    AgentReasoning,
    AgentText,
    AgentUsed,
)
from pilothouse.core.plan.events import PhaseEnded, PhaseStarted
from pilothouse.core.plan.phases import PhaseStatus
from pilothouse.core.plan.state import PlanState
from pilothouse.core.run.agents import Asked, News, Noted, Reasoning, SessionStarted, Text, Used
from pilothouse.core.run.events import Event, NeedsApproval, Recorded, WaitClosed
from pilothouse.core.run.rows import RunRow
from pilothouse.core.run.usage import NOTHING, Usage, usage_view

if TYPE_CHECKING:
    from tests.simulation.world import World

_BROKEN_OFF = (PhaseStatus.UNKNOWN, PhaseStatus.INTERRUPTED)


@dataclass
class _Run:
    """One run of an agent, as the log has it."""

    key: str
    events: list[AgentEvent] = field(default_factory=list)
    asked: dict[str, NeedsApproval] = field(default_factory=dict)
    ended: PhaseEnded | None = None


def judge_agents(world: World, run_id: str, log: Iterable[Recorded], state: PlanState, row: RunRow) -> None:
    events = [recorded.event for recorded in log]
    for run in _runs(world, run_id, events):
        _judge_told(world, run)
    _judge_requests(world, run_id, events)
    used = sum((event.usage for event in events if isinstance(event, AgentUsed)), NOTHING)
    check = world.watch.check
    check(
        _near(state.usage.total, used) and _near(state.used, used), f"{run_id}: usage is not the sum of what was told"
    )
    check(usage_view(state.usage).get("totalTokens", 0) == used.tokens, f"{run_id}: the view shows other usage")
    told = row.detail.get("usage", {}).get("totalTokens", 0)
    check(told == used.tokens, f"{run_id}: the row shows {told} tokens, {used.tokens} were told")


def _runs(world: World, run_id: str, events: Iterable[Event]) -> list[_Run]:
    now: dict[tuple[str, int, str], _Run] = {}
    found: list[_Run] = []
    check = world.watch.check
    for event in events:
        match event:
            case PhaseStarted():
                run = now[event.node_id, event.attempt, event.phase] = _Run(f"{run_id}/{event.key}")
                found.append(run)
            case AgentEvent():
                at_work = now.get((event.node_id, event.attempt, event.phase))
                check(
                    at_work is not None, f"{run_id}: {event.type_name()} of {event.node_id}, whose agent does not work"
                )
                if at_work is not None:
                    at_work.events.append(event)
            case NeedsApproval():
                detail = event.wait.detail
                at_work = now.get((event.wait.scope, detail["attempt"], detail["phase"]))
                check(at_work is not None, f"{run_id}: a request of {event.wait.scope}, whose agent does not work")
                if at_work is not None:
                    at_work.asked[event.wait.id] = event
            case WaitClosed():
                for run in now.values():
                    run.asked.pop(event.wait_id, None)
            case PhaseEnded():
                ended = now.pop((event.node_id, event.attempt, event.phase), None)
                if ended is not None:
                    ended.ended = event
                    check(not ended.asked, f"{ended.key} has ended, and still somebody is asked: {list(ended.asked)}")
    return [run for run in found if run.key in world.at_work or run.events]


def _judge_told(world: World, run: _Run) -> None:
    check = world.watch.check
    raw = b"".join(world.printed(run.key))
    offsets = [event.to for event in run.events]
    check(offsets == sorted(offsets), f"{run.key}: news are not in the order of its output: {offsets}")
    check(not offsets or offsets[-1] <= len(raw), f"{run.key}: news from beyond the end of its output")
    printed, logged = list(_units_printed(raw)), list(_units_logged(run.events))
    used = sum((e.usage for e in run.events if isinstance(e, AgentUsed)), NOTHING)
    spent = sum((news.usage for news in _news(raw) if isinstance(news, Used)), NOTHING)
    whole = run.ended is not None and run.ended.status not in _BROKEN_OFF and "Budget" not in run.ended.error
    if whole:
        check(logged == printed, f"{run.key}: told {logged}, but it printed {printed}")
        check(used.tokens == spent.tokens, f"{run.key}: {used.tokens} tokens were told, it used {spent.tokens}")
    else:
        check(logged == printed[: len(logged)], f"{run.key}: told {logged}, but it printed {printed}")
        check(used.tokens <= spent.tokens, f"{run.key}: {used.tokens} tokens were told, it used {spent.tokens}")


def _news(raw: bytes) -> Iterable[News]:
    reader = LineReader()
    for line in raw.split(b"\n"):
        yield from reader.line(line)


def _units_printed(raw: bytes) -> Iterable[str]:
    """The smallest pieces of what was printed: how it was cut and merged makes no difference."""
    session = None
    for news in _news(raw):
        match news:
            case Text(text=text):
                yield from (f"text {letter}" for letter in text)
            case Reasoning(text=text):
                yield from (f"thought {letter}" for letter in text)
            case SessionStarted(session_id=name):
                if name != session:
                    yield "SessionStarted"
                session = name
            case Noted(text=text):
                yield f"note {text}"
            case Used() | Asked():
                pass
            case _:
                yield type(news).__name__


def _units_logged(events: Iterable[AgentEvent]) -> Iterable[str]:
    for event in events:
        match event:
            case AgentText(text=text):
                yield from (f"text {letter}" for letter in text)
            case AgentReasoning(text=text):
                yield from (f"thought {letter}" for letter in text)
            case AgentNoted(text=text):
                yield f"note {text}"
            case AgentUsed():
                pass
            case _:
                yield type(event).__name__.removeprefix("Agent")


def _judge_requests(world: World, run_id: str, events: Iterable[Event]) -> None:
    check = world.watch.check
    asked: dict[str, NeedsApproval] = {}
    closed: dict[str, str] = {}
    handed: set[str] = set()
    for event in events:
        if isinstance(event, NeedsApproval):
            check(event.wait.id not in asked, f"{run_id}: {event.wait.id} is asked twice")
            asked[event.wait.id] = event
        elif isinstance(event, WaitClosed) and event.wait_id in asked:
            check(event.wait_id not in closed, f"{run_id}: {event.wait_id} is closed twice")
            closed[event.wait_id] = event.answer
        elif isinstance(event, AgentAnswered):
            check(event.wait_id not in handed, f"{run_id}: the answer to {event.wait_id} is handed over twice")
            check(bool(closed.get(event.wait_id)), f"{run_id}: {event.wait_id} is answered, and nobody did")
            handed.add(event.wait_id)
    check(asked.keys() == closed.keys(), f"{run_id}: asked for ever: {asked.keys() - closed.keys()}")
    for wait_id, event in asked.items():
        key = (_output(run_id, event), event.request_id)
        answer = world.agents.answers.get(key)
        said = closed.get(wait_id, "")
        check(
            answer is None or answer.allowed == said.startswith("approve"),
            f"{run_id}: {wait_id} was answered {said!r}, the agent was told {answer}",
        )
        check(wait_id not in handed or answer is not None, f"{run_id}: the answer to {wait_id} never reached the agent")


def _output(run_id: str, event: NeedsApproval) -> str:
    key = event.wait.id.rpartition(".ask.")[0]
    node, attempt, phase = key.split(".", 2)
    return f"{run_id}/{node}/{attempt}/{phase}"


def _near(one: Usage, other: Usage) -> bool:
    """Sums of money may differ by the order they were made in."""
    names = Usage.__struct_fields__
    return all(abs(getattr(one, name) - getattr(other, name)) < 1e-6 for name in names)
