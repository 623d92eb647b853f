"""Both clients drive the same calls alike: what is asked, and again, what is raised, and streams that resume."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest

from pilothouse.client import chats, courses, doors, flows, groups, plans
from pilothouse.client.address import Address
from pilothouse.client.courses import Course, RunCourse, TurnCourse
from pilothouse.client.doors import AsyncDoor, Door
from pilothouse.client.events import Done, Text
from pilothouse.client.failures import ServerFailed, Unreachable, failure
from pilothouse.client.flows import AsyncGroup, Flow, Group
from pilothouse.errors import BackendFailed, BadInput, Denied, Gone, NotFound, PilothouseError, Refused, Unavailable

HERE = Address("http://server", {"X-API-Key": "k"})
Handler = Callable[[httpx.Request], httpx.Response]


class Driver:
    """One of the two doors, with a server that is a function."""

    def __init__(self, kind: type[Door] | type[AsyncDoor]) -> None:
        self._kind = kind

    def run(self, flow: Flow[Any], handler: Handler) -> Any:
        if self._kind is Door:
            door = Door(HERE, 5.0, httpx.MockTransport(handler))
            try:
                return door.run(flow)
            finally:
                door.close()
        return asyncio.run(self._run(flow, handler))

    async def _run(self, flow: Flow[Any], handler: Handler) -> Any:
        door = AsyncDoor(HERE, 5.0, httpx.MockTransport(handler))
        try:
            return await door.run(flow)
        finally:
            await door.close()

    def follow(self, course: Course[Any], handler: Handler) -> list[Any]:
        if self._kind is Door:
            return list(Door(HERE, 5.0, httpx.MockTransport(handler)).follow(course))

        async def collect() -> list[Any]:
            door = AsyncDoor(HERE, 5.0, httpx.MockTransport(handler))
            return [item async for item in door.follow(course)]

        return asyncio.run(collect())


@pytest.fixture(params=[Door, AsyncDoor], ids=["waiting", "awaiting"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(courses, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(courses, "_LONGEST_PAUSE", 0.0)


class Flaky:
    """A server whose first answers never arrive."""

    def __init__(self, *losses: Exception, answer: Any = None) -> None:
        self._losses = list(losses)
        self._answer = {} if answer is None else answer
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self._losses:
            raise self._losses.pop(0)
        return httpx.Response(200, json=self._answer)


def test_what_only_looks_is_asked_again(driver: Driver) -> None:
    server = Flaky(httpx.ReadError("gone"), httpx.ReadTimeout("slow"), answer={"plans": []})
    assert driver.run(plans.list_plans(), server) == []
    assert len(server.requests) == 3
    assert server.requests[0].headers["x-api-key"] == "k"


def test_what_may_have_been_heard_and_is_not_harmless_is_asked_once(driver: Driver) -> None:
    server = Flaky(httpx.ReadError("gone"))
    with pytest.raises(Unreachable, match="the server at http://server cannot be reached: gone"):
        driver.run(chats.confirm("c1"), server)
    assert len(server.requests) == 1


def test_what_nobody_heard_is_asked_again_whatever_it_is(driver: Driver) -> None:
    server = Flaky(httpx.ConnectError("refused"))
    driver.run(chats.confirm("c1"), server)
    assert len(server.requests) == 2


def test_a_plan_is_submitted_again_under_the_same_key(driver: Driver) -> None:
    server = Flaky(httpx.ReadError("gone"), answer={"planId": "p"})
    assert driver.run(plans.submit({"name": "n"}), server) == {"planId": "p"}
    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert len(server.requests) == 2 and len(keys) == 1


def test_a_message_is_sent_again_as_the_same_message(driver: Driver) -> None:
    result = {"success": True, "content": "Hi", "toolCalls": [], "chatId": "c", "turnId": "t", "status": "succeeded"}
    server = Flaky(httpx.RemoteProtocolError("cut"), answer=result)
    answered = driver.run(chats.send(chats.body_of("hello", None, {})), server)
    assert (answered.content, answered.turn_id) == ("Hi", "t")
    sent = [json.loads(request.content) for request in server.requests]
    assert sent[0] == sent[1]
    assert sent[0]["messageId"]


def test_it_gives_up_and_says_so(driver: Driver) -> None:
    server = Flaky(*(httpx.ConnectError("refused") for _ in range(9)))
    with pytest.raises(Unavailable) as caught:
        driver.run(plans.list_plans(), server)
    assert caught.value.code == "unreachable"
    assert len(server.requests) == 4


def test_a_turn_that_failed_is_an_answer_and_a_refusal_is_none(driver: Driver) -> None:
    failed = {
        "success": False,
        "content": "Half",
        "toolCalls": [],
        "chatId": "c",
        "turnId": "t",
        "status": "failed",
        "error": "Request timed out",
        "code": "timeout",
    }
    body = chats.body_of("hello", "refuse", {"timeout": 1.5})
    assert body["timeout"] == 1500
    answered = driver.run(chats.send(body), lambda _: httpx.Response(504, json=failed))
    assert (answered.success, answered.content, answered.code) == (False, "Half", "timeout")
    refused = {
        "success": False,
        "error": "the headless API is off",
        "content": "",
        "toolCalls": [],
        "code": "unavailable",
    }
    with pytest.raises(Unavailable, match="headless API is off"):
        driver.run(chats.send(body), lambda _: httpx.Response(503, json=refused))


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "malformed", BadInput),
        (401, "invalid_key", Denied),
        (403, "needs_scope", Denied),
        (404, "not_found", NotFound),
        (409, "refused", Refused),
        (410, "gone", Gone),
        (422, "bad_input", BadInput),
        (429, "too_many_requests", Denied),
        (500, "internal", ServerFailed),
        (502, "backend_failed", BackendFailed),
        (503, "unavailable", Unavailable),
    ],
)
def test_a_problem_is_raised_as_the_error_it_was(status: int, code: str, kind: type[PilothouseError]) -> None:
    problem = {"status": status, "title": "t", "detail": "why", "code": code, "field": "jobs[0]", "fix": "mend it"}
    error = failure(status, json.dumps(problem).encode())
    assert type(error) is kind
    assert error.code == code
    assert "why" in str(error)
    if isinstance(error, BadInput):
        assert (error.field, error.fix) == ("jobs[0]", "mend it")


@pytest.mark.parametrize("data", [b"", b"<html>", b"[1]", b'"x"', b"null"])
def test_what_is_no_problem_still_says_its_status(data: bytes) -> None:
    assert "it answered 502" in str(failure(502, data))


def test_an_answer_that_cannot_be_understood_is_the_servers_failure(driver: Driver) -> None:
    with pytest.raises(ServerFailed):
        driver.run(plans.list_plans(), lambda _: httpx.Response(200, text="<html>"))


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream that is cut off where its pieces end."""

    def __init__(self, *pieces: bytes, cut: bool = False) -> None:
        self._pieces, self._cut = pieces, cut

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._cut:
            raise httpx.ReadError("cut")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._cut:
            raise httpx.ReadError("cut")


def message(seq: int, **shown: Any) -> bytes:
    data = json.dumps({**shown, "eventId": seq, "streamId": "turn-1"})
    return f"id: {seq}\ndata: {data}\n\n".encode()


FIRST = message(1, type="chat_id", chatId="chat-1")
TEXTS = [message(seq, type="content", data=f"word{seq} ") for seq in (3, 4, 7, 9)]
DONE = message(12, type="done", data={"status": "complete", "chatId": "chat-1"})


def test_a_stream_that_breaks_is_gone_on_with_after_the_last_event(driver: Driver) -> None:
    replies = [
        Pieces(b": connected\n\n", FIRST, TEXTS[0][:10], TEXTS[0][10:], TEXTS[1][:-1], cut=True),
        Pieces(TEXTS[0], TEXTS[1], TEXTS[2], cut=True),
        Pieces(),
        Pieces(TEXTS[3] + DONE + TEXTS[3]),
    ]
    asked: list[httpx.Request] = []

    def server(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, stream=replies[len(asked) - 1])

    course = TurnCourse({"message": "hello", "messageId": "m"})
    told = driver.follow(course, server)
    assert [event.text for event in told if isinstance(event, Text)] == ["word3 ", "word4 ", "word7 ", "word9 "]
    assert isinstance(told[-1], Done)
    assert (course.turn_id, course.chat_id) == ("turn-1", "chat-1")
    assert [request.method for request in asked] == ["POST", "GET", "GET", "GET"]
    assert [request.url.params.get("after") for request in asked] == [None, "3", "7", "7"]


def test_a_message_whose_stream_never_began_is_sent_again(driver: Driver) -> None:
    asked: list[Any] = []

    def server(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        if len(asked) == 1:
            raise httpx.ReadError("gone")
        return httpx.Response(200, stream=Pieces(FIRST, DONE))

    driver.follow(TurnCourse({"message": "hello", "messageId": "m"}), server)
    assert asked == [{"message": "hello", "messageId": "m"}] * 2


def test_a_stream_that_has_nothing_more_is_at_its_end(driver: Driver) -> None:
    assert driver.follow(TurnCourse(turn_id="turn-1", after=12), lambda _: httpx.Response(204)) == []
    told = driver.follow(RunCourse("run-1"), iter_of(Pieces(b'id: 1\ndata: {"seq": 1}\n\n'), None))
    assert told == [{"seq": 1}]


def iter_of(*replies: Pieces | None) -> Handler:
    left = list(replies)

    def server(_: httpx.Request) -> httpx.Response:
        reply = left.pop(0)
        return httpx.Response(204) if reply is None else httpx.Response(200, stream=reply)

    return server


def test_what_a_stream_is_refused_with_is_raised_at_once(driver: Driver) -> None:
    problem = {"detail": "there is no turn", "code": "not_found"}
    with pytest.raises(NotFound):
        driver.follow(TurnCourse(turn_id="x"), lambda _: httpx.Response(404, json=problem))


def test_a_stream_that_brings_nothing_for_too_long_is_given_up(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courses, "BEGIN_S", -1.0)

    def server(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(Unreachable):
        driver.follow(TurnCourse(turn_id="x"), server)


@pytest.mark.parametrize("name", ["Chats", "Plans", "Workflows", "Runs", "Approvals"])
def test_both_clients_have_the_same_calls(name: str) -> None:
    waiting: type[Group] = getattr(groups, name)
    awaiting: type[AsyncGroup] = getattr(groups, f"Async{name}")
    calls = {key: inspect.signature(value) for key, value in vars(waiting).items() if callable(value)}
    assert calls == {key: inspect.signature(value) for key, value in vars(awaiting).items() if callable(value)}
    assert all(value.__doc__ or key.startswith("_") for key, value in vars(waiting).items() if callable(value))


def test_importing_the_package_costs_nothing_until_a_client_is_used() -> None:
    import subprocess
    import sys

    code = "import sys, pilothouse; assert 'httpx' not in sys.modules; pilothouse.Client; assert 'httpx' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert doors.Door is not None
