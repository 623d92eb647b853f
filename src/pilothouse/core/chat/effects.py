"""What a turn wants done in the world, and what its performers answer.

Keys name an effect for ever within its turn: ``call/N`` a request to the backend, ``tool/ID/ATTEMPT`` a tool's run,
``report/ID``, ``title``, ``abort/LEG``, ``steer/ID``, ``remember/ID``, ``answer/ID``; timers are ``timeout/LEG``,
``expire/WAIT`` and ``backoff/N``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from pilothouse.core.chat.calls import BackendEnd, CallReason, GivenResult
from pilothouse.core.chat.message import Block
from pilothouse.core.run.contract import Effect
from pilothouse.core.tools.spec import ToolSpec


class CallBackend(Effect, frozen=True, kw_only=True):
    """One request to the backend, streamed: what it says is heard while it lasts, see ``Heard``. Answered with
    ``CallEnded``. ``reason`` is what it is asked for: one that is made again is asked as it was the first time."""

    call: int
    reason: CallReason
    turn_id: str
    chat_id: str
    message_id: str
    owner: str
    backend: str
    message: str
    mode: str
    model: str
    tools: tuple[str, ...]
    """Names of the tools that the turn offers."""
    client_tools: tuple[ToolSpec, ...] = ()
    """Those of them that whoever sent the message executes."""
    agent_tools: tuple[str, ...] = ()
    """Those of them that an agent can have the server execute."""
    blocks: tuple[Block, ...]
    results: tuple[GivenResult, ...]
    answered: tuple[str, ...]
    steering: tuple[str, ...]
    checkpoint_id: str
    conversation_id: str
    workflow_id: str
    workspace: str
    attachments: tuple[dict[str, Any], ...]
    context: tuple[dict[str, Any], ...]
    headless: bool
    adopted: bool = False
    """It was begun by an earlier owner and still goes on."""


class CallEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A ``CallBackend``'s result where the stream itself did not say how it ended: ``end`` is ``EOF`` or ``FAILED``.
    ``ENDED`` is answered with ``Ended``."""

    end: BackendEnd = BackendEnd.EOF
    error: str = ""
    shown: str = ""
    code: str = ""
    transient: bool = False
    retry_after_ms: int = 0


class RunTool(Effect, frozen=True, kw_only=True):
    """Execute a call. Answered with ``ToolAnswer``, ``TookTooLong``, or ``Ended`` when it was unwanted."""

    tool_call_id: str
    name: str
    arguments: dict[str, Any]
    timeout_ms: int
    turn_id: str
    chat_id: str
    message_id: str
    owner: str
    mode: str
    workflow_id: str
    workspace: str
    asked_at: int | None = None
    adopted: bool = False


class TookTooLong(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's watchdog ended it."""


class ReportTool(Effect, frozen=True, kw_only=True):
    """Tell the backend how a call ended; tried again until it has it, or for good it cannot. Never awaited by anything
    that the backend waits for. Answered with ``Done`` or ``Failed``."""

    gated: ClassVar[bool] = False

    tool_call_id: str
    name: str
    backend: str
    turn_id: str
    status: int
    message: str
    data: Any


class MakeTitle(Effect, frozen=True, kw_only=True):
    """Have a title made of the first message of a conversation. Answered with ``Title`` or ``Failed``."""

    gated: ClassVar[bool] = False

    backend: str
    chat_id: str
    owner: str
    message: str
    model: str


class Title(msgspec.Struct, frozen=True, kw_only=True):
    title: str


class AbortBackend(Effect, frozen=True, kw_only=True):
    """Tell the backend that its turn was stopped. Answered with ``Done`` or ``Failed``."""

    gated: ClassVar[bool] = False

    backend: str
    turn_id: str
    chat_id: str
    owner: str


class SteerBackend(Effect, frozen=True, kw_only=True):
    """Tell a backend that takes it what was said meanwhile. Answered with ``Done`` or ``Failed``."""

    backend: str
    turn_id: str
    chat_id: str
    owner: str
    steering_id: str
    content: str


class RememberPermit(Effect, frozen=True, kw_only=True):
    """Keep an answer for the chat, or always. Answered with ``Done`` or ``Failed``."""

    gated: ClassVar[bool] = False

    tool_call_id: str
    chat_id: str
    owner: str
    tool: str
    scope: str


class AnswerBackend(Effect, frozen=True, kw_only=True):
    """Hand an answer to an agent that asked for permission. Answered with ``Done`` or ``Failed``."""

    backend: str
    turn_id: str
    call: int
    request_id: str
    allowed: bool
    remember: bool
