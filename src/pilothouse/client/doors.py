"""The two ways flows and courses are driven over HTTP: waiting, and awaiting. What is asked is not decided here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import httpx

from pilothouse.client.address import Address
from pilothouse.client.courses import SILENCE_S, Course
from pilothouse.client.failures import ServerFailed, Unreachable, failure
from pilothouse.client.flows import Ask, Flow, Now, Pause, Step
from pilothouse.client.transport import SocketTransport
from pilothouse.errors import PilothouseError

T = TypeVar("T")

_CONNECT_S = 10.0
_NO_CONTENT = 204


class Door:
    """Requests that block the thread they are made in. May be used by several threads at once."""

    def __init__(self, address: Address, timeout: float, transport: httpx.BaseTransport | None = None) -> None:
        """``timeout``: seconds an answer may take."""
        self._address = address
        self._timeout = timeout
        if transport is None and address.socket_path is not None:
            transport = SocketTransport(address.socket_path)
        self._http = httpx.Client(base_url=address.url, headers=address.headers, transport=transport)
        self._found, self._lost = False, False

    def close(self) -> None:
        self._http.close()

    def run(self, flow: Flow[T], /) -> T:
        """Drive a call to its end. Raises the error of the tree that the server answered, or ``Unreachable``."""
        try:
            step = next(flow)
            while True:
                try:
                    answer = self._do(step)
                except PilothouseError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def follow(self, course: Course[T]) -> Iterator[T]:
        """What a course brings, to its end."""
        while not course.ended:
            error = Unreachable(f"the stream of {self._address.place} breaks off again and again")
            try:
                with self._listen(course.request()) as chunks:
                    if chunks is None:
                        course.empty()
                        return
                    for chunk in chunks:
                        yield from course.feed(chunk)
            except Unreachable as unreachable:
                error = unreachable
            if not course.ended:
                time.sleep(course.broke(error, time.monotonic()))

    def _do(self, step: Step) -> Any:
        match step:
            case Pause(seconds):
                return time.sleep(seconds)
            case Now():
                return time.monotonic()
            case Ask():
                self._find()
                timeout = httpx.Timeout(step.timeout or self._timeout, connect=_CONNECT_S)
                with self._translating():
                    response = self._http.request(**_request(step), timeout=timeout)
                return _answer(step, response)

    @contextmanager
    def _listen(self, ask: Ask) -> Iterator[Iterator[bytes] | None]:
        self._find()
        with (
            self._translating(),
            self._http.stream(**_request(ask), timeout=httpx.Timeout(SILENCE_S, connect=_CONNECT_S)) as response,
        ):
            if response.is_error:
                raise failure(response.status_code, response.read())
            yield None if response.status_code == _NO_CONTENT else response.iter_bytes()

    def _find(self) -> None:
        if not self._found:
            self._address.find(lost=self._lost)
            self._found = True

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            self._found, self._lost = False, True  # whoever is there next may have to be started
            raise _unreachable(error, self._address) from error


class AsyncDoor:
    """Requests that are awaited. Belongs to one event loop."""

    def __init__(self, address: Address, timeout: float, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """``timeout``: seconds an answer may take."""
        self._address = address
        self._timeout = timeout
        if transport is None and address.socket_path is not None:
            transport = httpx.AsyncHTTPTransport(uds=address.socket_path)
        self._http = httpx.AsyncClient(base_url=address.url, headers=address.headers, transport=transport)
        self._found, self._lost = False, False

    async def close(self) -> None:
        await self._http.aclose()

    async def run(self, flow: Flow[T], /) -> T:
        """Drive a call to its end. Raises the error of the tree that the server answered, or ``Unreachable``."""
        try:
            step = next(flow)
            while True:
                try:
                    answer = await self._do(step)
                except PilothouseError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def follow(self, course: Course[T]) -> AsyncIterator[T]:
        """What a course brings, to its end."""
        while not course.ended:
            error = Unreachable(f"the stream of {self._address.place} breaks off again and again")
            try:
                async with self._listen(course.request()) as chunks:
                    if chunks is None:
                        course.empty()
                        return
                    async for chunk in chunks:
                        for item in course.feed(chunk):
                            yield item
            except Unreachable as unreachable:
                error = unreachable
            if not course.ended:
                await asyncio.sleep(course.broke(error, time.monotonic()))

    async def _do(self, step: Step) -> Any:
        match step:
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Now():
                return time.monotonic()
            case Ask():
                await self._find()
                timeout = httpx.Timeout(step.timeout or self._timeout, connect=_CONNECT_S)
                with self._translating():
                    response = await self._http.request(**_request(step), timeout=timeout)
                return _answer(step, response)

    @asynccontextmanager
    async def _listen(self, ask: Ask) -> AsyncIterator[AsyncIterator[bytes] | None]:
        await self._find()
        with self._translating():
            async with self._http.stream(
                **_request(ask), timeout=httpx.Timeout(SILENCE_S, connect=_CONNECT_S)
            ) as response:
                if response.is_error:
                    raise failure(response.status_code, await response.aread())
                yield None if response.status_code == _NO_CONTENT else response.aiter_bytes()

    async def _find(self) -> None:
        if not self._found:
            await asyncio.to_thread(self._address.find, lost=self._lost)
            self._found = True

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            self._found, self._lost = False, True  # whoever is there next may have to be started
            raise _unreachable(error, self._address) from error


def _request(ask: Ask) -> dict[str, Any]:
    query = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in ask.query.items()}
    headers = {"Accept": "application/json", **ask.headers}
    return {"method": ask.method, "url": ask.path, "params": query, "json": ask.body, "headers": headers}


def _answer(ask: Ask, response: httpx.Response) -> Any:
    if not response.content and not response.is_error:
        return None
    try:
        answer = response.json()
    except ValueError as error:
        if response.is_error:
            raise failure(response.status_code, response.content) from None
        raise ServerFailed("the server's answer cannot be understood") from error
    if response.is_error and not (ask.reads and isinstance(answer, dict) and ask.reads in answer):
        raise failure(response.status_code, response.content)
    return answer


def _unreachable(error: httpx.TransportError, address: Address) -> Unreachable:
    sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    if isinstance(error, httpx.TimeoutException):
        return Unreachable(f"the server at {address.place} did not answer in time", sent=sent)
    why = str(error) or type(error).__name__
    return Unreachable(f"the server at {address.place} cannot be reached: {why}", sent=sent)
