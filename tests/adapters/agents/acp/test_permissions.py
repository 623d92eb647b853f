"""Who decides whether an agent may use a tool."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pilothouse.adapters.agents.acp.permissions import Desk
from pilothouse.core.run.agents import Asked, Permissions


class Server:
    """Answers what is asked, by leaving files."""

    def __init__(self, answers: Path) -> None:
        self.answers = answers
        self.asked: list[Asked] = []

    def leave(self, text: str, request: Asked) -> None:
        (self.answers / f"{request.request_id}.json").write_text(text)

    async def next(self, number: int) -> Asked:
        async with asyncio.timeout(5):
            while len(self.asked) < number:
                await asyncio.sleep(0.001)
        return self.asked[number - 1]

    def answer(self, request: Asked, *, allowed: bool, remember: bool = False) -> None:
        self.leave(json.dumps({"allowed": allowed, "remember": remember}), request)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def desk(server: Server, policy: Permissions = Permissions.ASK) -> Desk:
    return Desk(policy, server.answers, server.asked.append)


@pytest.mark.parametrize(("policy", "allowed"), [(Permissions.ALLOW, True), (Permissions.DENY, False)])
def test_nobody_is_asked_where_the_plan_has_decided(server: Server, policy: Permissions, allowed: bool) -> None:
    assert asyncio.run(desk(server, policy).decide("edit", "a", "b")) is allowed
    assert server.asked == []


@pytest.mark.parametrize("policy", list(Permissions))
def test_for_what_it_was_given_it_asks_nobody_here(server: Server, policy: Permissions) -> None:
    assert asyncio.run(desk(server, policy).decide("other", "a", "b", beyond=True, given=True))
    assert server.asked == []


@pytest.mark.parametrize("allowed", [True, False])
def test_the_answer_is_the_one_that_was_left(server: Server, allowed: bool) -> None:
    async def scenario() -> bool:
        deciding = asyncio.create_task(desk(server).decide("execute", "make", "make all"))
        request = await server.next(1)
        assert (request.tool, request.title, request.input, request.can_remember) == (
            "execute",
            "make",
            "make all",
            True,
        )
        server.answer(request, allowed=allowed)
        return await deciding

    assert asyncio.run(scenario()) is allowed


def test_requests_that_come_together_are_asked_one_after_the_other(server: Server) -> None:
    async def scenario() -> list[bool]:
        one = desk(server)
        async with asyncio.TaskGroup() as group:
            decisions = [group.create_task(one.decide("edit", name, "")) for name in ("a", "b")]
            first = await server.next(1)
            assert [request.title for request in server.asked] == ["a"]
            server.answer(first, allowed=False)
            server.answer(await server.next(2), allowed=True)
        return [decision.result() for decision in decisions]

    assert asyncio.run(scenario()) == [False, True]
    assert len({request.request_id for request in server.asked}) == 2


def test_a_yes_to_be_remembered_holds_for_tools_of_its_sort_also_for_requests_that_wait(server: Server) -> None:
    async def scenario() -> bool:
        one = desk(server)
        async with asyncio.TaskGroup() as group:
            decisions = [group.create_task(one.decide("edit", name, "")) for name in ("a", "b")]
            server.answer(await server.next(1), allowed=True, remember=True)
        assert all(decision.result() for decision in decisions)
        assert await one.decide("edit", "c", "")
        assert len(server.asked) == 1
        other = asyncio.create_task(one.decide("execute", "rm", ""))
        server.answer(await server.next(2), allowed=False)
        return await other

    assert asyncio.run(scenario()) is False


def test_what_reaches_too_far_is_for_a_person_to_allow_each_time(server: Server) -> None:
    assert not asyncio.run(desk(server, Permissions.ALLOW).decide("edit", "a", "", beyond=True))

    async def scenario() -> list[bool]:
        one, allowed = desk(server), []
        for number in (1, 2):
            deciding = asyncio.create_task(one.decide("edit", "a", "", beyond=True))
            server.answer(await server.next(number), allowed=True, remember=True)
            allowed.append(await deciding)
        return allowed

    assert asyncio.run(scenario()) == [True, True]


def test_a_no_is_never_remembered(server: Server) -> None:
    async def scenario() -> None:
        one = desk(server)
        for number in (1, 2):
            deciding = asyncio.create_task(one.decide("edit", "a", ""))
            server.answer(await server.next(number), allowed=False, remember=True)
            assert not await deciding

    asyncio.run(scenario())


def test_an_answer_that_cannot_be_read_is_a_no(server: Server) -> None:
    async def scenario() -> bool:
        deciding = asyncio.create_task(desk(server).decide("edit", "a", ""))
        server.leave('{"allowed": "perhaps"}', await server.next(1))
        return await deciding

    assert asyncio.run(scenario()) is False
