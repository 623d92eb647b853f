"""Conversations: sending, what one may ask of their turns, and the chats themselves.

This is the door to them, and says what each may raise; behind it, ``starting`` begins turns, ``control`` is about those
that have begun, ``reading`` and ``changing`` about the chats. Everything that can be checked of a message is checked
before there is a turn, and whatever a principal may not see is not there for it. What a turn does is its kind's to
decide; what a backend is asked, ``requests``'.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.message import Message
from pilothouse.core.chat.request import ChatModel
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.tools.spec import Permit
from pilothouse.engine.access.repos import Repos
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chats.changing import ChatChanging
from pilothouse.engine.chats.confirmations import Tell
from pilothouse.engine.chats.control import ChatControl
from pilothouse.engine.chats.documents import ChatDocuments
from pilothouse.engine.chats.history import ChatHistory
from pilothouse.engine.chats.reading import ChatReading
from pilothouse.engine.chats.sending import Sending, check_name
from pilothouse.engine.chats.starting import ChatStarting
from pilothouse.engine.chats.turns import ChatTurns
from pilothouse.engine.chats.values import ChatChanges, ChatView, Checkpoint, Feedback, Send, Sent
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.plans.workflows import StoredWorkflow, Workflows
from pilothouse.engine.ports import Clock, EventStore, Ids
from pilothouse.engine.tools.registry import ToolRegistry

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
        documents: ChatDocuments,
        history: ChatHistory,
        turns: ChatTurns,
        confirm: Tell | None = None,
    ) -> None:
        self._backend = backend
        self._ids = ids
        self._documents = documents
        sending = Sending(backend, tools, workflows, repos)
        self._control = ChatControl(supervisor, store, turns, confirm)
        self._reading = ChatReading(documents, history, workflows, supervisor)
        self._starting = ChatStarting(self._reading, sending, supervisor, store, documents, history, turns, clock, ids)
        self._changing = ChatChanging(
            self._reading,
            sending,
            self._control,
            supervisor,
            backend,
            tools,
            workflows,
            documents,
            history,
            turns,
            clock,
            ids,
        )

    # Sending.

    async def send(self, send: Send, principal: Principal) -> Sent:
        """Check a message and start its turn; returns once that is in the log. Without ``chat_id`` the message begins a
        conversation.

        Raises ``BadInput`` naming the field, ``NotFound`` for a chat or workflow, ``Busy`` while a turn of the chat is
        live, ``NeedsScope``, ``Gone`` when this message was sent before and deleted, ``Unavailable``."""
        return await self._starting.send(send, principal)

    async def models(self) -> builtins.list[ChatModel]:
        """The models one can choose among. Raises ``BackendFailed``."""
        return await self._backend.models()

    # Turns.

    async def wait(self, turn_id: str, principal: Principal, timeout_s: float | None = None) -> TurnResult:
        """Wait until the turn's leg has ended (with ``timeout_s`` no longer than that) and answer its result, or what
        there is of it. Raises ``NotFound``, ``Gone``, ``Unavailable`` when nobody drives it any more."""
        return await self._control.wait(turn_id, principal, timeout_s)

    async def result(self, turn_id: str, principal: Principal) -> TurnResult:
        """What there is of a turn by now. Raises ``NotFound``, ``Gone``."""
        return await self._control.result(turn_id, principal)

    async def abort(self, id: str, principal: Principal) -> str | None:
        """Stop a turn, or the live turn of a chat; answers its id once the stop is acknowledged, None where nothing was
        going on. Idempotent. Raises ``NotFound``."""
        return await self._control.abort(id, principal)

    async def steer(self, id: str, principal: Principal, content: str, steering_id: str | None = None) -> str:
        """Say something to a turn, or to the live turn of a chat, that goes on; answers the steering's id. Idempotent
        by ``steering_id``. Raises ``NotFound``, ``BadInput``, ``Refused`` when it has ended."""
        steering_id = self._ids.new() if steering_id is None else check_name(steering_id, "steeringId")
        return await self._control.steer(id, principal, content, steering_id)

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
        one brought (``success``, ``error``); answers its turn's id. Without ``turn_id`` the call is looked for in the
        live turns that the principal sees. To decide takes the scope ``approve``.

        Raises ``NotFound``, ``BadInput``, ``NeedsScope``, ``Refused`` when it has been decided."""
        return await self._control.confirm(
            principal,
            tool_call_id,
            status,
            turn_id=turn_id,
            arguments=arguments,
            scope=scope,
            message=message,
            result=result,
            error=error,
        )

    # Chats, to be read.

    async def list(
        self, principal: Principal, *, archived: bool | None = False, workflow_id: str | None = None, limit: int = 100
    ) -> builtins.list[ChatView]:
        """Those a principal sees, the last used first. ``archived``: None for both."""
        return await self._reading.views(principal, archived, workflow_id, limit)

    async def get(self, chat_id: str, principal: Principal) -> ChatView:
        """Raises ``NotFound``."""
        return await self._reading.get(chat_id, principal)

    async def messages(
        self, chat_id: str, principal: Principal, *, before: str | None = None, limit: int = 50
    ) -> builtins.list[Message]:
        """The messages of the last ``limit`` turns, oldest first; with ``before`` (a turn's id) of those before it.
        Those a fork began with are among them. Raises ``NotFound``."""
        return await self._reading.messages(chat_id, principal, before, limit)

    async def checkpoints(self, chat_id: str, principal: Principal) -> builtins.list[Checkpoint]:
        """The versions of workflows that a conversation made, newest first. Raises ``NotFound``."""
        return await self._reading.checkpoints(chat_id, principal)

    async def export(self, chat_id: str, principal: Principal, form: str = "json") -> bytes:
        """A whole conversation as ``json`` or ``markdown``, in UTF-8. Raises ``NotFound``, ``BadInput``."""
        return await self._reading.export(chat_id, principal, form)

    async def permits(self, principal: Principal) -> Mapping[str, Permit]:
        """What this user always answers, by tool."""
        return await self._documents.permits(principal.name)

    # Chats, to be changed.

    async def update(self, chat_id: str, principal: Principal, changes: ChatChanges) -> ChatView:
        """Raises ``NotFound``, ``BadInput``."""
        return await self._changing.update(chat_id, principal, changes)

    async def delete(self, chat_id: str, principal: Principal) -> None:
        """With all its turns. Raises ``NotFound``, ``Busy`` while a turn is live, ``Refused`` while the last one is
        still cleaning up."""
        await self._changing.delete(chat_id, principal)

    async def fork(self, chat_id: str, principal: Principal, turn_id: str) -> ChatView:
        """A conversation that begins with everything up to and including a turn that has ended. Raises ``NotFound``,
        ``Busy``."""
        return await self._changing.fork(chat_id, principal, turn_id)

    async def revert(self, chat_id: str, principal: Principal, checkpoint: str) -> StoredWorkflow:
        """A new version of its workflow, with the content it had before ``checkpoint``. Raises ``NotFound``,
        ``Refused`` where there was none before, ``WrongSequence`` when it was changed at the same time."""
        return await self._changing.revert(chat_id, principal, checkpoint)

    async def feedback(self, turn_id: str, principal: Principal, rating: str, text: str = "") -> Feedback:
        """Keep what somebody thinks of an answer; the last word counts. Raises ``NotFound``, ``BadInput``."""
        return await self._changing.feedback(turn_id, principal, rating, text)

    async def set_permit(self, principal: Principal, tool: str, permit: Permit | None) -> None:
        """``tool``: a name, or how names begin with a ``*`` behind. None takes the answer back. Raises ``BadInput`` for
        a tool that does not exist."""
        await self._changing.set_permit(principal, tool, permit)
