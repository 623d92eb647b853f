"""What a person decides about tool calls: the question, the answer, and what is decided without asking.

A question is a wait like any other. It knows neither who asks nor how an answer arrives.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.core.chat.answers import (
    APPROVE,
    APPROVE_ALWAYS,
    BACKGROUND,
    CONFIRMS,
    FOR_SCOPE,
    OPTIONS,
    REFUSE,
    SCOPES,
)
from pilothouse.core.chat.backend import Asked
from pilothouse.core.chat.calls import CallStatus, OnApproval, RunBy
from pilothouse.core.chat.inputs import Confirm
from pilothouse.core.chat.plain import cut, plain, plain_object, small
from pilothouse.core.chat.routing import for_others
from pilothouse.core.chat.state import ToolCall, TurnState
from pilothouse.core.chat.tool_events import ToolApproved, ToolBackgrounded, ToolEnded
from pilothouse.core.run.events import Event, NeedsApproval, WaitClosed
from pilothouse.core.run.inputs import Answer
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.waits import Wait, WaitKind
from pilothouse.errors import BadInput, Refused

_SAFE_IN_URLS = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PREVIEW, _SENTENCE = 2_000, 4_000


# --- asking ---


def approval(state: TurnState, call: ToolCall) -> NeedsApproval:
    """The question whether a call may be executed."""
    lasts = state.facts.approval_timeout_ms
    arguments = _meant(state, call)
    wait = Wait(
        id=f"{state.common.run_id}.{_safe(call.id)}",
        kind=WaitKind.APPROVAL,
        scope=call.id,
        question=f"May {call.name} be used?",
        options=OPTIONS,
        detail={
            "toolCallId": call.id,
            "tool": call.name,
            "arguments": small(arguments),
            "chatId": state.chat_id,
        },
        lasts_ms=lasts,
    )
    preview = {"arguments": cut(msgspec.json.encode(arguments).decode(), _PREVIEW)}
    return NeedsApproval(wait=wait, action=call.name, preview=preview, timeout=lasts or None)


def _meant(state: TurnState, call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as it is going to be made: who decides sees the workflow that is meant."""
    unnamed = _unnamed_workflow(state, call)
    return {**call.arguments, unnamed: state.workflow_id} if unnamed and state.workflow_id else call.arguments


def _as_asked(state: TurnState, call: ToolCall) -> dict[str, Any] | None:
    """The arguments that were asked about, where they say more than the call: by now its conversation may mean another
    workflow."""
    wait, unnamed = state.common.waits.get(call.wait_id), _unnamed_workflow(state, call)
    asked = wait.detail.get("arguments") if wait is not None else None
    meant = asked.get(unnamed) if isinstance(asked, dict) else None
    return {**call.arguments, unnamed: meant} if meant else None


def _unnamed_workflow(state: TurnState, call: ToolCall) -> str:
    """The parameter that would name a workflow, where the call leaves that to its conversation; else empty."""
    offered = state.offered.get(call.name)
    return offered.workflow if offered is not None and not call.arguments.get(offered.workflow) else ""


def asked_by_agent(state: TurnState, asked: Asked) -> NeedsApproval:
    """The question whether an agent may use a tool of its own."""
    lasts = state.facts.approval_timeout_ms
    said = {"title": cut(asked.title, _PREVIEW), "input": cut(asked.input, _PREVIEW)}
    number = state.last.number if state.last is not None else 0
    wait = Wait(
        id=f"{state.common.run_id}.ask.{number}.{_safe(asked.request_id)}",
        kind=WaitKind.APPROVAL,
        question=f"The agent asks to use {cut(asked.tool, 200)}",
        options=(APPROVE, APPROVE_ALWAYS, REFUSE) if asked.can_remember else (APPROVE, REFUSE),
        detail={"tool": cut(asked.tool, 200), **said, "chatId": state.chat_id},
        lasts_ms=lasts,
    )
    return NeedsApproval(
        wait=wait, action=cut(asked.tool, 200), preview=said, timeout=lasts or None, request_id=asked.request_id
    )


def _safe(name: str) -> str:
    """It stands in URLs, whatever a backend calls its calls."""
    if _SAFE_IN_URLS.fullmatch(name):
        return name
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]


# --- answering ---


def answer(state: TurnState, given: Answer) -> Sequence[Event]:
    """Raises ``Refused`` when nobody waits for it, ``BadInput`` for an answer that the question does not take."""
    wait = state.common.waits.get(given.wait_id)
    if wait is None or wait.kind is not WaitKind.APPROVAL:
        raise Refused("nothing waits for this answer; it has been given, or fell away")
    if given.answer not in wait.options:
        raise BadInput(
            f"{given.answer!r} is no answer to this", field="answer", fix=f"one of {', '.join(wait.options)}"
        )
    if wait.id in state.questions:
        return (WaitClosed(wait_id=wait.id, answer=given.answer, by=given.by, scope=wait.scope),)
    return _decided(state, state.calls[wait.scope], given.answer, given.by, given.arguments, given.message)


def confirm(state: TurnState, given: Confirm) -> Sequence[Event]:
    """The same by the call's id, and what a client's execution of it brought. Raises ``Refused``, ``BadInput``."""
    if given.status not in CONFIRMS:
        raise BadInput(f"{given.status!r} is no decision", field="status", fix=f"one of {', '.join(CONFIRMS)}")
    if given.scope not in FOR_SCOPE:
        raise BadInput(f"{given.scope!r} is no scope", field="scope", fix=f"one of {', '.join(FOR_SCOPE)}")
    call = state.calls.get(given.tool_call_id)
    if call is None:
        raise Refused(f"there is no tool call {given.tool_call_id} in this turn")
    if state.common.lifecycle is not Lifecycle.RUNNING or state.timed_out or call.over:
        raise Refused(f"the call has been decided: it is {call.status}")
    decision = CONFIRMS[given.status]
    if call.status is CallStatus.AWAITING_APPROVAL:
        if not given.may_decide:
            raise Refused("a person has to allow the call first")
        if decision is APPROVE:
            decision = FOR_SCOPE[given.scope]
        return _decided(state, call, decision, given.by, given.arguments, given.message)
    if decision is BACKGROUND and not call.background and (call.attempt or call.run_by is RunBy.CLIENT):
        return (ToolBackgrounded(tool_call_id=call.id, by=given.by, report=state.facts.features.reports),)
    if call.run_by is RunBy.CLIENT or (call.ours and not state.facts.auto_execute):
        return _executed_elsewhere(state, call, given)
    raise Refused(f"the call does not wait for a decision: it is {call.status}")


def _decided(
    state: TurnState, call: ToolCall, decision: str, by: str, arguments: dict[str, Any] | None, message: str
) -> list[Event]:
    closed = WaitClosed(wait_id=call.wait_id, answer=decision, by=by, scope=call.id)
    if decision == REFUSE:
        return [closed, over(state, call, CallStatus.REJECTED, "user_rejected", message or "The user rejected it")]
    arguments = plain_object(arguments) if arguments is not None else _as_asked(state, call)
    approved = ToolApproved(
        tool_call_id=call.id,
        arguments=arguments,
        scope=SCOPES[decision],
        by=by,
        message=cut(message, _SENTENCE),
    )
    if decision != BACKGROUND:
        return [closed, approved]
    return [
        closed,
        approved,
        ToolBackgrounded(tool_call_id=call.id, by=by, report=state.facts.features.reports),
    ]


def _executed_elsewhere(state: TurnState, call: ToolCall, given: Confirm) -> Sequence[Event]:
    match given.status:
        case "accepted" if given.result is None:
            if call.status is not CallStatus.PENDING:
                raise Refused("the call has been accepted")
            return (ToolApproved(tool_call_id=call.id, by=given.by, message=cut(given.message, _SENTENCE)),)
        case "accepted" | "success":
            return (over(state, call, CallStatus.SUCCESS, result=plain(given.result)),)
        case "rejected":
            return (over(state, call, CallStatus.REJECTED, "user_rejected", given.message or "The user rejected it"),)
        case "error":
            why = given.error or given.message or "It failed in the client"
            return (over(state, call, CallStatus.ERROR, error=why, result=plain(given.result)),)
    raise Refused("the call goes on in the background already")


# --- deciding without an answer ---


def policy(state: TurnState) -> list[Event]:
    """What need not be asked any more: a tool that was allowed for longer than once, and what an agent asks in a turn
    where nobody is to be asked."""
    events: list[Event] = []
    for wait in state.common.waits.values() if state.grants else ():
        call = state.calls.get(wait.scope)
        if call is not None and call.wait_id == wait.id and call.name in state.grants:
            events += _decided(state, call, APPROVE, "an earlier answer", None, "")
    if state.facts.on_approval is not OnApproval.WAIT:
        decision = APPROVE if state.facts.on_approval is OnApproval.RUN else REFUSE
        events += [WaitClosed(wait_id=wait_id, answer=decision, by="policy") for wait_id in state.questions]
    return events


def expired(state: TurnState, wait: Wait) -> list[Event]:
    """Nobody answered in time."""
    if wait.id in state.questions:
        return [WaitClosed(wait_id=wait.id, answer=REFUSE, by="timeout")]
    call = state.calls[wait.scope]
    closed = WaitClosed(wait_id=wait.id, by="timeout", scope=wait.scope)
    return [closed, over(state, call, CallStatus.REJECTED, "timeout", "Nobody allowed it in time")]


def over(
    state: TurnState, call: ToolCall, status: CallStatus, reason: str = "", error: str = "", *, result: Any = None
) -> ToolEnded:
    """The end of a call, of which the backend is told where it waits for that."""
    return ToolEnded(
        tool_call_id=call.id,
        status=status,
        result=result,
        error=cut(error, _SENTENCE),
        reason=reason,
        report=call.ours and owes_report(state, call),
    )


def owes_report(state: TurnState, call: ToolCall) -> bool:
    """It waits to be told, and has not been told anything of the call yet."""
    told = call.background or for_others(state, call.run_by, call.name)
    return state.facts.features.reports and not told
