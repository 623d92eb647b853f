"""Whose a run is decides for whom it is there, also when it is gone."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.services import World, ended, submit

from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.core.auth.policy import Action
from pilothouse.core.auth.principals import LOCAL, THE_LOCAL_USER, Kind, Principal, Scope
from pilothouse.core.auth.refusals import NeedsScope
from pilothouse.engine.access.access import Access
from pilothouse.errors import NotFound

MINE = Principal(LOCAL, Kind.KEY, frozenset({Scope.RUN}))
FOREIGN = Principal("bob", Kind.KEY, frozenset({Scope.APPROVE}))


def test_a_run_is_there_for_its_owner_and_missing_for_others_as_if_it_never_was() -> None:
    async def journey() -> None:
        async with World().engine() as services:
            run_id = await submit(services, "write a")
            for principal in (MINE, THE_LOCAL_USER):
                await services.access.require(principal, Action.READ_RUNS, run_id)
            said = []
            for asked in (run_id, "nothing"):
                with pytest.raises(NotFound) as refused:
                    await services.access.require(FOREIGN, Action.READ_RUNS, asked)
                said.append(str(refused.value).replace(asked, "…"))
            assert said[0] == said[1]

    asyncio.run(journey())


def test_a_missing_scope_is_said_before_anybody_looks_whose_it_is() -> None:
    async def journey() -> None:
        async with World().engine() as services:
            run_id = await submit(services, "write a")
            reader = Principal("bob", Kind.KEY, frozenset({Scope.READ}))
            for asked in (run_id, "nothing"):
                with pytest.raises(NeedsScope):
                    await services.access.require(reader, Action.CONTROL_RUNS, asked)

    asyncio.run(journey())


def test_a_deleted_run_stays_its_owners_as_long_as_that_is_known_and_is_nobody_elses() -> None:
    async def journey() -> None:
        world = World()
        async with world.engine() as services:
            run_id = await submit(services, "write a")
            await ended(services, run_id)
            assert await services.access.sees(MINE, run_id)
            await services.plans.delete(run_id)
            forgetful = Access(MemoryEventStore(world.store))
            assert await services.access.sees(MINE, run_id)
            assert not await forgetful.sees(MINE, run_id)
            for access in (services.access, forgetful):
                assert not await access.sees(FOREIGN, run_id)
                assert await access.sees(THE_LOCAL_USER, run_id)

    asyncio.run(journey())


def test_no_more_owners_are_remembered_than_allowed() -> None:
    async def journey() -> None:
        world = World()
        async with world.engine() as services:
            runs = [await submit(services, "write a") for _ in range(3)]
            for run_id in runs:
                await ended(services, run_id)
            access = Access(MemoryEventStore(world.store), remembered=2)
            for run_id in runs:
                assert await access.sees(MINE, run_id)
            for run_id in runs:
                await services.plans.delete(run_id)
            assert [await access.sees(MINE, run_id) for run_id in runs] == [False, True, True]

    asyncio.run(journey())
