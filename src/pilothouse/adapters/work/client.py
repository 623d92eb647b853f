"""One connection to a warden: requests with answers, and the commands that are followed over it.

Owns the socket and the task that reads it. Knows the protocol, but neither how a warden is started nor what to do
when it is gone: every wait then ends with ``Disconnected``.
"""

from __future__ import annotations

import asyncio
import os
import socket
from itertools import count
from typing import Any

from pilothouse.adapters.work import protocol
from pilothouse.adapters.work.connections import peer_uid
from pilothouse.adapters.work.places import Places, reachable
from pilothouse.adapters.work.protocol import Message
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.errors import ExecutorFailed

ANSWER_WITHIN = 15.0
"""Seconds. A warden answers in well under a millisecond; one that does not is stopped or swapped out."""


class Disconnected(Exception):
    """Raised when the connection ended before an answer or an end arrived."""


class Fenced(ExecutorFailed):
    """Raised when a newer owner has taken over."""


class Watch:
    """How far a followed command has come. ``wake`` is set whenever something has changed."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.to = 0
        self.errors_to = 0
        self.exit: Exit | None = None
        self.wake = asyncio.Event()

    def grew(self, message: Message) -> None:
        """Take the sizes of a message, where it has them: an old warden knows of no errors beside the output."""
        self.to = max(self.to, message.get("to", 0))
        self.errors_to = max(self.errors_to, message.get("errorsTo", 0))


class WardenClient:
    """A connection after its hello; made by ``connect``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = count(1)
        self._answers: dict[int, asyncio.Future[Message]] = {}
        self._watches: dict[str, set[Watch]] = {}
        self._fenced = ""
        self.open = True
        self.instance = ""
        self.pid = 0
        self._task = asyncio.create_task(self._listen(), name="warden-connection")

    async def hello(self, epoch: int, orphan_grace: float) -> None:
        """Introduce the owner. Raises ``Fenced`` when a newer one is known."""
        answer = await self.request(
            "hello", version=protocol.VERSION, epoch=epoch, orphanGraceMs=round(orphan_grace * 1000)
        )
        self.instance = answer["instance"]
        self.pid = answer["pid"]

    async def request(self, op: str, **fields: Any) -> Message:
        """Send and await the answer. Raises ``Disconnected``, ``Fenced``, or ``ExecutorFailed`` for a refusal."""
        self._check_open()
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(protocol.encode({"op": op, "id": number, **fields}))
            async with asyncio.timeout(ANSWER_WITHIN):
                await self._writer.drain()
                message: Message = await answer
        except TimeoutError:
            raise ExecutorFailed(f"the warden did not answer {op} within {ANSWER_WITHIN:g} s") from None
        except OSError as error:
            self.open = False
            raise Disconnected(str(error)) from error
        finally:
            self._answers.pop(number, None)
        if message.get("ok"):
            return message
        text = f"the warden refused {op}: {message.get('message', '')}"
        if message.get("error") == protocol.ENDING:
            await self._wait_for_its_end()
            raise Disconnected(text)
        raise Fenced(text) if message.get("error") == protocol.STALE_EPOCH else ExecutorFailed(text)

    def watch(self, key: str) -> Watch:
        """Have growth and end of ``key`` noted from now on, once it is attached."""
        watch = Watch(key)
        self._watches.setdefault(key, set()).add(watch)
        return watch

    def unwatch(self, watch: Watch) -> None:
        """The opposite of ``watch``. Does not wait, so that it may stand in a ``finally``."""
        watches = self._watches.get(watch.key, set())
        watches.discard(watch)
        if not watches and self._watches.pop(watch.key, None) is not None and self.open:
            self._writer.write(protocol.encode({"op": "detach", "key": watch.key}))

    async def changed(self, watch: Watch) -> None:
        """Wait for news of ``watch``. Raises ``Disconnected`` or ``Fenced``."""
        if not watch.wake.is_set():
            self._check_open()
            await watch.wake.wait()
        watch.wake.clear()
        if watch.exit is None:
            self._check_open()

    async def wait_closed(self) -> None:
        """Wait until the warden has closed the connection."""
        await asyncio.wait({self._task})

    async def aclose(self) -> None:
        """Close it; whoever waits gets ``Disconnected``. Idempotent."""
        self._writer.close()
        self._task.cancel()
        await asyncio.wait({self._task})
        try:
            await self._writer.wait_closed()
        except OSError:
            pass

    async def _wait_for_its_end(self) -> None:
        """A warden that is ending starts nothing more; its successor will, once it is gone."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                await self.wait_closed()
        except TimeoutError:
            raise ExecutorFailed("the warden is ending, and what it runs does not end") from None

    def _check_open(self) -> None:
        if self._fenced:
            raise Fenced(self._fenced)
        if not self.open:
            raise Disconnected("the warden closed the connection")

    async def _listen(self) -> None:
        lines = protocol.Lines()
        try:
            while data := await self._reader.read(1 << 18):
                for message in lines.feed(data):
                    self._on_message(message)
        except (OSError, protocol.ProtocolError):
            pass
        finally:
            self.open = False
            self._writer.close()
            failure = Fenced(self._fenced) if self._fenced else Disconnected("the warden closed the connection")
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(failure)
            for watches in self._watches.values():
                for watch in watches:
                    watch.wake.set()

    def _on_message(self, message: Message) -> None:
        match message.get("ev"):
            case None:
                answer = self._answers.get(message.get("re", 0))
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case "grew":
                for watch in self._watches.get(message["key"], ()):
                    watch.grew(message)
                    watch.wake.set()
            case "ended":
                for watch in self._watches.get(message["key"], ()):
                    watch.exit = exit_from(message["exit"])
                    watch.wake.set()
            case "fenced":
                self._fenced = f"refused: {message.get('message', 'a newer owner has taken over')}"
            case _:
                pass  # a newer warden may say more


async def connect(where: Places, epoch: int, orphan_grace: float) -> WardenClient:
    """Connect and introduce the owner. Raises ``OSError`` when no warden is there, else as ``hello``."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        with reachable(where.socket) as address:
            await asyncio.get_running_loop().sock_connect(sock, address)
        if peer_uid(sock) != os.getuid():
            raise ExecutorFailed(f"{where.socket} belongs to another user")
        reader, writer = await asyncio.open_unix_connection(sock=sock)
    except BaseException:
        sock.close()
        raise
    client = WardenClient(reader, writer)
    try:
        await client.hello(epoch, orphan_grace)
    except BaseException:
        await client.aclose()
        raise
    return client


def exit_from(data: Message) -> Exit:
    """An end as it travels, as a value. A reason of a newer warden that we do not know counts as lost."""
    try:
        reason = ExitReason(data["reason"])
    except ValueError:
        reason = ExitReason.LOST
    return Exit(
        reason=reason,
        code=data.get("code"),
        signal=data.get("signal"),
        error=data.get("error", ""),
        output_to=data.get("outputTo", 0),
        started_at=data.get("startedAt", 0),
        ended_at=data.get("endedAt", 0),
    )
