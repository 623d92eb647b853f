"""The fold of tool calls: one function per event type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.core.chat import intents
from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.chat.routing import decided_here, may_begin
from pilothouse.core.chat.state import (
    ToolCall,
    TurnState,
    remember_key,
    report_key,
    tool_key,
)
from pilothouse.core.chat.tool_events import (
    ONCE,
    PermitRemembered,
    ToolApproved,
    ToolBackgrounded,
    ToolCallArgs,
    ToolCalled,
    ToolCallGenerating,
    ToolEnded,
    ToolReported,
    ToolStarted,
)
from pilothouse.core.run.events import Event, NeedsApproval
from pilothouse.core.tools.spec import Permit


def _known(state: TurnState, call_id: str, lane: str = "") -> ToolCall:
    """The call, which takes its place among the parts when it is first told of."""
    call = state.calls.get(call_id)
    if call is None:
        number = state.last.number if state.last is not None else 1
        call = state.calls[call_id] = state.live[call_id] = ToolCall(call_id, lane=lane, call=number)
        state.parts.append(call)
        if (tail := state.tails.pop(lane, None)) is not None:
            tail.ended = True
        if state.last is not None:
            state.last.heard = True
    call.block = None
    return call


def _generating(state: TurnState, event: ToolCallGenerating, at: int) -> None:
    call = _known(state, event.tool_call_id, event.lane)
    call.name = event.tool_name or call.name
    if event.arguments is not None:
        call.arguments = event.arguments


def _arguments(state: TurnState, event: ToolCallArgs, at: int) -> None:
    _known(state, event.tool_call_id).pieces.append(event.delta)
    state.count(event.delta)


def _called(state: TurnState, event: ToolCalled, at: int) -> None:
    call = _known(state, event.tool_call_id, event.lane)
    call.name, call.arguments, call.call = event.tool_name, event.arguments, event.call
    call.run_by, call.permit, call.told = event.run_by, event.permit, True
    call.pieces.clear()
    if call.over:
        return  # its result came first
    _stand_by(state, call)
    if call.run_by is RunBy.BACKEND:
        call.move(CallStatus.EXECUTING)
        call.started_at = at
    else:
        call.move(CallStatus.PENDING)
    if event.report:
        _report(state, call)


def _stand_by(state: TurnState, call: ToolCall) -> None:
    """What is to become of it here is decided for good by how it was told: most calls are never looked at again."""
    state.ready.pop(call.id, None)
    state.fresh.pop(call.id, None)
    if may_begin(state, call):
        state.ready[call.id] = call
    elif decided_here(state, call):
        state.fresh[call.id] = call


def _asked(state: TurnState, event: NeedsApproval, at: int) -> None:
    call = state.calls[event.wait.scope]
    state.fresh.pop(call.id, None)
    call.move(CallStatus.AWAITING_APPROVAL)
    call.wait_id, call.asked_at = event.wait.id, at


def _approved(state: TurnState, event: ToolApproved, at: int) -> None:
    call = state.calls[event.tool_call_id]
    call.permit = Permit.ALLOW
    if call.status is CallStatus.AWAITING_APPROVAL:
        call.move(CallStatus.PENDING)
        state.ready[call.id] = call
    else:  # whoever executes it elsewhere has begun
        call.move(CallStatus.EXECUTING)
        call.started_at = at
    if event.arguments is not None:
        call.arguments = event.arguments
    if event.scope != ONCE:
        state.grants[call.name] = None
        effect = intents.remember_permit(state, event)
        state.housekeeping[effect.key] = effect


def _remembered(state: TurnState, event: PermitRemembered, at: int) -> None:
    state.housekeeping.pop(remember_key(event.tool_call_id), None)


def _started(state: TurnState, event: ToolStarted, at: int) -> None:
    call = state.calls[event.tool_call_id]
    state.ready.pop(call.id, None)
    state.fresh.pop(call.id, None)
    state.open.pop(tool_key(call.id, call.attempt), None)
    call.attempt, call.started_at = event.attempt, at
    call.move(CallStatus.BACKGROUND if call.background else CallStatus.EXECUTING)
    effect = intents.run_tool(state, call, event.attempt)
    state.open[effect.key] = effect


def _backgrounded(state: TurnState, event: ToolBackgrounded, at: int) -> None:
    call = state.calls[event.tool_call_id]
    call.background = True
    if call.status is CallStatus.EXECUTING or call.run_by is RunBy.CLIENT:
        call.move(CallStatus.BACKGROUND)
    if event.report:
        _report(state, call)


def _ended(state: TurnState, event: ToolEnded, at: int) -> None:
    call = _known(state, event.tool_call_id)
    call.move(event.status)
    call.result, call.error, call.reason = event.result, event.error, event.reason
    call.runs, call.ended_at = event.runs, at
    if event.known and state.last is not None:
        call.brought = state.last.number
    for calls in (state.live, state.ready, state.fresh, state.leftover):
        calls.pop(call.id, None)
    state.open.pop(tool_key(call.id, call.attempt), None)
    if event.workflow_id and not state.workflow_id:
        state.workflow_id = event.workflow_id
    if event.report:
        _report(state, call)


def _report(state: TurnState, call: ToolCall) -> None:
    effect = intents.report_tool(state, call)
    state.housekeeping[effect.key] = effect


def _reported(state: TurnState, event: ToolReported, at: int) -> None:
    state.housekeeping.pop(report_key(event.tool_call_id), None)


CALL_FOLDS: dict[type[Event], Callable[[TurnState, Any, int], None]] = {
    ToolCallGenerating: _generating,
    ToolCallArgs: _arguments,
    ToolCalled: _called,
    NeedsApproval: _asked,
    ToolApproved: _approved,
    PermitRemembered: _remembered,
    ToolStarted: _started,
    ToolBackgrounded: _backgrounded,
    ToolEnded: _ended,
    ToolReported: _reported,
}
