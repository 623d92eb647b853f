"""Backend events written as a copilot backend writes them, on either wire: the reverse of the readers."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.chat.backend import (
    BackendEvent,
    ChatKnown,
    Completed,
    ConversationKnown,
    Failed,
    LaneClosed,
    LaneOpened,
    Noticed,
    NotUnderstood,
    Paused,
    Said,
    Spent,
    Structured,
    Thought,
    Titled,
    ToolAnswered,
    ToolArguments,
    ToolCalled,
    ToolGenerating,
)

Json = dict[str, Any]


class Untyped:
    """One stream of the untyped wire. Usage is told with the last word, as there is no event for it."""

    def __init__(self) -> None:
        self._agents: dict[str, str] = {}
        self._usage: Json = {}

    def encode(self, event: BackendEvent) -> bytes:
        told = self._told(event)
        return b"" if told is None else _framed(told)

    def _told(self, event: BackendEvent) -> Json | None:
        lane = getattr(event, "lane", "")
        scope = {"subagent": self._agents[lane]} if lane in self._agents else {}
        match event:
            case Said(text=text):
                return {"type": "content", "data": text, **scope}
            case Thought(begins=True, text=""):
                return {"type": "reasoning", "data": {"phase": "start"}, **scope}
            case Thought(ends=True, text=""):
                return {"type": "reasoning", "data": {"phase": "end"}, **scope}
            case Thought(text=text):
                return {"type": "reasoning", "data": {"data": text}, **scope}
            case ToolGenerating():
                return {"type": "tool_generating", "toolCallId": event.id, "toolName": event.name, **scope}
            case ToolCalled():
                data: Json = {"id": event.id, "name": event.name}
                if event.arguments is not None:
                    data["arguments"] = event.arguments
                if event.partial:
                    data["partial"] = True
                return {"type": "tool_call", "toolCallId": event.id, "toolName": event.name, "data": data, **scope}
            case ToolArguments():
                data = {"id": event.id, "argumentsDelta": event.delta}
                return {
                    "type": "tool_call_delta",
                    "toolCallId": event.id,
                    "toolName": event.name,
                    "data": data,
                    **scope,
                }
            case ToolAnswered():
                data = {"id": event.id, "name": event.name, "success": event.success, "result": event.result}
                if event.error:
                    data["error"] = event.error
                return {"type": "tool_result", "toolCallId": event.id, "data": data, **scope}
            case LaneOpened():
                self._agents[event.id] = event.agent
                return {"type": "subagent_start", "subagent": event.agent, "data": {"tool_call_id": event.id}}
            case LaneClosed():
                agent = self._agents.pop(event.id, event.agent)
                return {"type": "subagent_end", "subagent": agent, "data": {"tool_call_id": event.id}}
            case Structured():
                data = {"result_type": event.kind, "summary": event.summary, "data": event.data}
                return {"type": "structured_result", "data": {**data, "success": event.success}, **scope}
            case ConversationKnown(id=identity):
                return {"type": "start", "data": {"responseId": identity}}
            case ChatKnown(id=identity):
                return {"type": "chat_id", "chatId": identity}
            case Titled(title=title):
                return {"type": "title_updated", "title": title}
            case Noticed():
                return {"type": event.kind, "data": event.data}
            case Spent():
                self._usage = _usage(event)
                return None
            case Paused():
                return {"type": "done", "data": {**self._usage, "async_pause": _checkpoint(event)}}
            case Completed():
                return {"type": "done", "data": {"responseId": "r1", **self._usage}}
            case Failed():
                data = {"message": event.message, "code": event.code, "displayMessage": event.shown}
                return {"type": "error", "data": data}
            case NotUnderstood():
                return {"type": "no_such_type"}
        raise NotImplementedError(event)


class Enveloped:
    """One stream of the strict wire."""

    def __init__(self) -> None:
        self._seq = 0
        self._usage: Json = {}

    def encode(self, event: BackendEvent) -> bytes:
        found = self._told(event)
        if found is None:
            return b""
        kind, payload = found
        self._seq += 1
        told: Json = {"v": 1, "seq": self._seq, "ts": "2026-01-01T00:00:00Z", "stream": {"streamId": "s"}}
        if lane := getattr(event, "lane", ""):
            told["scope"] = {"lane": "subagent", "parentToolCallId": lane}
        return _framed({**told, "type": kind, "payload": payload})

    def _told(self, event: BackendEvent) -> tuple[str, Json] | None:
        match event:
            case Said(text=text):
                return "text", {"channel": "assistant", "text": text}
            case Thought(text=text):
                return "text", {"channel": "thinking", "text": text}
            case ToolGenerating():
                return "tool", {"phase": "call", **_named(event), "status": "generating"}
            case ToolCalled():
                payload: Json = {"phase": "call", **_named(event), "executor": event.executor or "sim"}
                if event.arguments is not None:
                    payload["arguments"] = event.arguments
                if event.partial:
                    payload["partial"] = True
                if event.ui:
                    payload["ui"] = event.ui
                return "tool", payload
            case ToolArguments():
                return "tool", {"phase": "args_delta", **_named(event), "argumentsDelta": event.delta}
            case ToolAnswered():
                payload = {"phase": "result", **_named(event), "success": event.success, "output": event.result}
                return "tool", payload | ({"error": event.error} if event.error else {})
            case LaneOpened():
                data = {"tool_call_id": event.id, "name": event.agent}
                return "span", {"kind": "subagent", "event": "start", "agent": event.agent, "data": data}
            case LaneClosed():
                data = {"tool_call_id": event.id, "name": event.agent}
                return "span", {"kind": "subagent", "event": "end", "agent": event.agent, "data": data}
            case Structured():
                data = {"result_type": event.kind, "summary": event.summary, "data": event.data}
                return "span", {"kind": "structured_result", "data": {**data, "success": event.success}}
            case ConversationKnown(id=identity):
                return "session", {"kind": "start", "data": {"responseId": identity}}
            case ChatKnown(id=identity):
                return "session", {"kind": "chat", "chatId": identity}
            case Titled(title=title):
                return "session", {"kind": "title", "title": title}
            case Noticed():
                return "run", {"kind": event.kind, **event.data}
            case Spent():
                self._usage = _usage(event)
                return None
            case Paused():
                return "run", {"kind": "checkpoint_pause", **_checkpoint(event)}
            case Completed():
                return "complete", {"status": event.status, "reason": event.reason, **self._usage}
            case Failed():
                return "error", {"message": event.message, "code": event.code, "displayMessage": event.shown}
            case NotUnderstood():
                return "no_such_type", {}
        raise NotImplementedError(event)


WIRES: dict[str, type[Untyped] | type[Enveloped]] = {"v0": Untyped, "v1": Enveloped}


def _framed(told: Json) -> bytes:
    return b"data: " + msgspec.json.encode(told) + b"\n\n"


def _named(event: ToolGenerating | ToolCalled | ToolArguments | ToolAnswered) -> Json:
    return {"toolCallId": event.id, "toolName": event.name}


def _checkpoint(event: Paused) -> Json:
    return {
        "checkpointId": event.checkpoint_id,
        "runId": event.run_id,
        "pendingToolCallIds": list(event.pending),
        "frames": list(event.frames),
    }


def _usage(event: Spent) -> Json:
    usage: Json = {"input_tokens": event.input_tokens, "output_tokens": event.output_tokens, "model": event.model}
    if event.cached_tokens:
        usage["cache_read_input_tokens"] = event.cached_tokens
    return {"usage": usage} | ({"cost": {"total": event.cost}} if event.cost is not None else {})
