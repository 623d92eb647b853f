"""Calls about conversations and their turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

import msgspec

from pilothouse.client.flows import Flow, ask, get, given, post, segment
from pilothouse.client.keys import fresh_key
from pilothouse.core.chat.calls import GivenResult
from pilothouse.core.chat.message import Message
from pilothouse.core.chat.request import ChatModel
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.tools.spec import Permit

Json: TypeAlias = dict[str, Any]
OnApproval: TypeAlias = Literal["wait", "refuse", "run"]

TURN_S = 300.0
"""Seconds a turn may take when nobody says."""
_MARGIN_S = 30.0
"""Seconds that an answer may come later than the turn may take."""


class Chat(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A conversation without its messages. Times are milliseconds since the epoch; ``active_stream_id`` is the turn
    that is going on."""

    id: str
    title: str = ""
    model: str = ""
    mode: str = ""
    workflow_id: str | None = None
    workspace: str | None = None
    conversation_id: str = ""
    permits: dict[str, Permit] = {}
    archived: bool = False
    forked_from: str | None = None
    owner: str = ""
    created_at: int = 0
    updated_at: int = 0
    version: int = 0
    active_stream_id: str | None = None


class Saying(TypedDict, total=False):
    """How a message is said, beyond its text; everything may be left out.

    ``chat_id``: the conversation it belongs to; without it one begins. ``workflow_id``, or ``workflow_name``: the
    workflow that tools work on; ``workspace``: a registered repository, or a folder of it. ``command`` outranks
    ``mode`` (``agent``, ``ask``, ``plan``). ``auto_execute_tools``: False leaves tool calls pending for the caller, who
    hands in ``tool_results`` with a next message. ``timeout``: seconds the turn may take. ``message_id``: the same
    twice is one message."""

    chat_id: str | None
    workflow_id: str | None
    workflow_name: str | None
    workspace: str | None
    command: str | None
    mode: str | None
    model: str | None
    context: Sequence[Json]
    attachments: Sequence[Json]
    auto_execute_tools: bool
    tool_results: Sequence[GivenResult]
    timeout: float
    message_id: str | None


def body_of(message: str, on_approval: OnApproval | None, saying: Saying) -> dict[str, object]:
    """The body that sends a message, by whichever route."""
    results = [
        given(id=each.id, name=each.name, result=each.result, error=_why(each))
        for each in saying.get("tool_results", ())
    ]
    return given(
        message=message,
        messageId=saying.get("message_id") or fresh_key(),
        chatId=saying.get("chat_id"),
        workflowId=saying.get("workflow_id"),
        workflowName=saying.get("workflow_name"),
        workspace=saying.get("workspace"),
        command=saying.get("command"),
        mode=saying.get("mode"),
        model=saying.get("model"),
        context=list(saying.get("context", ())) or None,
        attachments=list(saying.get("attachments", ())) or None,
        onApproval=on_approval,
        autoExecuteTools=None if saying.get("auto_execute_tools", True) else False,
        toolResults=results or None,
        timeout=round(saying.get("timeout", TURN_S) * 1000),
    )


def _why(result: GivenResult) -> str | None:
    return None if result.ok else result.error or "it failed"


HEADLESS, INTERACTIVE = "/api/v1/copilot/chat", "/api/copilot/chat"


def send(body: Mapping[str, object], path: str = HEADLESS) -> Flow[TurnResult]:
    """Send a message and wait for all that follows. The same body again is the same turn, so that a connection that
    breaks, or a server that is restarted, costs nothing."""
    timeout = float(str(body["timeout"])) / 1000 + _MARGIN_S
    answer = yield from ask("POST", path, body, again=True, timeout=timeout, reads="turnId")
    return msgspec.convert(answer, TurnResult)


def abort(turn_id: str) -> Flow[None]:
    """Stop a turn. Idempotent."""
    yield from ask("POST", "/api/copilot/chat/abort", {"streamId": turn_id}, again=True)


def steer(turn_id: str, content: str, *, steering_id: str | None = None) -> Flow[None]:
    """Say something to a turn that goes on. Raises ``Refused`` when it has ended."""
    body = {"streamId": turn_id, "content": content, "steeringId": steering_id or fresh_key()}
    yield from ask("POST", "/api/copilot/chat/steer", body, again=True)


def confirm(
    tool_call_id: str,
    status: str = "accepted",
    *,
    turn_id: str | None = None,
    scope: str = "once",
    arguments: Json | None = None,
    message: str = "",
    result: Any = None,
    error: str = "",
) -> Flow[None]:
    """Decide about a tool call: ``accepted``, ``rejected`` or ``background``; ``scope``: ``once``, ``chat`` or
    ``always``; ``arguments``: what it is to be called with instead. Of a call that the client executes: ``success``
    with its ``result``, or ``error``.

    The first decision counts: raises ``Refused`` for a second."""
    body = given(
        toolCallId=tool_call_id,
        status=status,
        streamId=turn_id,
        scope=scope,
        arguments=arguments,
        message=message or None,
        result=result,
        error=error or None,
    )
    yield from post("/api/copilot/confirm", body)


def list_chats(*, archived: bool | None = None, workflow_id: str | None = None, limit: int = 100) -> Flow[list[Chat]]:
    """The last used first."""
    found = yield from get("/api/copilot/chats", archived=archived, workflowId=workflow_id, limit=limit)
    return msgspec.convert(found["chats"], list[Chat])


def show(chat_id: str) -> Flow[Chat]:
    """Raises ``NotFound``."""
    return msgspec.convert((yield from get(_chat(chat_id))), Chat)


def messages(chat_id: str, *, before: str | None = None, limit: int = 50) -> Flow[list[Message]]:
    """The messages of the last ``limit`` turns, oldest first; with ``before``, a turn's id, of those before it."""
    found = yield from get(f"{_chat(chat_id)}/messages", before=before, limit=limit)
    return msgspec.convert(found["messages"], list[Message])


def fork(chat_id: str, turn_id: str) -> Flow[Chat]:
    """A conversation that begins with everything up to and including a turn."""
    return msgspec.convert((yield from post(f"{_chat(chat_id)}/fork", {"turnId": turn_id})), Chat)


def update(
    chat_id: str,
    *,
    title: str | None = None,
    model: str | None = None,
    mode: str | None = None,
    workflow_id: str | None = None,
    workspace: str | None = None,
    permits: Mapping[str, str | None] | None = None,
    archived: bool | None = None,
) -> Flow[Chat]:
    """Change what is given. ``permits`` are by tool: ``allow``, ``ask``, ``deny``, None to take one back."""
    body = given(
        title=title,
        model=model,
        mode=mode,
        workflowId=workflow_id,
        workspace=workspace,
        permits=permits,
        archived=archived,
    )
    return msgspec.convert((yield from ask("PATCH", _chat(chat_id), body)), Chat)


def delete(chat_id: str) -> Flow[None]:
    """Delete a conversation with all its turns. Raises ``Refused`` while one is going on."""
    yield from ask("DELETE", _chat(chat_id))


def list_models() -> Flow[list[ChatModel]]:
    """The models that answers can come from. Raises ``BackendFailed``."""
    found = yield from get("/api/copilot/models")
    return msgspec.convert(found["models"], list[ChatModel])


def _chat(chat_id: str) -> str:
    return f"/api/copilot/chats/{segment(chat_id)}"
