"""Conversations: sending, what one may ask of their turns, and the chats themselves.

Everything that can be checked of a message is checked before there is a turn. Whatever a principal may not see is not
there for it. What a turn does is its kind's to decide; what a backend is asked, ``turn_effects``'.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.core.auth.policy import Action, reaches
from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.events import TurnReceived
from pilothouse.core.chat.inputs import Say
from pilothouse.core.chat.message import Message
from pilothouse.core.chat.request import ChatModel
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.run.events import RunCreated
from pilothouse.core.run.lifecycle import OPEN
from pilothouse.core.run.rows import RunRow
from pilothouse.core.tools.policy import EVERY
from pilothouse.core.tools.spec import Permit
from pilothouse.engine import chat_export
from pilothouse.engine.agent_turns import AgentTurns
from pilothouse.engine.chat_checkpoints import checkpoints_of, revert_to
from pilothouse.engine.chat_control import ChatControl
from pilothouse.engine.chat_documents import ChatDocument, ChatDocuments, KeptChat, Titled, first_words
from pilothouse.engine.chat_history import ChatHistory, PastTurn, past_turn
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chat_sending import Sending, check_mode, check_name, check_size
from pilothouse.engine.chat_turns import TURN, ChatTurns
from pilothouse.engine.chat_values import ChatChanges, ChatView, Checkpoint, Feedback, Send, Sent
from pilothouse.engine.confirmations import Tell
from pilothouse.engine.keyed import keyed_id
from pilothouse.engine.ports import Clock, EventStore, Ids
from pilothouse.engine.repos import Repos
from pilothouse.engine.supervisor import Supervisor
from pilothouse.engine.tools import ToolRegistry
from pilothouse.engine.workflows import StoredWorkflow, Workflows
from pilothouse.errors import BadInput, NotFound, Refused

__all__ = ["ChatChanges", "ChatView", "Chats", "Checkpoint", "Feedback", "Send", "Sent"]

CLEANING_UP_S = 5.0
CLEANING_UP_LOOKS = 100
"""How long, and how often within that, who deletes waits for an ended turn to be let go of."""


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
        self._supervisor = supervisor
        self._store = store
        self._backend = backend
        self._tools = tools
        self._workflows = workflows
        self._clock = clock
        self._ids = ids
        self._documents = documents
        self._history = history
        self._turns = turns
        self._sending = Sending(backend, tools, workflows, repos)
        self._control = ChatControl(supervisor, store, turns, confirm)

    # Sending.

    async def send(self, send: Send, principal: Principal) -> Sent:
        """Check a message and start its turn; returns once that is in the log. Without ``chat_id`` the message begins a
        conversation.

        Raises ``BadInput`` naming the field, ``NotFound`` for a chat or workflow, ``Busy`` while a turn of the chat is
        live, ``NeedsScope``, ``Gone`` when this message was sent before and deleted, ``Unavailable``."""
        check_size(send)
        if send.message_id is None:
            return await self._send(send, self._ids.new(), self._ids.new(), self._ids.new(), principal)
        message_id = check_name(send.message_id, "messageId")
        # Of its own kind: the same key may have been given with a plan, whose ids come from it too.
        turn_id = keyed_id(f"{principal.name}\0turn", message_id)
        new_chat = keyed_id(principal.name, f"chat\0{message_id}")
        async with self._turns.locked(turn_id):  # of two that come at once, the second finds the first
            try:
                row = await self._store.row(turn_id)
            except NotFound:
                return await self._send(send, turn_id, message_id, new_chat, principal)
        return Sent(turn_id=turn_id, chat_id=row.session_id or "", message_id=message_id, created=False)

    async def _send(self, send: Send, turn_id: str, message_id: str, new_chat: str, principal: Principal) -> Sent:
        kept = None if send.chat_id is None else await self._kept(send.chat_id, principal, Action.SEND)
        chat_id = kept.id if kept else new_chat
        async with self._turns.locked(chat_id):
            await self._turns.require_idle(chat_id)
            newest = await self._history.newest(chat_id)
            last = await self._history.turn(newest) if newest else None
            chat = kept.chat if kept else self._new_chat(send)
            owner = kept.owner if kept else principal.name
            settled = await self._sending.settled(send, chat, last, principal)
            permits = await self._documents.permits(owner)
            received = await self._sending.received(send, message_id, settled, last, permits, principal)
            if kept is None:
                await self._documents.create(chat_id, owner, settled)
            else:
                await self._documents.change(chat_id, lambda now: self._said(now, chat, settled))
            await self._start(turn_id, chat_id, owner, received)
        return Sent(turn_id=turn_id, chat_id=chat_id, message_id=message_id, created=True)

    def _new_chat(self, send: Send) -> ChatDocument:
        return ChatDocument(created_at=self._clock.now_ms(), title=first_words(send.message))

    def _said(self, now: ChatDocument, seen: ChatDocument, settled: ChatDocument) -> ChatDocument:
        """What a message says of its chat, on top of whatever was changed since it was looked at."""
        said = {
            name: getattr(settled, name)
            for name in ChatDocument.__struct_fields__
            if name not in ("title", "titled") and getattr(settled, name) != getattr(seen, name)
        }
        titled = now.entitled(settled.title, settled.titled) if settled.title != seen.title else now
        return msgspec.structs.replace(titled, **said, said_at=self._clock.now_ms())

    async def _start(self, turn_id: str, chat_id: str, owner: str, received: TurnReceived) -> None:
        created = RunCreated(
            kind=TURN,
            name=first_words(received.message) or "Results of tools",
            owner=owner,
            session_id=chat_id,
            root_run_id=turn_id,
            cause="headless" if received.headless else "chat",
        )
        await self._supervisor.create(TURN, turn_id, Say(created=created, received=received))

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

    # Chats.

    async def list(
        self, principal: Principal, *, archived: bool | None = False, workflow_id: str | None = None, limit: int = 100
    ) -> builtins.list[ChatView]:
        """Those a principal sees, the last used first. ``archived``: None for both."""
        found = [
            kept
            for kept in await self._documents.all()
            if reaches(principal, Action.READ_CHATS, kept.owner) and archived in (None, kept.chat.archived)
        ]
        found.sort(key=lambda kept: (kept.updated_at, kept.id), reverse=True)
        views: builtins.list[ChatView] = []
        for kept in found:
            if len(views) == limit:
                break
            view = await self._view(kept)
            if workflow_id in (None, view.workflow_id):
                views.append(view)
        return views

    async def get(self, chat_id: str, principal: Principal) -> ChatView:
        """Raises ``NotFound``."""
        return await self._view(await self._kept(chat_id, principal, Action.READ_CHATS))

    async def update(self, chat_id: str, principal: Principal, changes: ChatChanges) -> ChatView:
        """Raises ``NotFound``, ``BadInput``."""
        await self._kept(chat_id, principal, Action.CHANGE_CHATS)
        said: dict[str, Any] = {}
        if changes.title is not None:
            title = check_name(" ".join(changes.title.split()), "title")
            if not title:
                raise BadInput("is empty", field="title", fix="give a name")
            said |= {"title": title, "titled": Titled.USER}
        if changes.model is not None:
            said["model"] = check_name(changes.model, "model")
        if changes.mode is not None:
            said["mode"] = check_mode(changes.mode, "mode")
        if changes.workflow_id is not None:
            wanted = changes.workflow_id
            said["workflow_id"] = (await self._workflows.get(wanted, principal)).id if wanted else ""
        if changes.workspace is not None:
            said["workspace"] = await self._sending.workspace(changes.workspace, principal)
        if changes.archived is not None:
            said["archived"] = changes.archived
        for tool in changes.permits or ():
            self._check_tool(tool)
        return await self._view(await self._documents.change(chat_id, lambda chat: _changed(chat, said, changes)))

    async def delete(self, chat_id: str, principal: Principal) -> None:
        """With all its turns. Raises ``NotFound``, ``Busy`` while a turn is live, ``Refused`` while the last one is
        still cleaning up."""
        await self._kept(chat_id, principal, Action.DELETE_CHATS)
        async with self._turns.locked(chat_id):
            await self._turns.require_idle(chat_id)
            turns = [row.id async for row in self._history.rows(chat_id)]
            for turn_id in turns:
                await self._let_go_of(turn_id)
            # What is found by the turns goes before them: after a crash it is found again.
            if isinstance(self._backend, AgentTurns):
                await self._backend.forget(chat_id, turns)
            for turn_id in turns:
                await self._documents.delete_feedback(turn_id)
                self._history.forget(turn_id)
                await self._supervisor.delete(turn_id, self._clock.now_ms())
            await self._documents.delete(chat_id)

    async def _let_go_of(self, turn_id: str) -> None:
        """Wait a little for what an ended turn still owes, such as a title. Raises ``Refused`` when it takes longer."""
        for _ in range(CLEANING_UP_LOOKS):
            if turn_id not in self._supervisor.live:
                return
            await self._clock.sleep(CLEANING_UP_S / CLEANING_UP_LOOKS)
        raise Refused("its last turn is still being cleaned up; try again in a moment")

    async def messages(
        self, chat_id: str, principal: Principal, *, before: str | None = None, limit: int = 50
    ) -> builtins.list[Message]:
        """The messages of the last ``limit`` turns, oldest first; with ``before`` (a turn's id) of those before it.
        Those a fork began with are among them. Raises ``NotFound``."""
        await self._kept(chat_id, principal, Action.READ_CHATS)
        return await self._history.page(chat_id, before, limit, self._live_turn)

    async def fork(self, chat_id: str, principal: Principal, turn_id: str) -> ChatView:
        """A conversation that begins with everything up to and including a turn that has ended. Raises ``NotFound``,
        ``Busy``."""
        kept = await self._kept(chat_id, principal, Action.CHANGE_CHATS)
        messages = await self._history.until(chat_id, turn_id)
        fork_id = self._ids.new()
        now = self._clock.now_ms()
        chat = msgspec.structs.replace(
            kept.chat, created_at=now, said_at=now, archived=False, forked_from=f"{chat_id}/{turn_id}"
        )
        await self._documents.begin_with(fork_id, kept.owner, messages)
        return await self._view(await self._documents.create(fork_id, kept.owner, chat))

    async def checkpoints(self, chat_id: str, principal: Principal) -> builtins.list[Checkpoint]:
        """The versions of workflows that a conversation made, newest first. Raises ``NotFound``."""
        await self._kept(chat_id, principal, Action.READ_CHATS)
        return await checkpoints_of(self._workflows, chat_id, principal)

    async def revert(self, chat_id: str, principal: Principal, checkpoint: str) -> StoredWorkflow:
        """A new version of its workflow, with the content it had before ``checkpoint``. Raises ``NotFound``,
        ``Refused`` where there was none before, ``WrongSequence`` when it was changed at the same time."""
        await self._kept(chat_id, principal, Action.CHANGE_CHATS)
        return await revert_to(self._workflows, chat_id, principal, checkpoint)

    async def export(self, chat_id: str, principal: Principal, form: str = "json") -> bytes:
        """A whole conversation as ``json`` or ``markdown``, in UTF-8. Raises ``NotFound``, ``BadInput``."""
        chat = await self.get(chat_id, principal)
        if form not in ("json", "markdown"):
            raise BadInput(f"{form!r} is no form", field="format", fix="json or markdown")
        messages = await self._history.page(chat_id, None, None, self._live_turn)
        if form == "markdown":
            return chat_export.as_markdown(chat, messages)
        turns = dict.fromkeys(message.turn_id for message in messages)
        feedback = [one for turn_id in turns if (one := await self._documents.feedback(turn_id)) is not None]
        return chat_export.as_json(chat, messages, feedback)

    async def feedback(self, turn_id: str, principal: Principal, rating: str, text: str = "") -> Feedback:
        """Keep what somebody thinks of an answer; the last word counts. Raises ``NotFound``, ``BadInput``."""
        row = await self._control.row(turn_id, principal, Action.CHANGE_CHATS)
        if rating not in ("up", "down"):
            raise BadInput(f"{rating!r} is no rating", field="rating", fix="up or down")
        if len(text) > 10_000:
            raise BadInput("is too long", field="text", fix="at most 10000 characters")
        given = Feedback(
            turn_id=turn_id,
            chat_id=row.session_id or "",
            rating=rating,
            text=text,
            by=principal.name,
            at=self._clock.now_ms(),
        )
        await self._documents.put_feedback(given)
        return given

    async def permits(self, principal: Principal) -> Mapping[str, Permit]:
        """What this user always answers, by tool."""
        return await self._documents.permits(principal.name)

    async def set_permit(self, principal: Principal, tool: str, permit: Permit | None) -> None:
        """``tool``: a name, or how names begin with a ``*`` behind. None takes the answer back. Raises ``BadInput`` for
        a tool that does not exist."""
        if permit is not None:
            self._check_tool(tool)
        await self._documents.set_permit(principal.name, tool, permit)

    async def models(self) -> builtins.list[ChatModel]:
        """The models one can choose among. Raises ``BackendFailed``."""
        return await self._backend.models()

    async def _live_turn(self, row: RunRow) -> PastTurn:
        """Who drives it knows it already, however long it is."""
        return await self._supervisor.read(row.id, lambda state, _: past_turn(state))

    def _check_tool(self, tool: str) -> None:
        if not tool.endswith(EVERY) and self._tools.get(tool) is None:
            raise BadInput(f"there is no tool {tool!r}", field="tool", fix="see the list of tools")

    async def _kept(self, chat_id: str, principal: Principal, action: Action) -> KeptChat:
        kept = await self._documents.get(chat_id)
        if not reaches(principal, action, kept.owner):
            raise NotFound(f"there is no chat {chat_id}")
        return kept

    async def _view(self, kept: KeptChat) -> ChatView:
        """With what its last turn knows better: so that nothing is lost that no one lived to write down."""
        newest = await self._history.newest(kept.id)
        detail = newest.detail if newest else {}
        chat = kept.chat.entitled(detail.get("title", ""), Titled.BACKEND)
        return ChatView(
            id=kept.id,
            owner=kept.owner,
            title=chat.title,
            model=chat.model,
            mode=chat.mode,
            workflow_id=chat.workflow_id or detail.get("workflowId") or None,
            workspace=chat.workspace or None,
            conversation_id=detail.get("conversationId", ""),
            permits=chat.permits,
            archived=chat.archived,
            forked_from=chat.forked_from or None,
            created_at=chat.created_at,
            updated_at=max(kept.updated_at, newest.updated_at if newest else 0),
            version=kept.version,
            active_stream_id=newest.id if newest and newest.lifecycle in OPEN else None,
        )


def _changed(chat: ChatDocument, said: dict[str, Any], changes: ChatChanges) -> ChatDocument:
    merged = {**chat.permits, **(changes.permits or {})}
    permits = {tool: permit for tool, permit in merged.items() if permit is not None}
    return msgspec.structs.replace(chat, **said, permits=permits)
