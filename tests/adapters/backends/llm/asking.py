"""What the tests of the backend of language models share: a request, a backend over a model server, what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from tests.support.models.server import ModelServer

from pilothouse.adapters.backends.llm.backend import LlmBackend
from pilothouse.adapters.backends.llm.config import LlmConfig
from pilothouse.core.chat.backend import BackendEvent
from pilothouse.core.chat.calls import CallReason
from pilothouse.core.chat.request import BackendRequest
from pilothouse.core.run.usage import Usage
from pilothouse.core.tools.spec import ToolSpec

T = TypeVar("T")

KEY = "fake-key-0123456789"
WIRES = ("openai", "openai-responses", "anthropic", "ollama")
LOOK = ToolSpec(
    name="look",
    description="Look something up.",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
)


def request(message: str = "Hello", **more: Any) -> BackendRequest:
    given: dict[str, Any] = {
        "turn_id": "t1",
        "chat_id": "c1",
        "message_id": "m1",
        "call": 1,
        "reason": CallReason.FIRST,
        "owner": "ada",
        "message": message,
        "tools": (LOOK,),
        **more,
    }
    return BackendRequest(**given)


def unpriced(model: str, usage: Usage) -> Usage:
    return Usage(unpriced_tokens=usage.tokens)


def config(server: ModelServer, wire: str = "openai", **more: Any) -> LlmConfig:
    url = server.url if wire == "anthropic" else f"{server.url}/v1"
    return LlmConfig(**{"provider": wire, "base_url": url, "api_key": KEY, "model": "fake-1", **more})


@asynccontextmanager
async def opened(settings: LlmConfig, priced: Callable[[str, Usage], Usage] = unpriced) -> AsyncIterator[LlmBackend]:
    backend = LlmBackend(settings, priced)
    try:
        yield backend
    finally:
        await backend.close()


def run(settings: LlmConfig, work: Callable[[LlmBackend], Coroutine[Any, Any, T]]) -> T:
    async def main() -> T:
        async with asyncio.timeout(30), opened(settings) as backend:
            return await work(backend)

    return asyncio.run(main())


async def said(backend: LlmBackend, asked: BackendRequest) -> list[BackendEvent]:
    events: list[BackendEvent] = []
    async with aclosing(backend.call(asked)) as batches:  # type: ignore[type-var]  # the port promises an iterator only
        async for batch in batches:
            events.extend(batch)
    return events


def answer(settings: LlmConfig, asked: BackendRequest) -> list[BackendEvent]:
    return run(settings, lambda backend: said(backend, asked))
