"""Conversations: sending, waiting, steering, deciding, and the chats themselves.

Everything that can be checked of a message is checked here before there is a turn. Whatever a principal may not see is
not there for it. What a turn does is the kind's to decide; what a backend is asked, ``turn_effects``'.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.message import Message
from pilothouse.core.chat.request import ChatModel
from pilothouse.core.tools.spec import Permit
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chat_values import ChatChanges, ChatView, Checkpoint, Feedback, Send, Sent
from pilothouse.engine.ports import Clock, EventStore, Ids
from pilothouse.engine.repos import Repos
from pilothouse.engine.supervisor import Supervisor
from pilothouse.engine.tools import ToolRegistry
from pilothouse.engine.workflows import StoredWorkflow, Workflows

if TYPE_CHECKING:
    from pilothouse.core.chat.result import TurnResult

__all__ = ["ChatChanges", "ChatView", "Chats", "Checkpoint", "Feedback", "Send", "Sent"]


class Chats:
    """Conversations by id. One live turn each."""

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        store: EventStore,
        backend: Backend,
        tools: ToolRegistry,
        workflows: Workflows,
        repos: Repos,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._supervisor = supervisor
        self._store = store
        self._backend = backend
        self._tools = tools
        self._workflows = workflows
        self._repos = repos
        self._clock = clock
        self._ids = ids

    async def send(self, send: Send, principal: Principal) -> Sent:
        """Check a message and start its turn; returns once that is in the log. Without ``chat_id`` the message begins a
        conversation.

        Raises ``BadInput`` naming the field, ``NotFound`` for a chat or workflow, ``Busy`` while a turn of the chat is
        live, ``Unavailable``."""
        raise NotImplementedError

    async def wait(self, turn_id: str, principal: Principal, timeout_s: float | None = None) -> TurnResult:
        """Wait until the turn's leg has ended (with ``timeout_s`` no longer than that) and answer its result, or what
        there is of it. Raises ``NotFound``, ``Gone``."""
        raise NotImplementedError

    async def result(self, turn_id: str, principal: Principal) -> TurnResult:
        """What there is of a turn by now. Raises ``NotFound``, ``Gone``."""
        raise NotImplementedError

    async def abort(self, id: str, principal: Principal) -> str | None:
        """Stop a turn, or the live turn of a chat; answers its id once the stop is acknowledged, None where nothing was
        going on. Idempotent. Raises ``NotFound``."""
        raise NotImplementedError

    async def steer(self, id: str, principal: Principal, content: str, steering_id: str | None = None) -> str:
        """Say something to a turn, or to the live turn of a chat, that goes on; answers the steering's id. Idempotent
        by ``steering_id``. Raises ``NotFound``, ``BadInput``, ``Refused`` when it has ended."""
        raise NotImplementedError

    async def confirm(
        self,
        principal: Principal,
        tool_call_id: str,
        status: str,
        *,
        turn_id: str | None = None,
        arguments: dict[str, Any] | None = None,
        scope: str = "once",
        message: str = "",
        result: Any = None,
        error: str = "",
    ) -> str:
        """Decide about a tool call (``accepted``, ``rejected``, ``background``), or tell what the client's execution of
        one brought; answers its turn's id. Without ``turn_id`` the call is looked for in the principal's live turns.

        Raises ``NotFound``, ``BadInput``, ``Refused`` when it has been decided."""
        raise NotImplementedError

    async def list(
        self, principal: Principal, *, archived: bool | None = False, workflow_id: str | None = None, limit: int = 100
    ) -> builtins.list[ChatView]:
        """Those a principal sees, the last used first. ``archived``: None for both."""
        raise NotImplementedError

    async def get(self, chat_id: str, principal: Principal) -> ChatView:
        """Raises ``NotFound``."""
        raise NotImplementedError

    async def update(self, chat_id: str, principal: Principal, changes: ChatChanges) -> ChatView:
        """Raises ``NotFound``, ``BadInput``."""
        raise NotImplementedError

    async def delete(self, chat_id: str, principal: Principal) -> None:
        """With all its turns. Raises ``NotFound``, ``Busy`` while a turn is live."""
        raise NotImplementedError

    async def messages(
        self, chat_id: str, principal: Principal, *, before: str | None = None, limit: int = 50
    ) -> builtins.list[Message]:
        """The messages of the last ``limit`` turns, oldest first; with ``before`` (a turn's id) of those before it.
        Those of the chat it was forked from are among them. Raises ``NotFound``."""
        raise NotImplementedError

    async def fork(self, chat_id: str, principal: Principal, turn_id: str) -> ChatView:
        """A conversation that begins with everything up to and including a turn. Raises ``NotFound``."""
        raise NotImplementedError

    async def checkpoints(self, chat_id: str, principal: Principal) -> builtins.list[Checkpoint]:
        """The versions of workflows that a conversation made, newest first. Raises ``NotFound``."""
        raise NotImplementedError

    async def revert(self, chat_id: str, principal: Principal, checkpoint: str) -> StoredWorkflow:
        """A new version of its workflow, with the content it had before ``checkpoint``. Raises ``NotFound``,
        ``Refused`` where there was none before."""
        raise NotImplementedError

    async def export(self, chat_id: str, principal: Principal, form: str = "json") -> bytes:
        """A whole conversation as ``json`` or ``markdown``. Raises ``NotFound``, ``BadInput``."""
        raise NotImplementedError

    async def feedback(self, turn_id: str, principal: Principal, rating: str, text: str = "") -> Feedback:
        """Keep what somebody thinks of an answer; the last word counts. Raises ``NotFound``, ``BadInput``."""
        raise NotImplementedError

    async def permits(self, principal: Principal) -> Mapping[str, Permit]:
        """What this user always answers, by tool."""
        raise NotImplementedError

    async def set_permit(self, principal: Principal, tool: str, permit: Permit | None) -> None:
        """None takes the answer back. Raises ``BadInput`` for a tool that does not exist."""
        raise NotImplementedError

    async def models(self) -> builtins.list[ChatModel]:
        """The models one can choose among. Raises ``BackendFailed``."""
        return await self._backend.models()
