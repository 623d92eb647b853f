"""A copilot backend that speaks the chat document's wire: one POST, and server-sent events come back.

Which of the two wires it is shows at the first event, see ``core/chat/wire.py``. Owns the connections and the routes;
``remote_requests`` knows the bodies, ``remote_failures`` what refusals mean.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec

from pilothouse.adapters.backends import remote_requests as bodies
from pilothouse.adapters.backends.hidden import hidden
from pilothouse.adapters.backends.remote_failures import (
    MAX_BODY,
    as_object,
    read_bounded,
    refusal,
    told,
    unreachable,
)
from pilothouse.core.chat.backend import BackendEvent, Completed, Failed, Paused, Said
from pilothouse.core.chat.calls import CallReason, Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.hiding import Secrets
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.core.chat.sse import EventTooLong
from pilothouse.core.chat.wire import WireReader
from pilothouse.errors import BackendFailed, BadInput

TURN = "/api/chat-completion-streaming"
_TURN_ROUTES = (TURN, "/api/copilot", "/api/mothership")
"""An URL that ends with one of these names the route of turns too; the others lie beside it."""
_RESUME = "/api/tools/resume"
_REPORT = "/api/tools/mark-complete"
_ABORT = "/api/streams/explicit-abort"
_STEER = "/api/streams/steer"
_TITLE = "/api/generate-chat-title"

_CONNECT_S = 10.0
_WRITE_S = 30.0
_REPORT_S = 30.0
_ABORT_S = 3.0
_LAST_WORDS_S = 1.0
"""How long a strict backend that told of an error is listened to: its ``complete`` outranks that."""
_KNOWN = 4096
MAX_ANSWER = 128 << 20
"""Bytes of the stream of one request. A backend that never ends must not fill our memory and disk."""
_TITLE_LENGTH = 60
_GONE = frozenset({404, 405, 410})
_LAST = frozenset({Completed, Paused})
_SAYING = frozenset({"content-type", "content-encoding", "retry-after"})
"""The headers that say what a body is, and when to ask again."""


@dataclass(slots=True)
class _Stream:
    """What is remembered of a turn's stream while this process lives."""

    id: str
    reports: bool = True
    """Its wire has mark-complete; the strict one brings results with the next request."""


class RemoteBackend:
    """Made by ``opened``."""

    name = "remote"
    features = Features(reports=True, steers=True, aborts=True, titles=True, repeats=True)

    def __init__(self, http: httpx.AsyncClient, url: httpx.URL, turn: str, key: str = "") -> None:
        self._http = http
        self._secrets = Secrets([key])
        self._url = url
        self._turn = turn
        self._streams: OrderedDict[str, _Stream] = OrderedDict()

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str, api_key: str = "") -> AsyncIterator[RemoteBackend]:
        """Nothing is connected to before the first request. Raises ``BadInput`` for an URL or a key that cannot be one.
        Leaving closes all connections."""
        base, turn = _split(url)
        key = api_key.strip()
        if not key.isprintable() or not key.isascii():
            raise BadInput("has characters that no key has", field="backendApiKey")
        http = httpx.AsyncClient(
            headers={"accept-encoding": "identity", "user-agent": "pilothouse"} | ({"x-api-key": key} if key else {}),
            timeout=httpx.Timeout(None, connect=_CONNECT_S, write=_WRITE_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            follow_redirects=False,
            trust_env=not _is_local(base.host),
        )
        async with http:
            yield cls(http, base, turn, key)

    async def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        async with aclosing(hidden(self._call(request), self._secrets)) as batches:
            async for said in batches:
                yield said

    async def _call(self, request: BackendRequest) -> AsyncGenerator[Sequence[BackendEvent]]:
        stream = self._remember(request)
        for report in bodies.given_reports(request):
            await self.report(report)
        path, body = self._addressed(request)
        try:
            async with self._http.stream(
                "POST",
                self._at(path),
                content=_encoded(body),
                headers={"content-type": "application/json", "accept": "text/event-stream"},
            ) as response:
                if upgrade := await self._refused(response):
                    yield upgrade
                    return
                reader = WireReader()
                chunks = response.aiter_bytes()
                async for chunk in chunks:
                    if response.num_bytes_downloaded > MAX_ANSWER:
                        raise EventTooLong(f"an answer has more than {MAX_ANSWER:,} bytes")
                    said = reader.feed(chunk)
                    if reader.enveloped:
                        stream.reports = False
                    kinds = set(map(type, said))
                    over = reader.done or not kinds.isdisjoint(_LAST)
                    if Failed in kinds and not over:
                        said += await _last_words(chunks, reader)
                        over = True
                    if said:
                        yield said
                    if over:
                        return
                yield reader.end()
        except httpx.HTTPError as error:
            raise unreachable(self._url, error) from None
        except EventTooLong as error:
            raise BackendFailed(f"the copilot backend cannot be understood: {error}") from None

    async def report(self, report: ToolReport) -> None:
        stream = self._streams.get(report.turn_id)
        if stream is None or stream.reports:
            # A backend that knows no such route has its results by other ways.
            await self._post(_REPORT, bodies.report_body(report), _REPORT_S, besides=_GONE)

    async def steer(self, steer: SteerBackend) -> None:
        await self._post(_STEER, bodies.steer_body(steer, self._stream_id(steer.turn_id)), _REPORT_S)

    async def abort(self, abort: AbortBackend) -> None:
        # One that knows no such route sees that its connection is closed.
        await self._post(_ABORT, bodies.abort_body(abort, self._stream_id(abort.turn_id)), _ABORT_S, besides=_GONE)

    async def answer(self, answer: AnswerBackend) -> None:
        raise BackendFailed("a copilot backend asks for nothing")

    async def title(self, make: MakeTitle) -> str:
        title = (await self._post(_TITLE, bodies.title_body(make), _REPORT_S)).get("title")
        if not isinstance(title, str) or not title.strip():
            raise BackendFailed("the copilot backend made no title")
        return " ".join(title.split())[:_TITLE_LENGTH]

    async def models(self) -> list[ChatModel]:
        return []

    @asynccontextmanager
    async def pass_on(self, body: bytes) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        """Hand on the body of a turn's request. What comes back is a status, the headers that say what the body is,
        and the body as it comes, but for our key wherever it stands in one piece. Raises ``BackendFailed``."""
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        try:
            async with self._http.stream("POST", self._at(self._turn), content=body, headers=headers) as response:
                said = {name: value for name, value in response.headers.items() if name in _SAYING}
                yield response.status_code, said, self._passed(response)
        except httpx.HTTPError as error:
            raise unreachable(self._url, error) from None

    async def _passed(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        """A body, byte for byte and without delay: of a chunk only what may be the beginning of our key waits for the
        next. One that was packed although we asked for none stays as it is."""
        stream = self._secrets.stream()
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        async for chunk in response.aiter_raw():
            if told := chunk if packed else stream.feed(chunk):
                yield told
        if rest := stream.flush():
            yield rest

    def _addressed(self, request: BackendRequest) -> tuple[str, bodies.Body]:
        if request.reason is CallReason.RESULTS and request.checkpoint_id:
            return _RESUME, bodies.resume_body(request)
        return self._turn, bodies.turn_body(request)

    async def _refused(self, response: httpx.Response) -> Sequence[BackendEvent]:
        """Nothing where the answer is a stream; what is said instead where the usage is spent. Raises
        ``BackendFailed``."""
        if response.status_code == httpx.codes.PAYMENT_REQUIRED:
            body = await self._body(response)
            offer = as_object(body) or {"message": told(body) or "The usage limit is reached."}
            return Said(f"<usage_upgrade>{msgspec.json.encode(offer).decode()}</usage_upgrade>"), Completed()
        if not response.is_success:
            raise refusal(response, await self._body(response))
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in ("text/html", "application/json"):
            reason = told(await self._body(response))
            raise BackendFailed(
                f"what answers is no copilot backend: it sent {kind} instead of a stream"
                + (f" ({reason})" if reason else "")
                + ": check PILOTHOUSE_BACKEND_URL"
            )
        return ()

    async def _post(
        self, path: str, body: bodies.Body, seconds: float, *, besides: frozenset[int] = frozenset()
    ) -> dict[str, Any]:
        """Tell it something; the object it answers with. Statuses of ``besides`` are no failure."""
        try:
            async with (
                asyncio.timeout(seconds),
                self._http.stream(
                    "POST", self._at(path), content=_encoded(body), headers={"content-type": "application/json"}
                ) as response,
            ):
                answer = await self._body(response)
                if not response.is_success and response.status_code not in besides:
                    raise refusal(response, answer)
        except TimeoutError:
            raise BackendFailed(f"the copilot backend did not answer {path} in {seconds:g} s", transient=True) from None
        except httpx.HTTPError as error:
            raise unreachable(self._url, error) from None
        return as_object(answer) if len(answer) < MAX_BODY else {}

    async def _body(self, response: httpx.Response) -> bytes:
        """The beginning of a body, without our key."""
        stream = self._secrets.stream()
        return stream.feed(await read_bounded(response)) + stream.flush()

    def _at(self, path: str) -> httpx.URL:
        return self._url.copy_with(path=self._url.path.rstrip("/") + path)

    def _remember(self, request: BackendRequest) -> _Stream:
        stream = self._streams.pop(request.turn_id, None) or _Stream(request.message_id)
        self._streams[request.turn_id] = stream
        if len(self._streams) > _KNOWN:
            self._streams.popitem(last=False)
        return stream

    def _stream_id(self, turn_id: str) -> str:
        stream = self._streams.get(turn_id)
        return stream.id if stream else turn_id


async def _last_words(chunks: AsyncIterator[bytes], reader: WireReader) -> list[BackendEvent]:
    """What follows an error, on the wire where something may."""
    said: list[BackendEvent] = []
    if reader.enveloped:
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                async for chunk in chunks:
                    said += reader.feed(chunk)
                    if reader.done or not _LAST.isdisjoint(map(type, said)):
                        break
        except (TimeoutError, httpx.HTTPError, EventTooLong):
            pass  # it had told of an error before, which counts
    return said


def _encoded(body: bodies.Body) -> bytes:
    return msgspec.json.encode(body)


def _split(text: str) -> tuple[httpx.URL, str]:
    """The base of all routes, and the route of turns."""
    fix = "like https://copilot.example.com"
    try:
        url = httpx.URL(text.strip().rstrip("/"))
    except httpx.InvalidURL:
        raise BadInput("is no URL", field="PILOTHOUSE_BACKEND_URL", fix=fix) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise BadInput("is missing" if not text.strip() else "is no HTTP URL", field="PILOTHOUSE_BACKEND_URL", fix=fix)
    if url.userinfo or url.query or url.fragment:
        raise BadInput(
            "has more than a place in it",
            field="PILOTHOUSE_BACKEND_URL",
            fix="the key goes into PILOTHOUSE_BACKEND_API_KEY",
        )
    turn = next((route for route in _TURN_ROUTES if url.path.endswith(route)), TURN)
    return url.copy_with(path=url.path.removesuffix(turn) or "/"), turn


def _is_local(host: str) -> bool:
    """What runs on this machine is not asked through a proxy."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
