"""The bridge between standard input and output and an owner that can do anything."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.interfaces.mcp.owners import Answers, Bridged, Exchange, FakeOwner, bridged
from tests.support.terminal import until

from pilothouse.client.unix import SocketConnection
from pilothouse.errors import Unavailable
from pilothouse.interfaces.mcp import asking
from pilothouse.interfaces.mcp.bridge import MAX_AT_ONCE, MAX_LINE

SERVER_ERROR, INVALID_REQUEST, PARSE_ERROR = -32000, -32600, -32700


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "owner.sock"


@contextmanager
def between(socket: Path, answers: Answers, token: str = "") -> Iterator[tuple[Bridged, FakeOwner]]:
    with FakeOwner(socket, answers).listening() as owner, bridged(socket, token) as bridge:
        yield bridge, owner


def done(exchange: Exchange) -> None:
    exchange.answer({"done": exchange.message["method"]})


def in_turn(*answers: Answers) -> Answers:
    """Each request is answered by the next; the last one answers the rest."""
    left = list(answers)
    return lambda exchange: (left.pop(0) if len(left) > 1 else left[0])(exchange)


def breaks_off(exchange: Exchange) -> None:
    exchange.begin()
    exchange.tell({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}})


def hangs(exchange: Exchange) -> None:
    exchange.begin()
    exchange.wait()


def problem(status: int, **said: Any) -> Answers:
    return lambda exchange: exchange.send(status, said, "application/problem+json")


def test_an_answer_comes_back_as_a_line(socket: Path) -> None:
    with between(socket, done) as (bridge, owner):
        bridge.ask("a", "tools/list")
        assert bridge.hear() == {"jsonrpc": "2.0", "id": "a", "result": {"done": "tools/list"}}
        assert owner.asked[0].headers["accept"] == "application/json, text/event-stream"


def test_a_stream_comes_back_line_by_line_and_ends_with_its_answer(socket: Path) -> None:
    told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"message": "zwei\nZeilen\u2028 "}}

    def streams(exchange: Exchange) -> None:
        exchange.begin()
        exchange.tell(told)
        exchange.tell({"jsonrpc": "2.0", "id": exchange.message["id"], "result": 1})
        exchange.wait()  # the bridge leaves, whether the server does or not

    with between(socket, streams) as (bridge, owner):
        bridge.ask(1)
        assert [bridge.hear(), bridge.hear()] == [told, {"jsonrpc": "2.0", "id": 1, "result": 1}]
        until(lambda: owner.asked[0].gone.is_set())


def test_the_token_is_shown_to_the_owner_and_to_nobody_else(socket: Path) -> None:
    with between(socket, in_turn(done, problem(401, detail="no", code="invalid_key")), token="s3cret") as (
        bridge,
        owner,
    ):
        bridge.ask(1)
        bridge.ask(2)
        assert "s3cret" not in json.dumps([bridge.hear(), bridge.hear()])
        assert {each.headers["authorization"] for each in owner.asked} == {"Bearer s3cret"}


def test_without_a_token_none_is_shown(socket: Path) -> None:
    with between(socket, done) as (bridge, owner):
        bridge.ask(1)
        bridge.hear()
        assert "authorization" not in owner.asked[0].headers


def test_what_waits_holds_up_nothing_else(socket: Path) -> None:
    waits = threading.Event()

    def answers(exchange: Exchange) -> None:
        if exchange.message["id"] == "slow":
            waits.wait(10)
        done(exchange)

    with between(socket, answers) as (bridge, _):
        bridge.ask("slow")
        for id in range(10):
            bridge.ask(id)
        assert {bridge.hear()["id"] for _ in range(10)} == set(range(10))
        waits.set()
        assert bridge.hear()["id"] == "slow"


def test_the_revision_of_a_handshake_goes_with_what_follows(socket: Path) -> None:
    with between(socket, lambda exchange: exchange.answer({"protocolVersion": "2025-06-18"})) as (bridge, owner):
        bridge.ask(1, "initialize")
        bridge.hear()
        bridge.ask(2, "tools/list")
        bridge.hear()
        assert "mcp-protocol-version" not in owner.asked[0].headers
        assert owner.asked[1].headers["mcp-protocol-version"] == "2025-06-18"


def test_a_notification_is_taken_there_and_answered_by_nobody(socket: Path) -> None:
    with between(socket, in_turn(lambda exchange: exchange.send(202), done)) as (bridge, owner):
        bridge.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        until(lambda: len(owner.asked) == 1)
        bridge.ask(1)
        assert bridge.hear()["id"] == 1
        assert bridge.silent


def test_a_call_that_is_cancelled_is_hung_up_on_and_not_answered(socket: Path) -> None:
    with between(socket, in_turn(hangs, done)) as (bridge, owner):
        bridge.ask(1)
        until(lambda: len(owner.asked) == 1)
        bridge.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        until(lambda: owner.asked[0].gone.is_set())
        bridge.ask(1)  # the id is free
        assert bridge.hear() == {"jsonrpc": "2.0", "id": 1, "result": {"done": "tools/call"}}
        assert len(owner.asked) == 2
        assert bridge.silent


def test_one_and_one_in_quotes_are_two_requests(socket: Path) -> None:
    with between(socket, in_turn(hangs, hangs, done)) as (bridge, owner):
        bridge.ask(1)
        until(lambda: len(owner.asked) == 1)
        bridge.ask("1")
        until(lambda: len(owner.asked) == 2)
        bridge.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "1"}})
        until(lambda: owner.asked[1].gone.is_set())
        assert not owner.asked[0].gone.is_set()


def test_cancelling_what_is_not_there_does_nothing(socket: Path) -> None:
    with between(socket, done) as (bridge, _):
        bridge.say(
            {"method": "notifications/cancelled", "params": {"requestId": [1]}}, {"method": "notifications/cancelled"}
        )
        bridge.ask(1)
        assert bridge.hear()["id"] == 1


def test_an_answer_that_broke_off_is_asked_for_again_under_the_same_name(socket: Path) -> None:
    with between(socket, in_turn(breaks_off, breaks_off, done)) as (bridge, owner):
        bridge.ask(1)
        heard = [bridge.hear() for _ in range(3)]
        assert [each.get("id") for each in heard] == [None, None, 1]
        assert len({each.headers["pilothouse-call-id"] for each in owner.asked}) == 1
        # It is the same process that is asked: it knows what became of it.
        assert all("pilothouse-call-again" not in each.headers for each in owner.asked)
        bridge.ask(2)
        bridge.hear()
        assert len({each.headers["pilothouse-call-id"] for each in owner.asked}) == 2


@pytest.mark.parametrize(
    ("listens", "told"),
    [
        ((7, 7, 8), [False, False, True]),
        ((7, 8, 8), [False, True, True]),
        ((0, 0, 0), [False, True, True]),  # of another container, say: nobody knows whether it is the same one
        ((0, 7, 7), [False, True, True]),
    ],
)
def test_an_owner_is_told_when_another_one_may_have_heard_it(
    listens: tuple[int, ...], told: list[bool], socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = iter(listens)
    monkeypatch.setattr(asking, "process_of", lambda connected: next(owners))
    with between(socket, in_turn(breaks_off, breaks_off, done)) as (bridge, owner):
        bridge.ask(1)
        until(lambda: bridge.hear().get("id") == 1)
        assert ["pilothouse-call-again" in each.headers for each in owner.asked] == told


def test_a_socket_says_which_process_listens(socket: Path) -> None:
    with FakeOwner(socket, done).listening(), closing(SocketConnection(str(socket), 5.0)) as connection:
        connection.connect()
        assert asking.process_of(connection.sock) == os.getpid()


@pytest.mark.parametrize(
    "passes",
    [
        problem(503, detail="stopping", code="unavailable"),
        problem(429, detail="too often", code="too_many_requests"),
        lambda exchange: exchange.answer(error={"code": -32603, "message": "m", "data": {"code": "unavailable"}}),
        lambda exchange: None,
    ],
    ids=["stopping", "too often", "stopping in the middle", "no answer"],
)
def test_what_passes_by_itself_is_waited_for(passes: Answers, socket: Path) -> None:
    with between(socket, in_turn(passes, passes, done)) as (bridge, owner):
        bridge.ask(1)
        assert bridge.hear() == {"jsonrpc": "2.0", "id": 1, "result": {"done": "tools/call"}}
        assert len(owner.asked) == 3


def test_an_owner_that_is_not_there_yet_is_waited_for(socket: Path) -> None:
    with bridged(socket) as bridge:
        bridge.ask(1)
        with FakeOwner(socket, done).listening():
            assert bridge.hear()["id"] == 1
        bridge.ask(2)
        with FakeOwner(socket, done).listening():
            assert bridge.hear()["id"] == 2


def test_where_an_owner_went_another_may_be_found_or_started(tmp_path: Path) -> None:
    homes = [tmp_path / "one.sock", tmp_path / "two.sock"]
    found: list[str] = []

    def find() -> str:
        found.append(str(homes[len(found) % 2]))
        return found[-1]

    with FakeOwner(homes[1], done).listening(), bridged(find) as bridge:
        for id in range(3):
            bridge.ask(id)
            assert bridge.hear()["id"] == id
        assert len(found) == 2


def failing() -> str:
    raise Unavailable("there is no git here")


@pytest.mark.parametrize(
    ("find", "reason"), [(failing, "there is no git here"), (lambda: "/nowhere/owner.sock", "No such file")]
)
def test_nobody_is_waited_for_for_ever(find: Callable[[], str], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "PATIENCE_S", 0.2)
    with bridged(find) as bridge:
        bridge.ask(1)
        error = bridge.hear()["error"]
        assert error["code"] == SERVER_ERROR
        assert reason in error["message"]
        assert error["data"] == {"code": "unavailable"}


def test_a_server_that_is_not_ours_or_refuses_is_told_of_as_an_error(socket: Path) -> None:
    refuses = problem(422, detail="x: is wrong", code="bad_input", field="x", fix="mend it", secret="s")
    missing = problem(503, detail="install it", code="not_installed")
    foreign: Answers = lambda exchange: exchange.send(404, None, "text/html")  # noqa: E731  # one of a list
    with between(socket, in_turn(refuses, missing, foreign)) as (bridge, owner):
        errors = []
        for id in (1, 2, 3):
            bridge.ask(id)
            errors.append(bridge.hear()["error"])
        assert [error["message"] for error in errors] == [
            "x: is wrong",
            "install it",
            "the server answered with status 404",
        ]
        assert errors[0]["data"] == {"status": 422, "code": "bad_input", "field": "x", "fix": "mend it"}
        assert len(owner.asked) == 3


def test_an_error_of_the_protocol_is_passed_on_with_the_id_of_the_request(socket: Path) -> None:
    def cannot_read(exchange: Exchange) -> None:
        exchange.send(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no"}})

    with between(socket, cannot_read) as (bridge, _):
        bridge.ask("x")
        assert bridge.hear() == {"jsonrpc": "2.0", "id": "x", "error": {"code": -32602, "message": "no"}}


def test_the_end_of_the_input_ends_what_waits(socket: Path) -> None:
    with between(socket, hangs) as (bridge, owner):
        for id in range(5):
            bridge.ask(id)
        until(lambda: len(owner.asked) == 5)
        bridge.end()
        until(lambda: all(each.gone.is_set() for each in owner.asked))
        assert bridge.silent


def test_the_end_of_the_input_ends_waiting_for_an_owner() -> None:
    with bridged(Path("/nowhere/owner.sock")) as bridge:
        bridge.ask(1)
        bridge.end()
        assert bridge.silent


def test_an_id_that_is_in_use_and_too_much_at_once_are_refused(socket: Path) -> None:
    with between(socket, hangs) as (bridge, owner):
        for id in range(MAX_AT_ONCE):
            bridge.ask(id)
        until(lambda: len(owner.asked) == MAX_AT_ONCE)
        bridge.ask(1)
        bridge.ask("more")
        assert [bridge.hear()["error"]["code"] for _ in range(2)] == [INVALID_REQUEST] * 2


def test_a_line_that_is_too_long_is_refused_and_the_next_one_read(socket: Path) -> None:
    with between(socket, done) as (bridge, owner):
        bridge.say(b"[" * (2 * MAX_LINE + 10), b"", b"  ", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert bridge.hear()["error"]["code"] == INVALID_REQUEST
        assert bridge.hear() == {"jsonrpc": "2.0", "id": 1, "result": {"done": "ping"}}
        assert len(owner.asked) == 1


REQUEST = st.builds(lambda id: {"jsonrpc": "2.0", "id": id, "method": "m"}, st.integers(0, 9) | st.sampled_from("abc"))
OTHER = st.sampled_from([b"{", b"[]", b"", b"\xff\xfe", b'{"method": 1}', b'{"id": 5, "result": 1}', b'{"id": {}}'])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(REQUEST | OTHER, max_size=12), breaks=st.lists(st.booleans(), max_size=2))
def test_every_request_has_one_answer_and_every_line_is_whole(
    lines: list[Any], breaks: list[bool], tmp_path: Path
) -> None:
    left = list(breaks)

    def answers(exchange: Exchange) -> None:
        exchange.begin()
        exchange.tell({"jsonrpc": "2.0", "method": "notifications/progress"})
        if not (left and left.pop()):
            exchange.tell({"jsonrpc": "2.0", "id": exchange.message["id"], "result": "x" * 10_000})

    requests = {json.dumps(line["id"]): line for line in lines if isinstance(line, dict)}
    wrong = [line for line in lines if line in (b"{", b"[]", b"\xff\xfe", b'{"method": 1}', b'{"id": {}}')]
    with between(tmp_path / "owner.sock", answers) as (bridge, _):
        bridge.say(*(line for line in lines if isinstance(line, bytes)), *requests.values())
        heard: list[dict[str, Any]] = []
        while sum("method" not in each for each in heard) < len(requests) + len(wrong):
            heard.append(bridge.hear())
        answered = [json.dumps(each["id"]) for each in heard if "result" in each]
        assert sorted(answered) == sorted(requests)
        assert sum("error" in each for each in heard) == len(wrong)
