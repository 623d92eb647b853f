"""Changing conversations: what they are called and may do, forks, taking back, deletion, and what people think of them.

None of it is said in a conversation; what is, begins a turn.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.auth.policy import Action
from pilothouse.core.auth.principals import Principal
from pilothouse.core.tools.policy import EVERY
from pilothouse.core.tools.spec import Permit
from pilothouse.engine.answering.backend import AgentTurns
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chats.checkpoints import revert_to
from pilothouse.engine.chats.control import ChatControl
from pilothouse.engine.chats.documents import ChatDocument, ChatDocuments, Titled
from pilothouse.engine.chats.history import ChatHistory
from pilothouse.engine.chats.reading import ChatReading
from pilothouse.engine.chats.sending import Sending, check_mode, check_name
from pilothouse.engine.chats.turns import ChatTurns
from pilothouse.engine.chats.values import ChatChanges, ChatView, Feedback
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.plans.workflows import StoredWorkflow, Workflows
from pilothouse.engine.ports import Clock, Ids
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import BadInput, Refused

CLEANING_UP_S = 5.0
CLEANING_UP_LOOKS = 100
"""How long, and how often within that, who deletes waits for an ended turn to be let go of."""
_LONGEST_FEEDBACK = 10_000
"""Characters."""


class ChatChanging:
    """Changes conversations, by id."""

    def __init__(
        self,
        reading: ChatReading,
        sending: Sending,
        control: ChatControl,
        supervisor: Supervisor,
        backend: Backend,
        tools: ToolRegistry,
        workflows: Workflows,
        documents: ChatDocuments,
        history: ChatHistory,
        turns: ChatTurns,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._reading = reading
        self._sending = sending
        self._control = control
        self._supervisor = supervisor
        self._backend = backend
        self._tools = tools
        self._workflows = workflows
        self._documents = documents
        self._history = history
        self._turns = turns
        self._clock = clock
        self._ids = ids

    async def update(self, chat_id: str, principal: Principal, changes: ChatChanges) -> ChatView:
        await self._reading.kept(chat_id, principal, Action.CHANGE_CHATS)
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
        kept = await self._documents.change(chat_id, lambda chat: _changed(chat, said, changes))
        return await self._reading.view(kept)

    async def delete(self, chat_id: str, principal: Principal) -> None:
        await self._reading.kept(chat_id, principal, Action.DELETE_CHATS)
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

    async def fork(self, chat_id: str, principal: Principal, turn_id: str) -> ChatView:
        kept = await self._reading.kept(chat_id, principal, Action.CHANGE_CHATS)
        messages = await self._history.until(chat_id, turn_id)
        fork_id = self._ids.new()
        now = self._clock.now_ms()
        chat = msgspec.structs.replace(
            kept.chat, created_at=now, said_at=now, archived=False, forked_from=f"{chat_id}/{turn_id}"
        )
        await self._documents.begin_with(fork_id, kept.owner, messages)
        return await self._reading.view(await self._documents.create(fork_id, kept.owner, chat))

    async def revert(self, chat_id: str, principal: Principal, checkpoint: str) -> StoredWorkflow:
        await self._reading.kept(chat_id, principal, Action.CHANGE_CHATS)
        return await revert_to(self._workflows, chat_id, principal, checkpoint)

    async def feedback(self, turn_id: str, principal: Principal, rating: str, text: str) -> Feedback:
        row = await self._control.row(turn_id, principal, Action.CHANGE_CHATS)
        if rating not in ("up", "down"):
            raise BadInput(f"{rating!r} is no rating", field="rating", fix="up or down")
        if len(text) > _LONGEST_FEEDBACK:
            raise BadInput("is too long", field="text", fix=f"at most {_LONGEST_FEEDBACK} characters")
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

    async def set_permit(self, principal: Principal, tool: str, permit: Permit | None) -> None:
        if permit is not None:
            self._check_tool(tool)
        await self._documents.set_permit(principal.name, tool, permit)

    def _check_tool(self, tool: str) -> None:
        if not tool.endswith(EVERY) and self._tools.get(tool) is None:
            raise BadInput(f"there is no tool {tool!r}", field="tool", fix="see the list of tools")


def _changed(chat: ChatDocument, said: dict[str, Any], changes: ChatChanges) -> ChatDocument:
    merged = {**chat.permits, **(changes.permits or {})}
    permits = {tool: permit for tool, permit in merged.items() if permit is not None}
    return msgspec.structs.replace(chat, **said, permits=permits)
