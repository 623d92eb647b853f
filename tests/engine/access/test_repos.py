"""Each user registers repositories for themselves; the local user does so for all."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.services import REPO, World

from pilothouse.core.auth.principals import LOCAL, THE_LOCAL_USER, Kind, Principal, Scope
from pilothouse.errors import BadInput, Denied, NotFound

ANN, BOB = (Principal(name, Kind.KEY, frozenset({Scope.RUN})) for name in ("ann", "bob"))


def test_what_one_user_registers_is_not_there_for_another() -> None:
    async def journey() -> None:
        async with World().engine() as services:
            repos = services.repos
            first = await repos.add(REPO, "ann")
            assert await repos.add(REPO, "ann") == first
            assert [repo.path for repo in await repos.list(ANN)] == [REPO]
            assert await repos.require(REPO, ANN) == REPO
            assert await repos.list(BOB) == []
            with pytest.raises(BadInput):
                await repos.require(REPO, BOB)
            with pytest.raises(NotFound):
                await repos.remove(REPO, BOB)
            assert (await repos.add(REPO, "bob")).owner == "bob"
            await repos.remove(REPO, BOB)
            assert [repo.owner for repo in await repos.list()] == ["ann"]

    asyncio.run(journey())


def test_what_the_local_user_registers_is_there_for_all_and_theirs_to_remove() -> None:
    async def journey() -> None:
        async with World().engine() as services:
            repos = services.repos
            await repos.add(REPO, LOCAL)
            assert await repos.require(REPO, BOB) == REPO
            with pytest.raises(Denied):
                await repos.remove(REPO, BOB)
            assert [repo.owner for repo in await repos.list(BOB)] == [LOCAL]

    asyncio.run(journey())


def test_the_local_user_removes_a_repository_for_everybody() -> None:
    async def journey() -> None:
        async with World().engine() as services:
            repos = services.repos
            for owner in ("ann", LOCAL):
                await repos.add(REPO, owner)
            await repos.remove(REPO, THE_LOCAL_USER)
            assert await repos.list() == []

    asyncio.run(journey())
