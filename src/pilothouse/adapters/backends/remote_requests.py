"""What a copilot backend is sent: the bodies of its routes, made of our requests.

Pure. Credentials of any service are never part of one, whatever the wire has places for: tools run here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pilothouse.core.chat.calls import CallReason, CallStatus
from pilothouse.core.chat.effects import AbortBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.message import Message, ToolBlock
from pilothouse.core.chat.request import BackendRequest, ToolReport
from pilothouse.core.tools.spec import ToolSpec

VERSION = "3.0.0"
AGENT = "agent"
MODES = {"chat": AGENT, "research": "ask", "create_plan": "plan"}
"""Ours → the wire's. Any other command is sent by its name, with the mode of chat."""

Body = dict[str, Any]


def turn_body(request: BackendRequest) -> Body:
    """Of the request that begins a turn, or says something more in it."""
    mode = MODES.get(request.mode, AGENT)
    body: Body = {
        "message": _message(request),
        "workflowId": request.workflow_id,
        "userId": request.owner,
        "model": request.model,
        "messageId": request.message_id,
        "version": VERSION,
        "mode": mode,
        "chatId": request.chat_id,
    }
    optional: Body = {
        "conversationId": request.conversation_id,
        "conversationHistory": [] if request.conversation_id else [_said(one) for one in request.history],
        "context": list(request.context),
        "fileAttachments": list(request.attachments),
        "commands": [] if request.mode in MODES else [request.mode],
        "integrationTools": [_tool(one) for one in request.tools] if mode == AGENT else [],
        "headless": request.headless,
    }
    return body | {name: value for name, value in optional.items() if value}


def resume_body(request: BackendRequest) -> Body:
    """All results of one checkpoint together."""
    return {
        "streamId": request.message_id,
        "checkpointId": request.checkpoint_id,
        "userId": request.owner,
        "results": list(_results(request)),
    }


def report_body(report: ToolReport) -> Body:
    return {
        "id": report.tool_call_id,
        "name": report.name,
        "status": report.status,
        "message": report.message,
        "data": report.data,
    }


def given_reports(request: BackendRequest) -> Iterator[ToolReport]:
    """The results of calls that an earlier turn left to whoever shows it, as reports: the wire has no other place."""
    for one in request.results:
        yield ToolReport(
            turn_id=request.turn_id,
            tool_call_id=one.id,
            name=one.name,
            status=200 if one.ok else 500,
            message=one.error,
            data=one.result if one.ok else {"error": one.error},
        )


def abort_body(abort: AbortBackend, stream_id: str) -> Body:
    return {"streamId": stream_id, "messageId": stream_id, "userId": abort.owner, "chatId": abort.chat_id}


def steer_body(steer: SteerBackend, stream_id: str) -> Body:
    return {
        "messageId": stream_id,
        "userId": steer.owner,
        "chatId": steer.chat_id,
        "steeringId": steer.steering_id,
        "content": steer.content,
    }


def title_body(make: MakeTitle) -> Body:
    return {"message": make.message} | ({"model": make.model} if make.model else {})


def _message(request: BackendRequest) -> str:
    """What it has not heard yet. A turn that is taken up again says its message again."""
    if request.reason is CallReason.STEERING:
        return "\n\n".join(request.steering)
    return "\n\n".join((request.message, *request.steering))


def _said(message: Message) -> Mapping[str, str]:
    return {"id": message.id, "role": message.role, "content": message.content}


def _tool(spec: ToolSpec) -> Body:
    body = {"name": spec.name, "description": spec.description, "input_schema": spec.parameters, "defer_loading": True}
    return body | ({"oauth": {"required": True, "provider": spec.service}} if spec.service else {})


def _results(request: BackendRequest) -> Iterator[Body]:
    answered = set(request.answered)
    for block in request.blocks:
        if isinstance(block, ToolBlock) and block.id in answered:
            success = block.status in (CallStatus.SUCCESS, CallStatus.BACKGROUND)
            yield {"callId": block.id, "name": block.name, "data": _data(block), "success": success}


def _data(block: ToolBlock) -> Any:
    match block.status:
        case CallStatus.SUCCESS:
            return block.result
        case CallStatus.BACKGROUND:
            return {"background": True}
        case CallStatus.SKIPPED | CallStatus.REJECTED:
            return {"skipped": True, "reason": block.reason, "error": block.error}
    return {"error": block.error, "reason": block.reason}
