"""What is to be done in the world once an intent is in the log: from the state and an event to an effect."""

from __future__ import annotations

from pilothouse.core.chat.blocks import blocks_of, tool_block
from pilothouse.core.chat.calls import CallReason
from pilothouse.core.chat.effects import (
    AbortBackend,
    CallBackend,
    MakeTitle,
    RememberPermit,
    ReportTool,
    RunTool,
    SteerBackend,
)
from pilothouse.core.chat.events import BackendCalled, TurnSteered
from pilothouse.core.chat.routing import for_agents
from pilothouse.core.chat.state import (
    TITLE_KEY,
    ToolCall,
    TurnState,
    abort_key,
    call_key,
    remember_key,
    report_key,
    steer_key,
    tool_key,
)
from pilothouse.core.chat.told import told_of
from pilothouse.core.chat.tool_events import ToolApproved


def call_backend(state: TurnState, event: BackendCalled, asked: CallReason) -> CallBackend:
    facts = state.facts
    steering = tuple(part.text for part in state.steering.values() if part.call == event.call)
    return CallBackend(
        key=call_key(event.call),
        call=event.call,
        reason=asked,
        turn_id=state.common.run_id,
        chat_id=state.chat_id,
        message_id=facts.message_id,
        owner=state.owner,
        backend=facts.backend,
        message=facts.message,
        mode=facts.mode,
        model=facts.model,
        tools=tuple(state.offered),
        agent_tools=for_agents(state) if facts.features.own_tools else (),
        client_tools=tuple(one.spec for one in state.offered.values() if one.spec is not None),
        blocks=blocks_of(state),
        results=facts.tool_results,
        answered=event.results,
        steering=steering,
        checkpoint_id=event.checkpoint_id,
        conversation_id=state.conversation_id,
        workflow_id=state.workflow_id,
        workspace=facts.workspace,
        attachments=facts.attachments,
        context=facts.context,
        headless=facts.headless,
    )


def run_tool(state: TurnState, call: ToolCall, attempt: int) -> RunTool:
    facts = state.facts
    return RunTool(
        key=tool_key(call.id, attempt),
        tool_call_id=call.id,
        name=call.name,
        arguments=call.arguments,
        timeout_ms=state.offered[call.name].timeout_ms,
        turn_id=state.common.run_id,
        chat_id=state.chat_id,
        message_id=facts.message_id,
        owner=state.owner,
        mode=facts.mode,
        workflow_id=state.workflow_id,
        workspace=facts.workspace,
        asked_at=call.asked_at,
    )


def report_tool(state: TurnState, call: ToolCall) -> ReportTool:
    told = told_of(tool_block(call))
    return ReportTool(
        key=report_key(call.id),
        tool_call_id=call.id,
        name=call.name,
        backend=state.facts.backend,
        turn_id=state.common.run_id,
        status=told.status,
        message=told.message,
        data=told.data,
    )


def make_title(state: TurnState) -> MakeTitle:
    facts = state.facts
    return MakeTitle(
        key=TITLE_KEY,
        backend=facts.backend,
        chat_id=state.chat_id,
        owner=state.owner,
        message=facts.message,
        model=facts.model,
    )


def abort_backend(state: TurnState, leg: int) -> AbortBackend:
    return AbortBackend(
        key=abort_key(leg),
        backend=state.facts.backend,
        turn_id=state.common.run_id,
        chat_id=state.chat_id,
        owner=state.owner,
    )


def remember_permit(state: TurnState, event: ToolApproved) -> RememberPermit:
    return RememberPermit(
        key=remember_key(event.tool_call_id),
        tool_call_id=event.tool_call_id,
        chat_id=state.chat_id,
        owner=state.owner,
        tool=state.calls[event.tool_call_id].name,
        scope=event.scope,
    )


def steer_backend(state: TurnState, event: TurnSteered) -> SteerBackend:
    return SteerBackend(
        key=steer_key(event.steering_id),
        backend=state.facts.backend,
        turn_id=state.common.run_id,
        chat_id=state.chat_id,
        owner=state.owner,
        steering_id=event.steering_id,
        content=event.content,
    )
