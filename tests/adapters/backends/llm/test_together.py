"""What arrives together is handed on together, no faster than it is taken, and ends with whoever takes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from tests.adapters.backends.llm.asking import opened, request

from pilothouse.adapters.backends.llm.config import LlmConfig
from pilothouse.adapters.backends.llm.together import MOST, together
from pilothouse.core.chat.backend import Said


def run(act: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await act

    asyncio.run(bounded())


class Source:
    def __init__(self, *bursts: Sequence[int], fails: bool = False) -> None:
        self.bursts = bursts
        self.fails = fails
        self.told = 0
        self.closed = False
        self.next = asyncio.Semaphore(0)
        """Released once for each burst but the first."""

    async def items(self) -> AsyncGenerator[Sequence[int]]:
        try:
            for burst in self.bursts:
                for item in burst:
                    self.told += 1
                    yield (item,)
                if burst is not self.bursts[-1]:
                    await self.next.acquire()
            if self.fails:
                raise ValueError("broken")
        finally:
            self.closed = True


def test_what_comes_without_waiting_is_one_batch() -> None:
    async def act() -> None:
        source = Source([1, 2, 3], [4], [5, 6])
        batches: list[list[int]] = []
        async for batch in together(source.items()):
            batches.append(batch)
            source.next.release()
        assert batches == [[1, 2, 3], [4], [5, 6]]
        assert source.closed

    run(act())


def test_nothing_is_read_much_further_than_it_is_taken() -> None:
    async def act() -> None:
        source = Source(range(10 * MOST))
        total = 0
        async for batch in together(source.items()):
            for _ in range(5):
                await asyncio.sleep(0)
            total += len(batch)
            assert source.told <= total + MOST
        assert total == 10 * MOST

    run(act())


def test_what_it_raises_comes_after_what_it_told() -> None:
    async def act() -> None:
        seen: list[int] = []
        source = Source([1], [2], fails=True)
        source.next.release()
        with pytest.raises(ValueError, match="broken"):
            async for batch in together(source.items()):
                seen += batch
        assert seen == [1, 2]

    run(act())


def test_closing_it_closes_its_source() -> None:
    async def act() -> None:
        source = Source([1], range(10 * MOST))
        async with aclosing(together(source.items())) as batches:
            await anext(batches)
        assert source.closed

    run(act())


def test_events_of_one_network_chunk_are_one_batch() -> None:
    """Through the whole library, with a server that writes a burst at once."""
    frame = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def event(delta: Any, finish: str | None = None) -> str:
        return f"data: {json.dumps({**frame, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        body = "".join(event({"content": f"w{n} "}) for n in range(100)) + event({}, "stop") + "data: [DONE]\n\n"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + body.encode())
        await writer.drain()
        writer.close()

    async def act() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server, opened(LlmConfig(base_url=url, model="m")) as backend:
            batches = [batch async for batch in backend.call(request())]
        told = [one.text for batch in batches for one in batch if isinstance(one, Said)]
        assert "".join(told) == "".join(f"w{n} " for n in range(100))
        assert len(batches) < 10

    run(act())
