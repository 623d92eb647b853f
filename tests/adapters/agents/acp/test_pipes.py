"""Messages over the pipes of an agent's process."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from pilothouse.adapters.agents.acp.pipes import MAX_STRAY, Pipes


class Written:
    """The agent's standard input."""

    def __init__(self) -> None:
        self.data = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return self.closed


def received(data: bytes, limit: int = 1 << 16) -> tuple[list[dict[str, Any]], list[str]]:
    """All messages in what an agent printed, and what was said of the rest."""
    strays: list[str] = []

    async def read() -> list[dict[str, Any]]:
        reader = asyncio.StreamReader(limit=limit)
        pipes = Pipes(reader, cast(asyncio.WriteTransport, Written()), strays.append)
        reader.feed_data(data)
        reader.feed_eof()
        messages = []
        while (message := await pipes.receive()) is not None:
            messages.append(message)
        return messages

    return asyncio.run(read()), strays


def test_every_line_is_a_message_also_the_last_one_without_an_end() -> None:
    assert received(b'{"id":1}\r\n\n{"id":2}') == ([{"id": 1}, {"id": 2}], [])


def test_lines_that_are_no_messages_are_told_and_passed_over() -> None:
    messages, strays = received(b'Loading...\n[1]\n"x"\n\xff\xfe\n{"id":1}\n' + b"[" * 100_000 + b"\n", limit=1 << 20)

    assert messages == [{"id": 1}]
    assert strays[:4] == ["Loading...", "[1]", '"x"', "��"]
    assert len(strays) == 5


def test_a_program_that_prints_without_end_is_told_of_only_so_often() -> None:
    messages, strays = received(b"noise\n" * 1000 + b'{"id":1}\n')

    assert messages == [{"id": 1}]
    assert len(strays) == MAX_STRAY + 1


def test_a_line_that_is_too_long_for_a_message_is_none() -> None:
    messages, strays = received(b'{"x":"' + b"y" * 5000 + b'"}\n{"id":1}\n', limit=1024)

    assert messages == [{"id": 1}]
    assert len(strays) == 1
    assert len(strays[0]) < 300


def test_a_message_is_one_line_whatever_is_in_it() -> None:
    written = Written()

    async def send() -> None:
        pipes = Pipes(asyncio.StreamReader(), cast(asyncio.WriteTransport, written), lambda _: None)
        await pipes.send({"text": "é\n\u2028"})

    asyncio.run(send())
    assert written.data == '{"text":"é\\n\u2028"}\n'.encode()


def test_an_agent_that_does_not_listen_any_more_is_a_broken_connection() -> None:
    written = Written()
    written.closed = True

    async def send() -> None:
        pipes = Pipes(asyncio.StreamReader(), cast(asyncio.WriteTransport, written), lambda _: None)
        with pytest.raises(ConnectionError):
            await pipes.send({})

    asyncio.run(send())
