"""``Client`` and ``AsyncClient``: what programs talk to a server with.

Both make the same calls, which are written once in ``chats``, ``plans`` and ``runs``; here is what needs to know
whether one waits or awaits.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, Unpack

from pilothouse.client import groups
from pilothouse.client.address import address_of
from pilothouse.client.chats import OnApproval, Saying, body_of, send
from pilothouse.client.courses import RunCourse, TurnCourse
from pilothouse.client.decisions import Decision
from pilothouse.client.doors import AsyncDoor, Door
from pilothouse.client.events import ApprovalRequired
from pilothouse.client.turns import AsyncTurn, Turn
from pilothouse.core.chat.result import TurnResult

Json: TypeAlias = dict[str, Any]
Answer: TypeAlias = Decision | str | None
Asking: TypeAlias = Callable[[ApprovalRequired], Answer]
AsyncAsking: TypeAlias = Callable[[ApprovalRequired], Answer | Awaitable[Answer]]

TIMEOUT_S = 30.0
"""Seconds an answer may take when nobody says."""


class Client:
    """A server, for programs that wait. A context manager; may be used by several threads at once.

    Every method raises the error of ``pilothouse.errors`` that the server answers, with its ``code``, and
    ``Unavailable`` when no server can be reached. What can be asked twice without harm is, when a connection breaks or
    the server is restarted."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        data_dir: Path | str | None = None,
        *,
        timeout: float = TIMEOUT_S,
    ) -> None:
        """``url`` with an ``api_key``: the server there. Without: the one that serves ``data_dir`` (else the one that
        the settings name) on this machine, by its Unix socket; it is started in the background when there is none.

        ``timeout``: seconds an answer may take, other than that of a turn."""
        self._door = Door(address_of(url, api_key, data_dir), timeout)
        self.chats = groups.Chats(self._door)
        self.plans = groups.Plans(self._door)
        self.workflows = groups.Workflows(self._door)
        self.runs = groups.Runs(self._door)
        self.approvals = groups.Approvals(self._door)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._door.close()

    def chat(
        self,
        message: str,
        *,
        on_approval: OnApproval | Asking | None = None,
        **saying: Unpack[Saying],
    ) -> TurnResult:
        """Say something and wait for all that follows from it. Without ``chat_id`` it begins a conversation.

        ``on_approval``: what becomes of tool calls that a person has to allow: ``refuse``, ``wait`` (until somebody
        answers), ``run``, or a function that is called with each and answers it. The rest is in ``Saying``.

        A turn that failed is a result too: ``success`` is False, ``error`` and ``code`` say why, and what it brought
        until then is kept."""
        asking = on_approval if callable(on_approval) else None
        body = body_of(message, "wait" if callable(on_approval) else on_approval, saying)
        if asking is None:
            return self._door.run(send(body))
        with Turn(self._door, TurnCourse(body), body) as turn:
            for event in turn:
                if isinstance(event, ApprovalRequired):
                    turn.decide(event, asking(event))
            return turn.result()

    def stream(
        self,
        message: str,
        *,
        on_approval: OnApproval | None = None,
        **saying: Unpack[Saying],
    ) -> Turn:
        """The same, told event by event as it happens; returns once the turn has begun. Approvals wait until somebody
        answers: ``turn.decide(event, "approve")``."""
        body = body_of(message, on_approval, saying)
        return Turn(self._door, TurnCourse(body), body)

    def follow(self, turn_id: str, *, after: int = 0) -> Turn:
        """A turn that goes on already, from its beginning or after an event's ``seq``. Raises ``NotFound``."""
        return Turn(self._door, TurnCourse(turn_id=turn_id, after=after))

    def events(self, run_id: str, *, after: int = 0) -> Iterator[Json]:
        """The events of a run of any kind, as its log has them, until it has ended."""
        return self._door.follow(RunCourse(run_id, after))


class AsyncClient:
    """A server, for programs that await: as ``Client``. Belongs to one event loop."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        data_dir: Path | str | None = None,
        *,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self._door = AsyncDoor(address_of(url, api_key, data_dir), timeout)
        self.chats = groups.AsyncChats(self._door)
        self.plans = groups.AsyncPlans(self._door)
        self.workflows = groups.AsyncWorkflows(self._door)
        self.runs = groups.AsyncRuns(self._door)
        self.approvals = groups.AsyncApprovals(self._door)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._door.close()

    async def chat(
        self,
        message: str,
        *,
        on_approval: OnApproval | AsyncAsking | None = None,
        **saying: Unpack[Saying],
    ) -> TurnResult:
        """As ``Client.chat``; the function in ``on_approval`` may be asynchronous."""
        asking = on_approval if callable(on_approval) else None
        body = body_of(message, "wait" if callable(on_approval) else on_approval, saying)
        if asking is None:
            return await self._door.run(send(body))
        async with AsyncTurn(self._door, TurnCourse(body), body) as turn:
            async for event in turn:
                if isinstance(event, ApprovalRequired):
                    answer = asking(event)
                    await turn.decide(event, await answer if inspect.isawaitable(answer) else answer)
            return await turn.result()

    def stream(
        self,
        message: str,
        *,
        on_approval: OnApproval | None = None,
        **saying: Unpack[Saying],
    ) -> AsyncTurn:
        """As ``Client.stream``, for ``async with`` and ``async for``."""
        body = body_of(message, on_approval, saying)
        return AsyncTurn(self._door, TurnCourse(body), body)

    def follow(self, turn_id: str, *, after: int = 0) -> AsyncTurn:
        """As ``Client.follow``."""
        return AsyncTurn(self._door, TurnCourse(turn_id=turn_id, after=after))

    def events(self, run_id: str, *, after: int = 0) -> AsyncIterator[Json]:
        """As ``Client.events``."""
        return self._door.follow(RunCourse(run_id, after))
