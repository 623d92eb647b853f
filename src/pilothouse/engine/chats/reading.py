"""What there is to read of conversations: which there are, what was said in them, and what they did to workflows.

Whatever a principal may not see is not there for it.
"""

from __future__ import annotations

from pilothouse.core.auth.policy import Action, reaches
from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.message import Message
from pilothouse.core.run.lifecycle import OPEN
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.chats import export as chat_export
from pilothouse.engine.chats.checkpoints import checkpoints_of
from pilothouse.engine.chats.documents import ChatDocuments, KeptChat, Titled
from pilothouse.engine.chats.history import ChatHistory, PastTurn, past_turn
from pilothouse.engine.chats.values import ChatView, Checkpoint
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.plans.workflows import Workflows
from pilothouse.errors import BadInput, NotFound

_PAGE = 100
"""Chats that are looked at together."""


class ChatReading:
    """Conversations by id, for whom they are there."""

    def __init__(
        self, documents: ChatDocuments, history: ChatHistory, workflows: Workflows, supervisor: Supervisor
    ) -> None:
        self._documents = documents
        self._history = history
        self._workflows = workflows
        self._supervisor = supervisor

    async def kept(self, chat_id: str, principal: Principal, action: Action = Action.READ_CHATS) -> KeptChat:
        """Its document, for whoever may do that with it. Raises ``NotFound``."""
        kept = await self._documents.get(chat_id)
        if not reaches(principal, action, kept.owner):
            raise NotFound(f"there is no chat {chat_id}")
        return kept

    async def get(self, chat_id: str, principal: Principal) -> ChatView:
        return await self.view(await self.kept(chat_id, principal))

    async def view(self, kept: KeptChat) -> ChatView:
        return _view(kept, await self._history.newest(kept.id))

    async def views(
        self, principal: Principal, archived: bool | None, workflow_id: str | None, limit: int
    ) -> list[ChatView]:
        found = [
            kept
            for kept in await self._documents.all()
            if reaches(principal, Action.READ_CHATS, kept.owner) and archived in (None, kept.chat.archived)
        ]
        found.sort(key=lambda kept: (kept.updated_at, kept.id), reverse=True)
        views: list[ChatView] = []
        size = max(limit, _PAGE if workflow_id else 1)  # how many are of a workflow shows only when they are looked at
        for start in range(0, len(found), size):
            page = found[start : start + size]
            newest = await self._history.newest_of(kept.id for kept in page)
            seen = (_view(kept, newest.get(kept.id)) for kept in page)
            views += [view for view in seen if workflow_id in (None, view.workflow_id)]
            if len(views) >= limit:
                break
        return views[:limit]

    async def messages(self, chat_id: str, principal: Principal, before: str | None, limit: int) -> list[Message]:
        await self.kept(chat_id, principal)
        return await self._history.page(chat_id, before, limit, self._live_turn)

    async def checkpoints(self, chat_id: str, principal: Principal) -> list[Checkpoint]:
        await self.kept(chat_id, principal)
        return await checkpoints_of(self._workflows, chat_id, principal)

    async def export(self, chat_id: str, principal: Principal, form: str) -> bytes:
        chat = await self.get(chat_id, principal)
        if form not in ("json", "markdown"):
            raise BadInput(f"{form!r} is no form", field="format", fix="json or markdown")
        messages = await self._history.page(chat_id, None, None, self._live_turn)
        if form == "markdown":
            return chat_export.as_markdown(chat, messages)
        turns = dict.fromkeys(message.turn_id for message in messages)
        feedback = [one for turn_id in turns if (one := await self._documents.feedback(turn_id)) is not None]
        return chat_export.as_json(chat, messages, feedback)

    async def _live_turn(self, row: RunRow) -> PastTurn:
        """Who drives it knows it already, however long it is."""
        return await self._supervisor.read(row.id, lambda state, _: past_turn(state))


def _view(kept: KeptChat, newest: RunRow | None) -> ChatView:
    """With what its last turn knows better: so that nothing is lost that no one lived to write down."""
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
