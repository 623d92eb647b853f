"""The untyped wire: ``{type, data?, subagent?, toolCallId?, toolName?, success?, result?, …}``, where a value may stand
in any of several places.

The places are a table, so that no payload is searched by hand. Text is never tried as JSON: a piece of an answer may
well look like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
    Said,
    Structured,
    Thought,
    Titled,
    ToolAnswered,
    ToolArguments,
    ToolCalled,
    ToolGenerating,
)
from pilothouse.core.chat.parts import (
    Json,
    decoded,
    first_text,
    joined,
    json_in,
    message_in,
    odd,
    one_a_line,
    paused,
    spent,
)

_ID_OR_RESULT = frozenset({"id", "toolCallId", "name", "success", "result", "arguments"})
_FAILED = "Tool execution failed"


class _Event(msgspec.Struct, gc=False):
    """The envelope. Fields of unexpected types must not lose the rest, hence Any."""

    type: Any = None
    data: Any = None
    subagent: Any = None
    toolCallId: Any = None
    toolName: Any = None
    success: Any = None
    result: Any = None
    chatId: Any = None
    title: Any = None
    error: Any = None
    content: Any = None
    phase: Any = None


class _Piece(msgspec.Struct, tag_field="type", tag="content", forbid_unknown_fields=True, gc=False):
    """A piece of the answer and nothing beside it, as nearly all events are: twice as fast to decode."""

    data: str


_decode = msgspec.json.Decoder(_Event).decode
_decode_lines = msgspec.json.Decoder(_Event).decode_lines
_decode_pieces = msgspec.json.Decoder(_Piece).decode_lines


class UntypedReader:
    """Reads one stream. It remembers which subagents are at work, because events name them at best by their agent."""

    def __init__(self) -> None:
        self._lanes: dict[str, str] = {}
        """The call of each subagent at work → its agent, in the order they began."""

    def read(self, payload: bytes) -> list[BackendEvent]:
        """What one payload says. Never raises."""
        try:
            event = _decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return [odd("not a JSON object", payload)]
        return self._tell(event, payload)

    def read_all(self, payloads: Sequence[bytes]) -> list[BackendEvent]:
        """What several payloads say one after the other; text that follows text is one piece. Never raises."""
        lines = one_a_line(payloads)
        if lines is not None and (pieces := decoded(_decode_pieces, lines, payloads)) is not None:
            return [Said("".join([piece.data for piece in pieces]))]
        events = None if lines is None else decoded(_decode_lines, lines, payloads)
        if events is None:
            return [one for payload in payloads for one in self.read(payload)]
        return joined(events, payloads, _plain_text, self._tell)

    def _tell(self, event: _Event, payload: bytes) -> list[BackendEvent]:
        kind = event.type
        if not isinstance(kind, str):
            return [odd("without a type", payload)]
        reader = _READERS.get(kind)
        if reader is None:
            return [odd(f"unknown type {kind[:80]}", payload)]
        return list(reader(self, event))

    def lane_of(self, event: _Event) -> str:
        """The subagent at work that an event belongs to: the last one of that name, else the last one."""
        if not event.subagent:
            return ""
        named = [lane for lane, agent in self._lanes.items() if agent == event.subagent]
        return (named or list(self._lanes) or [""])[-1]

    def content(self, event: _Event) -> Iterator[BackendEvent]:
        if text := _text(event):
            yield Said(text, self.lane_of(event))

    def reasoning(self, event: _Event) -> Iterator[BackendEvent]:
        data = event.data if isinstance(event.data, dict) else {}
        phase = data.get("phase", event.phase)
        text = "" if phase in ("start", "end") else _text(event)
        yield Thought(text, self.lane_of(event), begins=phase == "start", ends=phase == "end")

    def generating(self, event: _Event) -> Iterator[BackendEvent]:
        data = _data(event)
        if identity := _id(event, data):
            yield ToolGenerating(id=identity, name=_name(event, data), lane=self.lane_of(event))

    def called(self, event: _Event) -> Iterator[BackendEvent]:
        data = _data(event)
        identity = _id(event, data)
        if not identity:
            yield NotUnderstood(why="a tool_call without an id")
            return
        arguments = data.get("arguments", data.get("input"))
        if isinstance(arguments, str):
            arguments = json_in(arguments)
        yield ToolCalled(
            id=identity,
            name=_name(event, data),
            arguments=arguments if isinstance(arguments, dict) else None,
            partial=data.get("partial") is True,
            lane=self.lane_of(event),
        )

    def arguments(self, event: _Event) -> Iterator[BackendEvent]:
        data = _data(event)
        delta = data.get("argumentsDelta", data.get("delta", data.get("arguments")))
        if (identity := _id(event, data)) and isinstance(delta, str):
            yield ToolArguments(id=identity, delta=delta, name=_name(event, data), lane=self.lane_of(event))

    def answered(self, event: _Event) -> Iterator[BackendEvent]:
        data = _data(event)
        identity = _id(event, data)
        if not identity:
            yield NotUnderstood(why="a tool_result without an id")
            return
        result = data.get("result", event.result)
        error = message_in(data.get("error", event.error))
        said = [data.get("success"), event.success, result.get("success") if isinstance(result, dict) else None]
        told = next((one for one in said if isinstance(one, bool)), None)
        if result is None and "data" in data:
            result = data["data"]
        success = told if told is not None else result is not None and not error
        yield ToolAnswered(
            id=identity,
            name=_name(event, data),
            success=success,
            result=result,
            error="" if success else error or _FAILED,
            lane=self.lane_of(event),
        )

    def tool_failed(self, event: _Event) -> Iterator[BackendEvent]:
        data = _data(event)
        if identity := _id(event, data):
            error = message_in(data.get("error", event.error)) or _FAILED
            name = _name(event, data)
            yield ToolAnswered(id=identity, name=name, success=False, error=error, lane=self.lane_of(event))

    def lane_opened(self, event: _Event) -> Iterator[BackendEvent]:
        data = _data(event)
        lane = data.get("tool_call_id") or _id(event, data)
        if not isinstance(lane, str) or not lane:
            yield NotUnderstood(why="a subagent_start without a tool_call_id")
            return
        agent = first_text(data.get("agent"), event.subagent)
        self._lanes[lane] = agent
        yield LaneOpened(id=lane, agent=agent)

    def lane_closed(self, event: _Event) -> Iterator[BackendEvent]:
        data = _data(event)
        lane = data.get("tool_call_id") or self.lane_of(event) or next(reversed(self._lanes), "")
        self._lanes.pop(lane, None)
        yield LaneClosed(id=lane)

    def structured(self, event: _Event) -> Iterator[BackendEvent]:
        data = _data(event)
        kind = data.get("result_type") or data.get("type") or ""
        success = data.get("success", event.success)
        yield Structured(
            kind=str(kind),
            summary=str(data.get("summary") or ""),
            data=data.get("data"),
            success=success is not False,
            lane=self.lane_of(event),
        )

    def started(self, event: _Event) -> Iterator[BackendEvent]:
        if isinstance(identity := _data(event).get("responseId"), str):
            yield ConversationKnown(identity)

    def chat(self, event: _Event) -> Iterator[BackendEvent]:
        identity = event.chatId or _data(event).get("chatId")
        if isinstance(identity, str):
            yield ChatKnown(identity)

    def titled(self, event: _Event) -> Iterator[BackendEvent]:
        title = event.title or _data(event).get("title")
        if isinstance(title, str):
            yield Titled(title)

    def noticed(self, event: _Event) -> Iterator[BackendEvent]:
        yield Noticed(kind=event.type, data=_data(event))

    def done(self, event: _Event) -> Iterator[BackendEvent]:
        yield from self.started(event)
        data = _data(event)
        usage = data.get("usage")
        if isinstance(usage, dict):
            yield spent(usage, data.get("cost"))
        pause = data.get("async_pause")
        if isinstance(pause, dict) and isinstance(pause.get("checkpointId"), str):
            yield paused(pause)
        else:
            yield Completed()

    def failed(self, event: _Event) -> Iterator[BackendEvent]:
        data = _data(event)
        message = message_in(data.get("message")) or message_in(data.get("error")) or message_in(event.error)
        if not message and isinstance(event.data, str):
            message = event.data
        yield Failed(
            message=message or "the backend reported an error without a reason",
            code=str(data.get("code") or ""),
            shown=message_in(data.get("displayMessage")),
        )


_READERS: dict[str, Callable[[UntypedReader, _Event], Iterator[BackendEvent]]] = {
    "content": UntypedReader.content,
    "reasoning": UntypedReader.reasoning,
    "tool_generating": UntypedReader.generating,
    "tool_call": UntypedReader.called,
    "tool_call_delta": UntypedReader.arguments,
    "tool_result": UntypedReader.answered,
    "tool_error": UntypedReader.tool_failed,
    "subagent_start": UntypedReader.lane_opened,
    "subagent_end": UntypedReader.lane_closed,
    "structured_result": UntypedReader.structured,
    "subagent_result": UntypedReader.structured,
    "start": UntypedReader.started,
    "chat_id": UntypedReader.chat,
    "title_updated": UntypedReader.titled,
    "request_id": UntypedReader.noticed,
    "resource_added": UntypedReader.noticed,
    "resource_deleted": UntypedReader.noticed,
    "stream_end": UntypedReader.noticed,
    "done": UntypedReader.done,
    "error": UntypedReader.failed,
}


def _plain_text(event: _Event) -> str | None:
    """A piece of the answer; None for anything else."""
    data = event.data
    return data if event.type == "content" and event.subagent is None and type(data) is str else None


def _text(event: _Event) -> str:
    data = event.data
    if isinstance(data, str):
        return data
    inner = data if isinstance(data, dict) else {}
    return first_text(inner.get("content"), inner.get("data"), event.content)


def _data(event: _Event) -> Json:
    """The object that says it: ``data``, or the one nested in it where the outer one says nothing; either may be JSON
    text."""
    data = json_in(event.data) if isinstance(event.data, str) else event.data
    if not isinstance(data, dict):
        return {}
    inner = data.get("data")
    if isinstance(inner, str) and inner.startswith("{"):
        inner = json_in(inner)
    return inner if isinstance(inner, dict) and _ID_OR_RESULT.isdisjoint(data) else data


def _id(event: _Event, data: Json) -> str:
    return first_text(event.toolCallId, data.get("id"), data.get("toolCallId"))


def _name(event: _Event, data: Json) -> str:
    return first_text(event.toolName, data.get("name"), data.get("toolName"))
