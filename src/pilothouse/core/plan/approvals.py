"""What an agent may not do unasked: from its request to a question for a person, and from the answer back to the agent.

The question is a wait like any other. It knows neither how agents ask nor how an answer reaches them.
"""

from __future__ import annotations

import hashlib
import re

import msgspec

from pilothouse.core.plan.agent_events import AgentAnswered
from pilothouse.core.plan.effects import AnswerAgent, RunWork
from pilothouse.core.plan.state import NodeState, PlanState, answer_key
from pilothouse.core.run.agents import Asked
from pilothouse.core.run.contract import Ended, Failed, NotStarted
from pilothouse.core.run.events import Event, NeedsApproval, StopDelayed, WaitClosed
from pilothouse.core.run.inputs import Progress
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.waits import Wait, WaitKind

APPROVE, APPROVE_ALWAYS, REFUSE = "approve", "approve-always", "refuse"

_SAFE_IN_URLS = re.compile(r"[A-Za-z0-9_-]{1,64}")
_EXACT = re.compile(r'"(?:command|cmd|file_?path|file_?name|path|url)":\s*("(?:[^"\\]|\\.)*")', re.IGNORECASE)
"""In the arguments of a tool, which may be cut off: what it is used on."""


def approval(effect: RunWork, asked: Asked, to: int) -> NeedsApproval:
    """The event that records a request of the agent of ``effect``. ``to``: see ``AgentEvent``. Deterministic: whoever
    reads the same output again makes the same one."""
    options = (APPROVE, APPROVE_ALWAYS, REFUSE) if asked.can_remember else (APPROVE, REFUSE)
    what = used_on(asked, effect.path)
    wait = Wait(
        id=_wait_id(effect.key, asked.request_id),
        kind=WaitKind.APPROVAL,
        scope=effect.node_id,
        question=f"{effect.producer_id} asks to use {asked.tool}{what and f': {what}'}",
        options=options,
        detail={
            "node": effect.producer_id,
            "tool": asked.tool,
            "title": asked.title,
            "input": asked.input,
            "phase": str(effect.phase),
            "attempt": effect.attempt,
        },
        lasts_ms=effect.approval_timeout_ms,
    )
    return NeedsApproval(
        wait=wait,
        action=asked.tool,
        preview={"title": asked.title, "input": asked.input},
        timeout=effect.approval_timeout_ms or None,
        request_id=asked.request_id,
        to=to,
    )


def used_on(asked: Asked, worktree: str) -> str:
    """The command, file or address a tool is wanted for, before what the agent calls it: a title is a model's words,
    and not what is carried out."""
    exact, title = asked.input, asked.title
    if exact.startswith(('{"', '[{"', "{}")):
        exact = _argument(exact)
    exact, title = (text.replace(f"{worktree}/", "") if worktree else text for text in (exact, title))
    if not exact or title == exact:
        return title
    return f"{exact} ({title})" if title and title not in exact else exact


def _argument(arguments: str) -> str:
    named = _EXACT.search(arguments)
    try:
        return msgspec.json.decode(named[1], type=str) if named else ""
    except msgspec.DecodeError:  # half a character
        return ""


def _wait_id(key: str, request_id: str) -> str:
    """It stands in URLs, whatever an agent calls its requests."""
    if not _SAFE_IN_URLS.fullmatch(request_id):
        request_id = hashlib.sha256(request_id.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{key.replace('/', '.')}.ask.{request_id}"


def withdraw(node: NodeState) -> list[Event]:
    """Nobody is to answer any more: the agent that asked has ended, or is about to."""
    return [
        WaitClosed(wait_id=wait_id, scope=node.node.id)
        for wait_id, kind in node.waits.items()
        if kind is WaitKind.APPROVAL
    ]


def heard(state: PlanState, given: Progress) -> list[Event]:
    """What is recorded of an effect's news. A request counts while the very run that makes it goes on and is not to be
    ended, and once: an owner that takes over may hear it again."""
    stopping = state.common.lifecycle is Lifecycle.STOPPING
    events: list[Event] = []
    asked: set[str] = set()
    for event in given.events:
        if isinstance(event, NeedsApproval):
            if event.wait.id in asked or not _may_ask(state, given.key, event):
                continue
            asked.add(event.wait.id)
        elif isinstance(event, StopDelayed) and not stopping:
            continue
        events.append(event)
    return events


def _may_ask(state: PlanState, key: str, event: NeedsApproval) -> bool:
    effect = state.open.get(key)
    if not isinstance(effect, RunWork) or state.common.lifecycle is Lifecycle.STOPPING:
        return False
    node = state.nodes[effect.node_id]
    phase = node.attempt.phases[effect.phase]
    return (
        event.wait.scope == effect.node_id
        and not (node.canceling or node.attempt.over_budget)
        and phase.agent is not None
        and event.wait.id not in phase.agent.asked
    )


def question_of(effect: RunWork, event: NeedsApproval) -> AnswerAgent:
    """How the answer to a request will reach the agent; what it is, is still open."""
    return AnswerAgent(
        key=answer_key(event.wait.id),
        output=effect.output,
        plan_id=effect.plan_id,
        node_id=effect.node_id,
        request_id=event.request_id,
        allowed=False,
    )


def answered(question: AnswerAgent, answer: str) -> AnswerAgent:
    """The question with what was answered."""
    allowed = answer in (APPROVE, APPROVE_ALWAYS)
    return msgspec.structs.replace(question, allowed=allowed, remember=answer == APPROVE_ALWAYS)


def expired(wait: Wait) -> list[Event]:
    """Nobody answered in time."""
    return [WaitClosed(wait_id=wait.id, answer=REFUSE, by="timeout", scope=wait.scope)]


def handed_over(effect: AnswerAgent, result: msgspec.Struct) -> list[Event]:
    """The answer reached the agent or cannot; an attempt that was broken off is made again while the agent lives."""
    if isinstance(result, Ended | NotStarted):
        return []
    error = result.error if isinstance(result, Failed) else ""
    wait_id = effect.key.removesuffix(answer_key(""))
    return [AgentAnswered(node_id=effect.node_id, wait_id=wait_id, request_id=effect.request_id, error=error)]
