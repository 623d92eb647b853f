"""One request to a model: what it used is told as soon as its server tells it."""

from __future__ import annotations

import asyncio

from tests.adapters.backends.llm.asking import config, opened, request
from tests.support.models.parts import hang, say, usage
from tests.support.models.server import ModelServer

from pilothouse.adapters.backends.llm.backend import LlmBackend
from pilothouse.core.chat.backend import Said, Spent
from pilothouse.core.run.usage import Usage


def priced(model: str, used: Usage) -> Usage:
    return Usage(cost=used.tokens / 1000)


def test_what_is_known_of_its_usage_is_told_of_a_request_that_is_ended_before_it_has_answered() -> None:
    async def work(backend: LlmBackend) -> list[Spent]:
        used: list[Spent] = []
        replies = backend.call(request())
        async for batch in replies:
            used += [one for one in batch if isinstance(one, Spent)]
            if any(isinstance(one, Said) for one in batch):
                break
        await replies.aclose()  # type: ignore[attr-defined]  # the port promises an iterator only
        return used

    async def main(server: ModelServer) -> list[Spent]:
        async with opened(config(server, "anthropic"), priced) as backend:
            return await work(backend)

    with ModelServer([(say("I am"), usage(input=1000, output=50, cached=200), hang())]) as server:
        (used,) = asyncio.run(main(server))
    assert (used.input_tokens, used.cached_tokens, used.model) == (1000, 200, "fake-1")
    assert used.output_tokens < 50


def test_what_is_told_in_portions_is_the_whole_together() -> None:
    async def main(server: ModelServer) -> list[Spent]:
        async with opened(config(server, "anthropic"), priced) as backend:
            return [one async for batch in backend.call(request()) for one in batch if isinstance(one, Spent)]

    with ModelServer([(say("I am"), usage(input=1000, output=50, cached=200))]) as server:
        used = asyncio.run(main(server))
    assert len(used) == 2
    assert sum(one.input_tokens for one in used) == 1000
    assert sum(one.output_tokens for one in used) == 50
    assert sum(one.cached_tokens for one in used) == 200
    assert round(sum(one.cost or 0 for one in used), 9) == 1.05
