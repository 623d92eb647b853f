"""The seams of conversations: where replies come from, what tools are, where credentials lie, how processes signal.

Each Protocol has a real implementation in ``adapters/`` and an in-memory twin beside it, and both pass the same suite
in ``tests/contract/``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from pilothouse.core.chat.backend import BackendEvent
from pilothouse.core.chat.calls import Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec


class Backend(Protocol):
    """Where replies come from. Any number of requests go on at once."""

    name: str
    features: Features

    def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        """Ask, and yield what it says: one sequence per network chunk. It ends after ``Completed``, ``Failed`` or
        ``Paused``, or earlier, which is an end of stream. Closing the iterator ends the request for certain.

        Raises ``BackendFailed`` when it cannot be asked or breaks off."""
        ...

    async def report(self, report: ToolReport) -> None:
        """Tell it how a call ended (mark-complete). Tries once; idempotent. Raises ``BackendFailed``."""
        ...

    async def steer(self, steer: SteerBackend) -> None:
        """Raises ``BackendFailed``."""
        ...

    async def abort(self, abort: AbortBackend) -> None:
        """Raises ``BackendFailed``."""
        ...

    async def answer(self, answer: AnswerBackend) -> None:
        """Hand an answer to an agent's request. Idempotent. Raises ``BackendFailed``."""
        ...

    async def title(self, make: MakeTitle) -> str:
        """A title of at most 60 characters. Raises ``BackendFailed``."""
        ...

    async def models(self) -> list[ChatModel]:
        """Raises ``BackendFailed`` when it cannot be asked."""
        ...


@runtime_checkable
class Unready(Protocol):
    """A backend that cannot be asked as the server is set up: no turn is begun with it."""

    lacking: str
    """What is missing, and what to do about it: one sentence for a person."""


@runtime_checkable
class Warms(Protocol):
    """What takes longer to answer the first time, unless it was got ready before: a backend, or another part."""

    async def warm(self) -> None:
        """Get ready, without holding up anything else. Idempotent; cancelling it ends it."""
        ...


@runtime_checkable
class PassesOn(Protocol):
    """A backend that clients may speak to themselves, in its own words."""

    def pass_on(self, body: bytes) -> AbstractAsyncContextManager[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        """Hand on the body of a turn's request. What comes back is a status, the headers that say what the body is,
        and the body as it comes; leaving ends it. Raises ``BackendFailed`` when it cannot be asked."""
        ...


class Tool(Protocol):
    """One tool. What it needs of the world it was made with."""

    spec: ToolSpec

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        """Do it. ``arguments`` are as the model gave them: what does not fit the spec raises ``BadInput`` with the
        field. A failure that the model should know of is a ``ToolAnswer`` with ``ok=False`` or a ``PilothouseError``.
        Cancelling it ends what it began."""
        ...


class Vault(Protocol):
    """Credentials, encrypted where they lie. Owners do not know of each other's."""

    async def put(self, owner: str, name: str, secret: Mapping[str, Any]) -> None:
        """Keep a credential; replaces the one of that name."""
        ...

    async def get(self, owner: str, name: str) -> dict[str, Any]:
        """Raises ``NotFound``."""
        ...

    async def names(self, owner: str) -> list[str]: ...

    async def everything(self, owner: str) -> dict[str, dict[str, Any]]:
        """By name."""
        ...

    async def delete(self, owner: str, name: str) -> None:
        """Idempotent."""
        ...


class Signals(Protocol):
    """Wake-ups between the processes that share a store; within one process they need no server. What is published
    reaches whoever listens at that moment, nothing is kept: the log is the truth, this only says to look."""

    async def publish(self, channel: str, message: bytes) -> None:
        """Best effort: a signal that cannot be sent is logged, and raises nothing."""
        ...

    def listen(self, channel: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Messages published from the moment the context is entered."""
        ...

    async def keep(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Keep a value for a while unless the key is taken; whether it was kept: one of several wins."""
        ...

    async def kept(self, key: str) -> bytes | None: ...

    async def forget(self, key: str) -> None:
        """What was kept, so that the key is free. Idempotent."""
        ...

    async def close(self) -> None: ...
