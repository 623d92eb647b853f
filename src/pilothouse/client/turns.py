"""A turn while it goes on: its events as they come, and what can be said to it meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any

from pilothouse.client import chats
from pilothouse.client.courses import TurnCourse
from pilothouse.client.decisions import Decision, decide, workflow_of
from pilothouse.client.doors import AsyncDoor, Door
from pilothouse.client.events import ApprovalRequired, ChatEvent
from pilothouse.core.chat.result import TurnResult
from pilothouse.errors import BadInput


class _Known:
    """What both kinds of turns know."""

    def __init__(self, course: TurnCourse, body: dict[str, object] | None) -> None:
        self._course = course
        self._body = body

    @property
    def id(self) -> str:
        """The turn's id (``streamId``); empty before its first event."""
        return self._course.turn_id

    @property
    def chat_id(self) -> str:
        return self._course.chat_id

    @property
    def seq(self) -> int:
        """The number of the last event, for following it anew."""
        return self._course.after

    @property
    def message(self) -> dict[str, object]:
        """Raises ``BadInput`` for a turn that was not begun here."""
        if self._body is None:
            raise BadInput("only whoever sent the message has its result", fix="look at the chat's messages")
        return {**self._body, "stream": False}


class Turn(_Known, Iterator[ChatEvent]):
    """Iterate over it: every event once and in order, whatever happens to the connection or to the server; the last is
    ``Done`` or ``Failed``. The methods may be called by another thread.

    Leaving it does not end the turn: ``abort`` does."""

    def __init__(self, door: Door, course: TurnCourse, body: dict[str, object] | None = None) -> None:
        super().__init__(course, body)
        self._door = door
        self._events = door.follow(course)
        self._first: ChatEvent | None = next(self._events, None)  # so that what is refused is refused now

    def __iter__(self) -> Turn:
        return self

    def __next__(self) -> ChatEvent:
        event, self._first = self._first, None
        return event if event is not None else next(self._events)

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening. The turn goes on."""
        close = getattr(self._events, "close", None)
        if close is not None:
            close()

    def abort(self) -> None:
        """End the turn; what there is of it is kept. Idempotent."""
        self._door.run(chats.abort(self.id))

    def steer(self, content: str) -> None:
        """Say something while it goes on. Raises ``Refused`` when it has ended."""
        self._door.run(chats.steer(self.id, content))

    def confirm(
        self,
        tool_call_id: str,
        status: str = "accepted",
        *,
        scope: str = "once",
        arguments: dict[str, Any] | None = None,
        message: str = "",
        result: Any = None,
        error: str = "",
    ) -> None:
        """Decide about one of its tool calls, as ``chats.confirm``."""
        self._door.run(
            chats.confirm(
                tool_call_id,
                status,
                turn_id=self.id,
                scope=scope,
                arguments=arguments,
                message=message,
                result=result,
                error=error,
            )
        )

    def decide(self, asked: ApprovalRequired, decision: Decision | str | None) -> bool:
        """Answer an approval; whether that counted: the first answer does. None leaves it to somebody else."""
        return self._door.run(decide(asked, decision))

    def workflow_of(self, asked: ApprovalRequired) -> dict[str, Any] | None:
        """What would be run, where an approval is about a workflow: as ``GET /api/workflows/{id}`` tells it."""
        return self._door.run(workflow_of(asked))

    def result(self) -> TurnResult:
        """What came of it, once it has ended. Waits for that; the events may still be read afterwards."""
        return self._door.run(chats.send(self.message, path=chats.INTERACTIVE))


class AsyncTurn(_Known, AsyncIterator[ChatEvent]):
    """As ``Turn``, for ``async with`` and ``async for``. Nothing is sent before one of them begins."""

    def __init__(self, door: AsyncDoor, course: TurnCourse, body: dict[str, object] | None = None) -> None:
        super().__init__(course, body)
        self._door = door
        self._events = door.follow(course)
        self._first: ChatEvent | None = None

    def __aiter__(self) -> AsyncTurn:
        return self

    async def __anext__(self) -> ChatEvent:
        event, self._first = self._first, None
        return event if event is not None else await anext(self._events)

    async def __aenter__(self) -> AsyncTurn:
        try:
            self._first = await anext(self._events, None)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening. The turn goes on."""
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()

    async def abort(self) -> None:
        """End the turn; what there is of it is kept. Idempotent."""
        await self._door.run(chats.abort(self.id))

    async def steer(self, content: str) -> None:
        """Say something while it goes on. Raises ``Refused`` when it has ended."""
        await self._door.run(chats.steer(self.id, content))

    async def confirm(
        self,
        tool_call_id: str,
        status: str = "accepted",
        *,
        scope: str = "once",
        arguments: dict[str, Any] | None = None,
        message: str = "",
        result: Any = None,
        error: str = "",
    ) -> None:
        """Decide about one of its tool calls, as ``chats.confirm``."""
        await self._door.run(
            chats.confirm(
                tool_call_id,
                status,
                turn_id=self.id,
                scope=scope,
                arguments=arguments,
                message=message,
                result=result,
                error=error,
            )
        )

    async def decide(self, asked: ApprovalRequired, decision: Decision | str | None) -> bool:
        """Answer an approval; whether that counted: the first answer does. None leaves it to somebody else."""
        return await self._door.run(decide(asked, decision))

    async def workflow_of(self, asked: ApprovalRequired) -> dict[str, Any] | None:
        """What would be run, where an approval is about a workflow: as ``GET /api/workflows/{id}`` tells it."""
        return await self._door.run(workflow_of(asked))

    async def result(self) -> TurnResult:
        """What came of it, once it has ended."""
        return await self._door.run(chats.send(self.message, path=chats.INTERACTIVE))
