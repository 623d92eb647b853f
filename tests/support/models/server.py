"""A model server on the loopback interface whose models do what a test has written down.

``ModelServer`` runs in a thread of the test, speaks four wires on one port and remembers all it was asked. It knows
no agent: what a client is, it learns from the client's request.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from tests.support.models.answers import play
from tests.support.models.asked import Asked
from tests.support.models.http import MAX_HEAD, ClientGone, Reply, Request, read_request
from tests.support.models.parts import Turn
from tests.support.models.received import ONLY, Received, read
from tests.support.models.script import Scripted, player


class ModelServer:
    """A context manager; everything in it may be used from the test's thread.

    ``scripts``: one script (turns, or a function of the question) for everybody, or scripts by name. A request names
    its script by its path (``url_of(name)``), by an API key that ends in the name, or by a prompt that holds the name
    as a word.
    """

    def __init__(self, scripts: Scripted | Mapping[str, Scripted] = (), context_tokens: int | None = None) -> None:
        """``context_tokens``: what the list of models tells, as vLLM does."""
        self._told = {} if context_tokens is None else {"max_model_len": context_tokens}
        named = scripts if isinstance(scripts, Mapping) else {ONLY: scripts}
        self._players: dict[str, Callable[[Asked], Turn]] = {name: player(one) for name, one in named.items()}
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="model-server")
        self._changed = threading.Condition()
        self._requests: list[Received] = []
        self._connections = 0
        self._unanswered = 0
        self._holding = 0
        self._gates: dict[str | None, asyncio.Event] = {}
        self._errors: list[Exception] = []
        self._ready = threading.Event()
        self._ending = asyncio.Event()
        self.port = 0

    # --- for tests ---------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Without a path: clients of OpenAI's wires want ``/v1`` behind it."""
        return f"http://127.0.0.1:{self.port}"

    def url_of(self, name: str) -> str:
        """Where the script of this name answers, whatever the prompt and the key."""
        return f"{self.url}/s/{name}"

    @property
    def requests(self) -> list[Received]:
        """All requests so far, oldest first."""
        with self._changed:
            return list(self._requests)

    @property
    def questions(self) -> list[Received]:
        """Requests to a model that offered tools: not titles, not lists of models."""
        return [one for one in self.requests if one.asked and not one.aside]

    @property
    def connections(self) -> int:
        """Open right now."""
        return self._connections

    @property
    def unanswered(self) -> int:
        """Requests whose answer is not complete and whose client has not left."""
        return self._unanswered

    @property
    def holding(self) -> int:
        """Answers that stand still at a ``hold`` or a ``hang``; what came before it has been sent."""
        return self._holding

    def wait_for(self, met: Callable[[list[Received]], bool], timeout: float = 90.0) -> list[Received]:
        """The requests, once ``met`` holds for them; it is asked anew whenever anything changes here.

        Raises AssertionError after ``timeout`` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: met(list(self._requests)), timeout):
                seen = [f"{one.method} {one.path}" for one in self._requests[-15:]]
                raise AssertionError(
                    f"it did not come in {timeout} s; the last of {len(self._requests)} requests: {seen}"
                )
            return list(self._requests)

    def let_go(self, name: str) -> None:
        """Let every answer that is held, or will be, under this name go on."""
        self._loop.call_soon_threadsafe(lambda: self._gate(name).set())

    def __enter__(self) -> ModelServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cuts what is still open. Raises what went wrong in here, as a test must not pass by our mistakes."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        if self._errors and error is None:
            raise self._errors[0]

    # --- in the server's thread ----------------------------------------------------------------------------

    async def _serve(self) -> None:
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._converse(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=MAX_HEAD, backlog=256)
        self._loop = asyncio.get_running_loop()
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ending.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """All requests of one connection."""
        self._count(connections=1)
        try:
            while request := await read_request(reader, writer):
                self._count(unanswered=1)
                try:
                    await self._answer(request, Reply(request, reader, writer))
                finally:
                    self._count(unanswered=-1)
        except (ClientGone, ConnectionError, asyncio.IncompleteReadError):
            pass  # clients may leave when they like: many a test stops them
        except Exception as error:
            self._errors.append(error)
        finally:
            writer.transport.abort() if self._ending.is_set() else writer.close()
            self._count(connections=-1)

    async def _answer(self, request: Request, reply: Reply) -> None:
        received, wire = read(request, self._players)
        with self._changed:
            self._requests.append(received)
            self._changed.notify_all()
        if wire and received.asked:
            turn = self._players[received.script](received.asked)
            await play(turn, received.asked, wire, reply, self._held)
        elif request.method == "HEAD":
            await reply.send_json({})
        elif "count" in received.path:
            await reply.send_json({"input_tokens": 100, "totalTokens": 100})
        elif re.search(r"/models\b", received.path):
            await reply.send_json(
                {"object": "list", "data": [{"id": "fake-1", "object": "model", "owned_by": "tests", **self._told}]}
            )
        else:
            await reply.send_json({"error": {"message": f"nothing is at {received.path}"}}, 404)

    async def _held(self, name: str | None) -> None:
        self._count(holding=1)
        try:
            await self._gate(name).wait()
        finally:
            self._count(holding=-1)

    def _gate(self, name: str | None) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    def _count(self, connections: int = 0, unanswered: int = 0, holding: int = 0) -> None:
        with self._changed:
            self._connections += connections
            self._unanswered += unanswered
            self._holding += holding
            self._changed.notify_all()


@contextmanager
def refusing() -> Iterator[str]:
    """The URL of a server that refuses every connection. Its port is nobody else's meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
