"""Every failure is a problem in one shape, with the status its class has, and says nothing of the inside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.requests import Request
from starlette.responses import Response
from tests.interfaces.http.doors import inside, run
from tests.interfaces.http.test_plans import refusal

from pilothouse import errors
from pilothouse.errors import BadInput, Busy, GitFailed, PilothouseError
from pilothouse.interfaces.http import limits
from pilothouse.interfaces.http.limits import MAX_BODY
from pilothouse.interfaces.http.problems import SCHEMA, Malformed, NoCredential, TooManyTries, problem, status_of

EXPECTED: dict[type[PilothouseError], int] = {
    errors.PilothouseError: 500,
    errors.BadInput: 422,
    errors.NotFound: 404,
    errors.Gone: 410,
    errors.Denied: 403,
    errors.Refused: 409,
    errors.Busy: 409,
    errors.Unavailable: 503,
    errors.StoreFailed: 503,
    errors.WrongSequence: 409,
    errors.StaleOwner: 503,
    errors.GitFailed: 500,
    errors.ExecutorFailed: 503,
    errors.BackendFailed: 502,
    Malformed: 400,
    NoCredential: 401,
    TooManyTries: 429,
}


def tree(root: type[PilothouseError] = PilothouseError) -> Iterator[type[PilothouseError]]:
    yield root
    for cls in root.__subclasses__():
        if cls.__module__ in {errors.__name__, Malformed.__module__}:
            yield from tree(cls)


def make(cls: type[PilothouseError]) -> PilothouseError:
    if cls is Busy:
        return Busy("it is so", active_turn_id="0192")
    return GitFailed(["git", "merge"], 1, "boom") if cls is GitFailed else cls("it is so")


@pytest.mark.parametrize("cls", list(tree()))
def test_every_error_of_the_tree_has_its_status(cls: type[PilothouseError]) -> None:
    error = make(cls)
    response = problem(error)
    assert status_of(error) == response.status_code == EXPECTED[cls]
    assert response.media_type == "application/problem+json"
    assert f'"code":"{cls.code}"'.encode() in bytes(response.body)


def test_an_error_raised_by_a_route_is_answered_as_a_problem() -> None:
    async def journey() -> None:
        async with inside() as at:

            async def fail(request: Request) -> Response:
                raise BadInput("is odd", field="jobs[2].task", fix="write an even one")

            at.app.add_route("/fail", fail)
            found = refusal(await at.client.get("/fail"), 422, "bad_input", "jobs[2].task")
            assert (found["detail"], found["fix"]) == ("is odd", "write an even one")
            assert found.keys() <= SCHEMA["properties"].keys()

    run(journey())


def test_a_bug_is_answered_without_a_word_of_the_inside() -> None:
    async def journey() -> None:
        async with inside() as at:

            async def fail(request: Request) -> Response:
                raise RuntimeError("secret of the inside")

            at.app.add_route("/fail", fail)
            response = await at.client.get("/fail")
            refusal(response, 500, "internal")
            assert "secret" not in response.text

    run(journey())


def test_unknown_routes_and_methods_are_problems_too() -> None:
    async def journey() -> None:
        async with inside() as at:
            refusal(await at.client.get("/api/nope"), 404, "not_found")
            response = await at.client.put("/api/plans")
            refusal(response, 405, "method_not_allowed")
            assert response.headers["allow"]

    run(journey())


@pytest.mark.parametrize(
    ("content", "kind", "status", "code"),
    [
        (b"{", "application/json", 400, "malformed"),
        (b"[" * 100_000, "application/json", 400, "malformed"),
        (b"\xff", "application/json", 400, "malformed"),
        (b"[]", "application/json", 400, "malformed"),
        (b"", "application/json", 400, "malformed"),
        (b'{"text": "x"}', "application/x-www-form-urlencoded", 400, "malformed"),
        (b'{"text": 1}', "application/json", 422, "bad_input"),
        (b" " * (MAX_BODY + 1), "application/json", 413, "too_large"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(content: bytes, kind: str, status: int, code: str) -> None:
    async def journey() -> None:
        async with inside() as at:
            response = await at.client.post("/api/plans", content=content, headers={"content-type": kind})
            refusal(response, status, code, "text" if status == 422 else "")

    run(journey())


def test_deeply_nested_plans_are_refused() -> None:
    async def journey() -> None:
        async with inside() as at:
            deep = '{"a":' * 500 + "1" + "}" * 500
            response = await at.client.post(
                "/api/plans", content=f'{{"plan":{deep}}}', headers={"content-type": "application/json"}
            )
            assert response.status_code in {400, 422}, response.text

    run(journey())


@pytest.mark.parametrize("path", ["/api/plans", "/api/login", "/mcp"])
def test_a_body_that_does_not_arrive_is_not_waited_for(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BODY_S", 0.05)

    async def journey() -> None:
        async with inside() as at:

            async def stuck() -> AsyncIterator[bytes]:
                yield b"{"
                await asyncio.Event().wait()

            response = await at.client.post(path, content=stuck(), headers={"content-type": "application/json"})
            refusal(response, 408, "too_slow")
            assert response.headers["connection"] == "close"

    run(journey())


def test_a_body_that_does_not_say_its_length_is_cut_off_at_the_limit() -> None:
    async def journey() -> None:
        async with inside() as at:
            given = 0

            async def endless() -> AsyncIterator[bytes]:
                nonlocal given
                while given < 10 * MAX_BODY:
                    given += 1 << 16
                    yield b" " * (1 << 16)

            response = await at.client.post(
                "/api/plans", content=endless(), headers={"content-type": "application/json"}
            )
            refusal(response, 413, "too_large")

    run(journey())
