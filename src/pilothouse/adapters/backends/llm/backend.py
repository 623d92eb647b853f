"""The backend ``llm``: a language model answers, by whoever speaks one of the common wires.

Stateless: each request of a turn brings the whole conversation. The model library is heavy: a server starts without it,
and imports it on a thread once it is up, or when the first request comes.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from pilothouse.adapters.backends.hidden import hidden
from pilothouse.adapters.backends.llm.config import LlmConfig, check
from pilothouse.core.chat.backend import BackendEvent
from pilothouse.core.chat.calls import Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.hiding import Secrets
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.errors import BackendFailed, Unavailable

if TYPE_CHECKING:
    from pilothouse.adapters.backends.llm.answering import Answering
    from pilothouse.adapters.backends.llm.leg import Priced

T = TypeVar("T")

_HEAVY = ("openai", "anthropic", "pydantic_ai.models.openai", "pydantic_ai.models.anthropic")
"""What takes long to import, piece by piece: whoever stops waiting waits for one of them at most."""
_ANSWERING = "pilothouse.adapters.backends.llm.answering"
LISTING_S = 30.0
TITLE_S = 60.0
_SHORTEST_KEY = 16
"""Characters of the shortest key that is taken out of what a model says. Services give longer ones; endpoints of the
user's own take anything, such as ``ollama``, which stands in many an answer."""


class LlmBackend:
    """Implements the engine's ``Backend`` port."""

    name = "llm"
    features = Features(titles=True, repeats=True)

    def __init__(self, config: LlmConfig, priced: Priced) -> None:
        """``priced``: usage of a model with its cost, see ``adapters.agents.pricing``.

        Raises ``BadInput`` for settings that are wrong, ``Unavailable`` for what is missing."""
        check(config)
        if any(importlib.util.find_spec(package) is None for package in ("pydantic_ai", "openai", "anthropic")):
            raise Unavailable("language models need a package that is not installed: pip install 'pilothouse[llm]'")
        self._config = config
        self._priced = priced
        self._secrets = Secrets([config.api_key], _SHORTEST_KEY)
        self._answering: Answering | None = None
        self._opening = asyncio.Lock()

    async def warm(self) -> None:
        """Get ready for the first request, which is as quick as any other then."""
        await self._open()

    async def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        self._config.named(request.model)  # what needs no library is said without waiting for it
        answering = await self._open()
        async with aclosing(hidden(answering.answer(request), self._secrets)) as batches:
            async for batch in batches:
                yield batch

    async def report(self, report: ToolReport) -> None:
        """It gets results with its next request."""

    async def steer(self, steer: SteerBackend) -> None:
        raise BackendFailed("a language model hears what is said meanwhile with its next request")

    async def abort(self, abort: AbortBackend) -> None:
        """Closing its request is all there is to it."""

    async def answer(self, answer: AnswerBackend) -> None:
        raise BackendFailed("a language model asks for no permissions")

    async def title(self, make: MakeTitle) -> str:
        answering = await self._open()
        title = await self._within(TITLE_S, answering.title(make.message, make.model))
        return str(self._secrets.hide(title))

    async def models(self) -> list[ChatModel]:
        answering = await self._open()
        return await self._within(LISTING_S, answering.models())

    async def close(self) -> None:
        """End all requests and connections. Idempotent."""
        answering, self._answering = self._answering, None
        if answering is not None:
            await answering.close()

    async def _open(self) -> Answering:
        async with self._opening:
            if self._answering is None:
                for name in _HEAVY:
                    await asyncio.to_thread(importlib.import_module, name)
                module = await asyncio.to_thread(importlib.import_module, _ANSWERING)
                self._answering = module.Answering(self._config, self._priced)
            return self._answering

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise BackendFailed(f"{self._config.place} did not answer within {seconds:g} s", transient=True) from None
