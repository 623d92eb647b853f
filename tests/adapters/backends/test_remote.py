"""The remote backend over real sockets: what goes over the wire, and what trouble becomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any, TypeVar

import msgspec
import pytest
from tests.support.copilot_backend import ABORT, REPORT, RESUME, STEER, TITLE, TURN, Answer, CopilotBackend, Drip, Step

from pilothouse.adapters.backends import remote
from pilothouse.adapters.backends.memory import Break, Delay, Hold, Reports
from pilothouse.adapters.backends.remote import RemoteBackend
from pilothouse.core.chat.backend import (
    BackendEvent,
    Completed,
    Failed,
    NotUnderstood,
    Paused,
    Said,
    Thought,
    ToolCalled,
)
from pilothouse.core.chat.calls import CallReason, CallStatus, GivenResult
from pilothouse.core.chat.effects import AbortBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.message import Message, ToolBlock
from pilothouse.core.chat.request import BackendRequest, ToolReport
from pilothouse.core.tools.spec import ToolSpec
from pilothouse.errors import BackendFailed, BadInput

T = TypeVar("T")
KEY = "sk-loopback-3141"
ASKED = BackendRequest(
    turn_id="turn-1",
    chat_id="chat-1",
    message_id="message-1",
    call=1,
    reason=CallReason.FIRST,
    owner="user-1",
    message="Make a workflow",
    model="m-1",
    workflow_id="wf-1",
)
DONE = Completed()


def test_a_turn_is_asked_for_with_the_fields_of_the_wire_and_the_key_in_its_header() -> None:
    async def act() -> CopilotBackend:
        async with loopback([DONE]) as (server, backend):
            await heard(backend, ASKED)
            return server

    (request,) = run(act()).requests
    assert (request.method, request.path) == ("POST", TURN)
    assert request.headers["x-api-key"] == KEY
    assert request.headers["accept"] == "text/event-stream"
    assert request.body == {
        "message": "Make a workflow",
        "workflowId": "wf-1",
        "userId": "user-1",
        "model": "m-1",
        "messageId": "message-1",
        "version": "3.0.0",
        "mode": "agent",
        "chatId": "chat-1",
    }


@pytest.mark.parametrize(
    ("mode", "wire", "commands"),
    [
        ("chat", "agent", None),
        ("research", "ask", None),
        ("create_plan", "plan", None),
        ("implement", "agent", ["implement"]),
    ],
)
def test_modes_become_those_of_the_wire(mode: str, wire: str, commands: list[str] | None) -> None:
    (body,) = turns_of(msgspec.structs.replace(ASKED, mode=mode))
    assert body["mode"] == wire
    assert body.get("commands") == commands


def test_everything_optional_goes_along_when_there_is_some() -> None:
    (body,) = turns_of(
        msgspec.structs.replace(
            ASKED,
            history=(Message(id="m0", role="user", content="Hi", turn_id="t0", at=1),),
            context=({"type": "file", "content": "x"},),
            attachments=({"name": "a.png"},),
            headless=True,
            tools=(ToolSpec(name="slack_send", description="Send", parameters={"type": "object"}, service="slack"),),
        )
    )
    assert body["conversationHistory"] == [{"id": "m0", "role": "user", "content": "Hi"}]
    assert body["context"] == [{"type": "file", "content": "x"}]
    assert body["fileAttachments"] == [{"name": "a.png"}]
    assert body["headless"] is True
    assert body["integrationTools"] == [
        {
            "name": "slack_send",
            "description": "Send",
            "input_schema": {"type": "object"},
            "defer_loading": True,
            "oauth": {"required": True, "provider": "slack"},
        }
    ]
    assert "credentials" not in body


def test_a_backend_that_knows_the_conversation_is_not_told_it_again() -> None:
    history = (Message(id="m0", role="user", content="Hi", turn_id="t0", at=1),)
    (body,) = turns_of(msgspec.structs.replace(ASKED, history=history, conversation_id="conv-1"))
    assert body["conversationId"] == "conv-1"
    assert "conversationHistory" not in body


def test_what_was_said_meanwhile_is_the_next_message() -> None:
    (body,) = turns_of(msgspec.structs.replace(ASKED, reason=CallReason.STEERING, steering=("Shorter", "In French")))
    assert body["message"] == "Shorter\n\nIn French"


def test_results_of_one_checkpoint_travel_together() -> None:
    blocks = (
        ToolBlock(id="a", name="list", status=CallStatus.SUCCESS, result={"n": 1}),
        ToolBlock(id="b", name="run", status=CallStatus.REJECTED, reason="user_rejected", error="No."),
        ToolBlock(id="c", name="slow", status=CallStatus.ERROR, reason="watchdog", error="Too slow."),
        ToolBlock(id="d", name="later", status=CallStatus.BACKGROUND),
        ToolBlock(id="old", name="list", status=CallStatus.SUCCESS, result={}),
    )

    async def act() -> CopilotBackend:
        async with loopback([DONE], wire="v1") as (server, backend):
            request = msgspec.structs.replace(
                ASKED,
                call=2,
                reason=CallReason.RESULTS,
                checkpoint_id="cp-1",
                blocks=blocks,
                answered=("a", "b", "c", "d"),
            )
            await heard(backend, request)
            return server

    (body,) = run(act()).sent(RESUME)
    assert body == {
        "streamId": "message-1",
        "checkpointId": "cp-1",
        "userId": "user-1",
        "results": [
            {"callId": "a", "name": "list", "data": {"n": 1}, "success": True},
            {
                "callId": "b",
                "name": "run",
                "data": {"skipped": True, "reason": "user_rejected", "error": "No."},
                "success": False,
            },
            {"callId": "c", "name": "slow", "data": {"error": "Too slow.", "reason": "watchdog"}, "success": False},
            {"callId": "d", "name": "later", "data": {"background": True}, "success": True},
        ],
    }


def test_results_that_somebody_else_made_are_reported_before_the_turn_is_asked_for() -> None:
    async def act() -> CopilotBackend:
        async with loopback([DONE]) as (server, backend):
            given = (GivenResult(id="a", name="list", result=[1]), GivenResult(id="b", ok=False, error="broken"))
            await heard(backend, msgspec.structs.replace(ASKED, results=given))
            return server

    server = run(act())
    assert [one.path for one in server.requests] == [REPORT, REPORT, TURN]
    assert {body["id"]: (body["status"], body["data"]) for body in server.sent(REPORT)} == {
        "a": (200, [1]),
        "b": (500, {"error": "broken"}),
    }


def test_a_call_is_reported_while_its_stream_is_open_which_then_goes_on() -> None:
    async def act() -> tuple[CopilotBackend, list[BackendEvent]]:
        call = ToolCalled(id="a", name="list", arguments={})
        async with loopback([call, Reports(("a",)), Said("Thanks."), DONE]) as (server, backend):
            said: list[BackendEvent] = []
            async for chunk in backend.call(ASKED):
                said += chunk
                if any(isinstance(one, ToolCalled) for one in chunk):
                    await backend.report(REPORTED)
            return server, said

    server, said = run(act())
    assert server.sent(REPORT) == [{"id": "a", "name": "list", "status": 200, "message": "", "data": {"n": 1}}]
    assert text_of(said) == "Thanks."


def test_the_strict_wire_is_not_reported_to_because_it_gets_results_with_the_next_request() -> None:
    async def act() -> CopilotBackend:
        async with loopback([Paused(checkpoint_id="c", pending=("a",))], wire="v1") as (server, backend):
            await heard(backend, ASKED)
            await backend.report(REPORTED)
            return server

    assert run(act()).sent(REPORT) == []


def test_a_backend_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_ANSWER", 100_000)

    async def act() -> None:
        async with loopback([*[b": still here" + b"." * 1_000 + b"\n\n"] * 200, DONE]) as (_, backend):
            await heard(backend, ASKED)

    with pytest.raises(BackendFailed, match="an answer has more than 100,000 bytes"):
        run(act())


@pytest.mark.parametrize(
    "step",
    [
        Answer(401, {"error": f"bad key {KEY}"}),
        Answer(200, {"error": f"bad key {KEY}"}),
        Answer(402, {"message": f"bad key {KEY}"}),
        Failed(message=f"bad key {KEY}", shown=KEY),
        f"data: {KEY}\n\n".encode(),
    ],
    ids=["refusal", "no-stream", "spent", "error", "garbage"],
)
def test_a_backend_that_repeats_the_key_brings_it_to_nobody(step: Step) -> None:
    async def act() -> str:
        async with loopback([step, DONE]) as (_, backend):
            try:
                return repr(await heard(backend, ASKED))
            except BackendFailed as error:
                return str(error)

    said = run(act())
    assert "***" in said
    assert KEY not in said


@pytest.mark.parametrize("wire", ["v0", "v1"])
@pytest.mark.parametrize("at", [1, 9])
def test_a_key_that_comes_in_pieces_is_hidden_in_texts_thoughts_and_arguments(wire: str, at: int) -> None:
    def pieces(make: Callable[[str], BackendEvent]) -> list[BackendEvent]:
        return [make("<"), make(KEY[:at]), make(KEY[at:]), make(">")]

    answer, thoughts = pieces(Said), [Thought(begins=True), *pieces(Thought), Thought(ends=True)]
    called = ToolCalled(id="a", name="list", arguments={"key": KEY})
    said = heard_of([*thoughts, *answer, called, DONE], wire)
    assert text_of(said) == "<***>"
    assert "".join(one.text for one in said if isinstance(one, Thought)) == "<***>"
    assert [one.arguments for one in said if isinstance(one, ToolCalled)] == [{"key": "***"}]
    assert KEY[:at] not in text_of(said)


def test_a_key_in_what_follows_an_error_is_hidden_too() -> None:
    said = heard_of([Failed(message="oh"), Said(f"it is {KEY}"), DONE], "v1")
    assert text_of(said) == "it is ***"


@pytest.mark.parametrize(("status", "transient"), [(500, True), (429, True), (400, False), (401, False)])
def test_a_report_that_is_refused_says_whether_to_repeat_it(status: int, transient: bool) -> None:
    async def act() -> BackendFailed:
        async with loopback() as (server, backend):
            server.answers[REPORT] = [Answer(status)]
            with pytest.raises(BackendFailed) as caught:
                await backend.report(REPORTED)
            return caught.value

    failed = run(act())
    assert (failed.transient, failed.status) == (transient, status)


def test_stop_and_steering_name_the_stream_by_its_message() -> None:
    async def act() -> CopilotBackend:
        async with loopback([DONE]) as (server, backend):
            await heard(backend, ASKED)
            of = {"backend": "remote", "turn_id": "turn-1", "chat_id": "chat-1", "owner": "user-1"}
            await backend.abort(AbortBackend(key="abort/1", **of))
            await backend.steer(SteerBackend(key="steer/s1", steering_id="s1", content="Shorter", **of))
            return server

    server = run(act())
    ids = {"userId": "user-1", "chatId": "chat-1", "messageId": "message-1"}
    assert server.sent(ABORT) == [{"streamId": "message-1", **ids}]
    assert server.sent(STEER) == [{**ids, "steeringId": "s1", "content": "Shorter"}]


def test_a_title_is_asked_for_with_the_first_message() -> None:
    async def act() -> tuple[CopilotBackend, str]:
        async with loopback() as (server, backend):
            server.answers[TITLE] = [Answer(200, {"title": " A \n long" + " title" * 30})]
            make = MakeTitle(key="title", backend="remote", chat_id="c", owner="o", message="Hello", model="m")
            return server, await backend.title(make)

    server, title = run(act())
    assert server.sent(TITLE) == [{"message": "Hello", "model": "m"}]
    assert title.startswith("A long title title")
    assert len(title) == 60


@pytest.mark.parametrize("wire", ["v0", "v1"])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_stream_is_the_same_however_it_is_split(wire: str, size: int) -> None:
    stream = {
        "v0": b': hi\r\ndata: {"type":"content","data":"caf\xc3\xa9 "}\r\n\r\nid: 3\ndata: {"type":"content",\n'
        b'data: "data":"ol\xc3\xa9"}\n\ndata: {broken\n\ndata: {"type":"done"}\n\n',
        "v1": b'data: {"v":1,"type":"text","payload":{"channel":"assistant","text":"caf\xc3\xa9 "}}\n\n: x\n\n'
        b'data: {"v":1,"type":"text","payload":{"channel":"assistant","text":"ol\xc3\xa9"}}\r\n\r\ndata: {broken\n\n'
        b'data: {"v":1,"type":"complete","payload":{"status":"complete"}}\n\n',
    }[wire]
    said = heard_of([Drip(stream, size)])
    assert text_of(said) == "café olé"
    assert len([one for one in said if isinstance(one, NotUnderstood)]) == 1
    assert isinstance(said[-1], Completed)


def test_what_is_left_of_the_last_event_at_the_end_is_said_too() -> None:
    assert text_of(heard_of([b'data: {"type":"content","data":"tail"}'])) == "tail"


def test_a_stream_that_says_done_in_the_old_way_only_is_over_without_a_last_word() -> None:
    said = heard_of([b'data: {"type":"content","data":"x"}\n\ndata: [DONE]\n\n', Hold()])
    assert said == [Said("x")]


def test_a_complete_that_follows_an_error_of_the_strict_wire_is_heard_too() -> None:
    said = heard_of([Said("x"), Failed(message="hiccup"), Delay(0.05), DONE], wire="v1")
    assert [type(one) for one in said[-2:]] == [Failed, Completed]


def test_spent_usage_becomes_an_offer_in_the_text_and_the_end() -> None:
    said = heard_of([Answer(402, {"message": "No credits left", "action": "upgrade_plan"})])
    assert text_of(said) == '<usage_upgrade>{"message":"No credits left","action":"upgrade_plan"}</usage_upgrade>'
    assert isinstance(said[-1], Completed)


@pytest.mark.parametrize(
    ("answer", "transient", "words"),
    [
        (Answer(401, {"error": "bad key"}), False, "PILOTHOUSE_BACKEND_API_KEY"),
        (Answer(403), False, "PILOTHOUSE_BACKEND_API_KEY"),
        (Answer(404, b"<html>no</html>"), False, "PILOTHOUSE_BACKEND_URL"),
        (Answer(400, {"error": {"message": "message is required"}}), False, "message is required"),
        (Answer(429, {"detail": "slow down"}), True, "slow down"),
        (Answer(503, b"plain words"), True, "plain words"),
        (Answer(500, b"x" * 1_000_000), True, "500"),
        (Answer(302, headers={"Location": "https://user:pw@login.example.com/x?token=1"}), False, "login.example.com"),
        (Answer(200, b"<html>Welcome</html>", {"Content-Type": "text/html"}), False, "PILOTHOUSE_BACKEND_URL"),
        (Answer(200, {"error": "not here"}), False, "not here"),
    ],
)
def test_a_refusal_says_why_and_how_to_mend_it(answer: Answer, transient: bool, words: str) -> None:
    failed = failure_of([answer])
    assert failed.transient is transient
    assert words in str(failed)
    assert KEY not in str(failed) and "pw" not in str(failed) and "token=1" not in str(failed)
    assert len(str(failed)) < 600


def test_it_waits_as_long_as_it_is_told_to() -> None:
    assert failure_of([Answer(429, headers={"Retry-After": "3"})]).retry_after_ms == 3000
    later = formatdate(time.time() + 60, usegmt=True)
    assert 30_000 < failure_of([Answer(503, headers={"Retry-After": later})]).retry_after_ms <= 60_000
    assert failure_of([Answer(503, headers={"Retry-After": "soon"})]).retry_after_ms == 0


def test_redirects_are_not_followed_so_that_the_key_goes_nowhere_else() -> None:
    async def act() -> CopilotBackend:
        other = CopilotBackend()
        other.plays([DONE])
        async with other.serving(), loopback([Answer(307, headers={"Location": f"{other.url}{TURN}"})]) as (_, backend):
            with pytest.raises(BackendFailed, match="redirect"):
                await heard(backend, ASKED)
            return other

    assert run(act()).requests == []


def test_a_connection_that_breaks_in_the_middle_is_told_after_what_came() -> None:
    async def act() -> tuple[list[BackendEvent], BackendFailed]:
        async with loopback([Said("So far"), Hold("heard"), Break(BackendFailed("x"))]) as (server, backend):
            said: list[BackendEvent] = []
            with pytest.raises(BackendFailed) as caught:
                async for chunk in backend.call(ASKED):
                    said += chunk
                    server.release("heard")
            return said, caught.value

    said, failed = run(act())
    assert text_of(said) == "So far"
    assert failed.transient
    assert "broke off" in str(failed)


def test_nobody_there_is_told_with_the_place_and_may_pass() -> None:
    async def act() -> BackendFailed:
        async with loopback() as (server, _):
            url = server.url
        async with RemoteBackend.opened(url) as backend:
            with pytest.raises(BackendFailed) as caught:
                await heard(backend, ASKED)
            return caught.value

    failed = run(act())
    assert failed.transient
    assert "127.0.0.1" in str(failed) and "PILOTHOUSE_BACKEND_URL" in str(failed)


def test_an_event_that_never_ends_ends_the_turn_and_not_the_memory() -> None:
    failed = failure_of([b"data: " + b"x" * (1 << 20)] * 17)
    assert "bytes" in str(failed)


@pytest.mark.parametrize("cancelled", [False, True])
def test_who_stops_listening_closes_the_connection_at_once(cancelled: bool) -> None:
    async def act() -> None:
        async with loopback([Said("x"), Hold()]) as (server, backend):
            chunks = backend.call(ASKED)
            assert isinstance(chunks, AsyncGenerator)
            await anext(chunks)
            if cancelled:
                waiting = asyncio.ensure_future(anext(chunks))
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait((waiting,))
                assert waiting.cancelled()
            else:
                await chunks.aclose()
            await server.until(lambda: server.left == 1 and not server.streaming)

    run(act())


def test_while_one_stream_says_nothing_any_number_of_others_go_on() -> None:
    async def act() -> list[str]:
        script: Sequence[Step] = [Said("x"), Hold(), DONE]
        async with loopback(script) as (server, backend):
            listening = [asyncio.create_task(heard(backend, ASKED)) for _ in range(100)]
            await server.until(lambda: server.streaming == 100)
            await backend.report(REPORTED)
            server.release()
            return [text_of(said) for said in await asyncio.gather(*listening)]

    assert run(act()) == ["x"] * 100


@pytest.mark.parametrize(
    "url", ["", "copilot.example.com", "ftp://example.com", "http://", "http://me:pw@example.com", "http://x/?a=1"]
)
def test_an_url_that_cannot_be_one_is_named(url: str) -> None:
    async def act() -> None:
        with pytest.raises(BadInput) as caught:
            async with RemoteBackend.opened(url):
                pass
        assert caught.value.field == "PILOTHOUSE_BACKEND_URL"
        assert "pw" not in str(caught.value)

    run(act())


def test_a_key_that_cannot_be_one_is_not_told() -> None:
    async def act() -> None:
        with pytest.raises(BadInput) as caught:
            async with RemoteBackend.opened("http://127.0.0.1:1", "se\ncret"):
                pass
        assert "cret" not in str(caught.value)

    run(act())


def test_an_url_may_name_the_route_of_turns_and_a_folder_above_it() -> None:
    async def act() -> CopilotBackend:
        server = CopilotBackend()
        server.plays([DONE])
        async with server.serving(), RemoteBackend.opened(f"{server.url}/base/api/copilot/", KEY) as backend:
            await heard(backend, ASKED)
            await backend.report(REPORTED)
            return server

    assert [one.path for one in run(act()).requests] == ["/base/api/copilot", "/base/api/tools/mark-complete"]


REPORTED = ToolReport(turn_id="turn-1", tool_call_id="a", name="list", status=200, data={"n": 1})


@asynccontextmanager
async def loopback(*scripts: Sequence[Step], wire: str = "v0") -> AsyncIterator[tuple[CopilotBackend, RemoteBackend]]:
    server = CopilotBackend(wire)
    server.plays(*scripts)
    async with server.serving(), RemoteBackend.opened(server.url, KEY) as backend:
        yield server, backend


async def heard(backend: RemoteBackend, request: BackendRequest) -> list[BackendEvent]:
    return [one async for chunk in backend.call(request) for one in chunk]


def heard_of(script: Sequence[Step], wire: str = "v0") -> list[BackendEvent]:
    async def act() -> list[BackendEvent]:
        async with loopback(script, wire=wire) as (_, backend):
            return await heard(backend, ASKED)

    return run(act())


def failure_of(script: Sequence[Step]) -> BackendFailed:
    with pytest.raises(BackendFailed) as caught:
        heard_of(script)
    return caught.value


def turns_of(request: BackendRequest) -> list[Any]:
    async def act() -> list[Any]:
        async with loopback([DONE]) as (server, backend):
            await heard(backend, request)
            return server.sent(TURN)

    return run(act())


def text_of(said: Sequence[BackendEvent]) -> str:
    return "".join(one.text for one in said if isinstance(one, Said))


def run(act: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(10):
            return await act

    return asyncio.run(bounded())
