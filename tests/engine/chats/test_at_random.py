"""Several people at several conversations at once, whatever they do, over three lives of a server, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.engine.conversations import THE_LOCAL_USER, FakeTool, World, backend_of, calling, run, say, types, world

from pilothouse.adapters.backends.memory import Break, Delay, Script, Step
from pilothouse.core.chat.backend import Completed, Said, Thought
from pilothouse.core.chat.calls import Features
from pilothouse.core.chat.request import BackendRequest
from pilothouse.core.run.lifecycle import TERMINAL, TERMINAL_EVENTS
from pilothouse.core.tools.spec import Touches
from pilothouse.engine.services import Services
from pilothouse.errors import BackendFailed, Gone, NotFound, PilothouseError

SEEDS = range(12)
LIVES = 3
PEOPLE = 3
DEEDS = 8


class Doings:
    """What may be done at any moment. What is refused is refused."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.chats: list[str] = []
        self.turns: list[str] = []
        self._deeds: dict[Callable[[Services], Awaitable[Any]], int] = {
            self.send: 8, self.abort: 2, self.steer: 2, self.decide: 3, self.go_on: 2, self.look: 2, self.fork: 1,
            self.delete: 1,
        }  # fmt: skip

    async def anything(self, services: Services) -> None:
        deeds = self._deeds if self.chats else {self.send: 1}
        (deed,) = self.chance.choices(list(deeds), list(deeds.values()))
        try:
            await deed(services)
        except PilothouseError:
            pass

    async def send(self, services: Services) -> None:
        chat_id = self.chance.choice(self.chats) if self.chats and self.chance.random() < 0.7 else None
        message_id = self.chance.choice([None, f"m{self.chance.randint(0, 5)}"])
        sent = await say(services, chat_id=chat_id, message_id=message_id)
        self.turns.append(sent.turn_id)
        if sent.chat_id not in self.chats:
            self.chats.append(sent.chat_id)

    async def abort(self, services: Services) -> None:
        await services.chats.abort(self.chance.choice(self.turns), THE_LOCAL_USER)

    async def steer(self, services: Services) -> None:
        await services.chats.steer(self.chance.choice(self.chats), THE_LOCAL_USER, "shorter")

    async def decide(self, services: Services) -> None:
        calls = [
            (row.id, wait.scope) for row in await services.runs.waits() for wait in row.waits if wait.kind == "approval"
        ]
        turn_id, call_id = self.chance.choice(calls or [("none", "none")])
        status, scope = self.chance.choice(["accepted", "rejected", "background"]), self.chance.choice(["once", "chat"])
        await services.chats.confirm(THE_LOCAL_USER, call_id, status, turn_id=turn_id, scope=scope)

    async def go_on(self, services: Services) -> None:
        await services.runs.control(self.chance.choice(self.turns), self.chance.choice(["resume", "retry"]))

    async def look(self, services: Services) -> None:
        await services.chats.list(THE_LOCAL_USER)
        await services.chats.messages(self.chance.choice(self.chats), THE_LOCAL_USER)

    async def fork(self, services: Services) -> None:
        await services.chats.fork(self.chance.choice(self.chats), THE_LOCAL_USER, self.chance.choice(self.turns))

    async def delete(self, services: Services) -> None:
        await services.chats.delete(self.chance.choice(self.chats), THE_LOCAL_USER)


def script(chance: random.Random) -> Script:
    def says(asked: BackendRequest) -> list[Step]:
        steps: list[Step] = []
        for number in range(chance.randint(0, 6)):
            name = chance.choice(["look", "write"])
            choices: list[Step] = [
                Said("word "),
                Thought("hm"),
                Delay(chance.random() * 3),
                calling(name, f"{asked.call}-{number}") if asked.call < 4 else Said("enough "),
                Break(BackendFailed("away", transient=chance.random() < 0.5)),
            ]
            steps += chance.choices(choices, [4, 2, 3, 4, 1])
        return [*steps, Completed()] if chance.random() < 0.9 else steps

    return says


def machine(chance: random.Random) -> World:
    async def takes_time(*_: Any) -> str:
        await asyncio.sleep(chance.random() * 4)
        return "done"

    able = {name: chance.random() < 0.5 for name in ("reports", "aborts", "titles", "steers")}
    tools = FakeTool(does=takes_time), FakeTool("write", Touches.FILES, does=takes_time)
    return world(*tools, says=script(chance), features=Features(repeats=True, **able))


async def one_at_a_time(services: Services, chats: list[str]) -> None:
    for chat_id in chats:
        rows = await services.queries.runs(kind="turn", session_id=chat_id)
        assert sum(row.lifecycle not in TERMINAL for row in rows) <= 1


async def all_have_ended(services: Services, made: World, turns: set[str]) -> None:
    async with asyncio.timeout(3600):
        while services.supervisor.live:
            await asyncio.sleep(1)
    assert backend_of(made).open == set()
    for turn_id in turns:
        try:
            row = await services.queries.run(turn_id)
        except (NotFound, Gone):
            continue
        log = await types(services, turn_id)
        assert row.lifecycle in TERMINAL
        assert sum(log.count(end) for end in TERMINAL_EVENTS) == row.leg, "one end for each leg"
        result = await services.chats.result(turn_id, THE_LOCAL_USER)
        assert result.success or result.error, "whatever went wrong is said"


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_done_a_chat_has_one_live_turn_and_every_turn_one_end_per_leg(seed: int) -> None:
    async def journey() -> None:
        chance = random.Random(seed)
        made, doings = machine(chance), Doings(chance)

        async def person(services: Services) -> None:
            for _ in range(DEEDS):
                await asyncio.sleep(chance.random() * 3)
                await doings.anything(services)
                await one_at_a_time(services, doings.chats)

        for _ in range(LIVES):
            async with made.engine() as services:
                await asyncio.gather(*(person(services) for _ in range(PEOPLE)))
        async with made.engine() as services:
            await all_have_ended(services, made, set(doings.turns))

    run(journey)
