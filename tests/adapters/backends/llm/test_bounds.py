"""How much of an answer of a model's server is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from pilothouse.adapters.backends.llm import bounds


def answer(status: int, size: int) -> bytes:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(size // 1000):
            yield b"x" * 1000

    async def act() -> bytes:
        transport = httpx2.MockTransport(lambda request: httpx2.Response(status, content=body()))
        async with httpx2.AsyncClient(transport=transport, event_hooks={"response": [bounds.bound]}) as client:
            return (await client.get("http://model.example/")).content

    return asyncio.run(act())


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_ANSWER", 50_000)
    monkeypatch.setattr(bounds, "MAX_ERROR", 10_000)


def test_an_answer_is_read_as_a_whole() -> None:
    assert len(answer(200, 50_000)) == 50_000


def test_one_that_never_ends_is_left() -> None:
    with pytest.raises(httpx2.ReadError, match="more than 50,000 bytes"):
        answer(200, 60_000)


def test_of_an_error_the_beginning_is_enough() -> None:
    assert len(answer(500, 60_000)) == 10_000
