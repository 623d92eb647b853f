"""The strict wire: ``{v: 1, seq, ts, stream, scope?, type, payload}``.

It is read leniently all the same: what is not understood is told, and the turn goes on, so that a backend with one new
event does not fail every turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

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

VERSION = 1
_FAILED = "Tool execution failed"
_NOT_DONE = frozenset({"error", "cancelled", "skipped", "rejected"})


class _Event(msgspec.Struct, gc=False):
    v: Any = None
    type: Any = None
    payload: Any = None
    scope: Any = None


class _Text(msgspec.Struct, tag_field="channel", tag="assistant", gc=False):
    text: str


class _Piece(msgspec.Struct, tag_field="type", tag="text", gc=False):
    """A piece of the answer, as nearly all events are: twice as fast to decode."""

    v: Literal[1]
    payload: _Text
    scope: None = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_lines = msgspec.json.Decoder(_Event).decode_lines
_decode_pieces = msgspec.json.Decoder(_Piece).decode_lines


def is_enveloped(payload: bytes) -> bool:
    """Whether a payload is of this wire. Never raises."""
    try:
        event = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return event.v is not None and event.payload is not None


class EnvelopeReader:
    """Reads one stream. Stateless: every event says which subagent it belongs to."""

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
            return [Said("".join([piece.payload.text for piece in pieces]))]
        events = None if lines is None else decoded(_decode_lines, lines, payloads)
        if events is None:
            return [one for payload in payloads for one in self.read(payload)]
        return joined(events, payloads, _plain_text, self._tell)

    def _tell(self, event: _Event, payload: bytes) -> list[BackendEvent]:
        reader = _READERS.get(event.type) if isinstance(event.type, str) else None
        if event.v != VERSION or reader is None or not isinstance(event.payload, dict):
            return [odd(f"unknown type {str(event.type)[:80]}" if event.v == VERSION else "another version", payload)]
        scope = event.scope if isinstance(event.scope, dict) else {}
        found = list(reader(event.payload, first_text(scope.get("parentToolCallId"))))
        return found or [odd(f"{event.type} without what it should tell", payload)]


def _plain_text(event: _Event) -> str | None:
    """A piece of the answer; None for anything else."""
    told = event.payload
    if (
        event.type != "text"
        or event.scope is not None
        or event.v != VERSION
        or type(told) is not dict
        or told.get("channel") == "thinking"
    ):
        return None
    text = told.get("text")
    return text if type(text) is str else None


def _session(told: Json, lane: str) -> Iterator[BackendEvent]:
    data = told.get("data") if isinstance(told.get("data"), dict) else {}
    match told.get("kind"):
        case "start":
            if identity := first_text((data or {}).get("responseId"), told.get("responseId")):
                yield ConversationKnown(identity)
            else:
                yield Noticed(kind="start")
        case "chat" if identity := first_text(told.get("chatId")):
            yield ChatKnown(identity)
        case "title" if title := first_text(told.get("title")):
            yield Titled(title)
        case "trace":
            yield Noticed(kind="trace", data=told)


def _text(told: Json, lane: str) -> Iterator[BackendEvent]:
    text = told.get("text")
    if isinstance(text, str):
        yield Thought(text, lane) if told.get("channel") == "thinking" else Said(text, lane)


def _tool(told: Json, lane: str) -> Iterator[BackendEvent]:
    identity, name = first_text(told.get("toolCallId")), first_text(told.get("toolName"))
    if not identity:
        return
    match told.get("phase"):
        case "call" if told.get("status") == "generating":
            yield ToolGenerating(id=identity, name=name, lane=lane)
        case "call":
            arguments, ui = told.get("arguments"), told.get("ui")
            if isinstance(arguments, str):
                arguments = json_in(arguments)
            yield ToolCalled(
                id=identity,
                name=name,
                arguments=arguments if isinstance(arguments, dict) else None,
                partial=told.get("partial") is True,
                lane=lane,
                executor=first_text(told.get("executor")),
                asynchronous=told.get("mode") == "async",
                ui=ui if isinstance(ui, dict) else {},
            )
        case "args_delta" if isinstance(delta := told.get("argumentsDelta"), str):
            yield ToolArguments(id=identity, delta=delta, name=name, lane=lane)
        case "result":
            status, error = first_text(told.get("status")), message_in(told.get("error"))
            success = told.get("success")
            if not isinstance(success, bool):
                success = status not in _NOT_DONE and not error
            yield ToolAnswered(
                id=identity,
                name=name,
                success=success,
                result=told.get("output", told.get("result")),
                error="" if success else error or _FAILED,
                status=status,
                lane=lane,
            )


def _span(told: Json, lane: str) -> Iterator[BackendEvent]:
    data = told.get("data") if isinstance(told.get("data"), dict) else {}
    assert data is not None
    agent = first_text(told.get("agent"), data.get("name"))
    call = first_text(data.get("tool_call_id"), told.get("parentToolCallId"))
    kind, event = told.get("kind", "subagent"), told.get("event", told.get("phase"))
    if kind in ("structured_result", "subagent_result"):
        success = data.get("success", told.get("success"))
        yield Structured(
            kind=first_text(data.get("result_type"), data.get("type"), kind),
            summary=first_text(data.get("summary")),
            data=data.get("data"),
            success=success is not False,
            lane=lane,
        )
    elif event == "start" and (call or lane):
        # The scope of a span is the call it works for, unless the event names another one below it.
        yield LaneOpened(id=call or lane, agent=agent, lane=lane if call and call != lane else "")
    elif event == "end":
        yield LaneClosed(id=call or lane, agent=agent)


def _resource(told: Json, lane: str) -> Iterator[BackendEvent]:
    resource = told.get("resource")
    if isinstance(resource, dict) and first_text(resource.get("id")).strip():
        yield Noticed(kind=f"resource_{first_text(told.get('op'), told.get('kind')) or 'upsert'}", data=resource)


def _run(told: Json, lane: str) -> Iterator[BackendEvent]:
    kind = first_text(told.get("kind"))
    if kind == "checkpoint_pause":
        yield paused(told)
    elif kind:
        yield Noticed(kind=kind, data=told)


def _error(told: Json, lane: str) -> Iterator[BackendEvent]:
    shown = first_text(told.get("displayMessage"))
    message = message_in(told.get("message")) or message_in(told.get("error")) or shown
    yield Failed(
        message=message or "the backend reported an error without a reason",
        code=first_text(told.get("code")),
        shown=shown,
    )


def _complete(told: Json, lane: str) -> Iterator[BackendEvent]:
    response = told.get("response")
    if isinstance(response, dict) and (identity := first_text(response.get("responseId"), response.get("id"))):
        yield ConversationKnown(identity)
    if isinstance(usage := told.get("usage"), dict):
        yield spent(usage, told.get("cost"))
    status = first_text(told.get("status")) or "complete"
    if status == "error":
        yield from _error({"message": told.get("reason") or message_in(told.get("error"))}, lane)
    yield Completed(status=status, reason=first_text(told.get("reason")))


_READERS: dict[str, Callable[[Json, str], Iterator[BackendEvent]]] = {
    "session": _session,
    "text": _text,
    "tool": _tool,
    "span": _span,
    "resource": _resource,
    "run": _run,
    "error": _error,
    "complete": _complete,
}
