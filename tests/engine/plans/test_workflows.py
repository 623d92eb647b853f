"""Workflows as they are kept: versions, conflicts, owners, and runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.core.workflow.workflows import block, chain, workflow
from tests.support.services import PATIENCE_S, REPO, World, ended

from pilothouse.core.auth.principals import THE_LOCAL_USER, Kind, Principal, Scope
from pilothouse.core.workflow.changes import Changes
from pilothouse.core.workflow.document import Edge, Workflow
from pilothouse.core.workflow.history import Note
from pilothouse.core.workflow.operations import Operation, read_operations
from pilothouse.engine.plans.workflows import Workflows
from pilothouse.engine.services import Services
from pilothouse.errors import BadInput, NotFound, WrongSequence

ANN = Principal("ann", Kind.KEY, frozenset({Scope.RUN}), "k1")
BOB = Principal("bob", Kind.KEY, frozenset({Scope.APPROVE}), "k2")


def steps(*operations: dict[str, Any]) -> tuple[Operation, ...]:
    return read_operations(list(operations))


ADD_C = steps({"op": "add_block", "block": block("c"), "after": ["b"]})
NOTHING = steps({"op": "update_block", "id": "a", "set": {"task": "do a"}})


def told(story: Callable[[Services], Awaitable[None]], world: World | None = None) -> None:
    async def journey() -> None:
        async with (world or World()).engine() as services:
            await story(services)

    asyncio.run(asyncio.wait_for(journey(), 2 * PATIENCE_S))


def test_every_edit_is_a_version_with_its_author_and_reason() -> None:
    async def story(services: Services) -> None:
        workflows = services.workflows
        made = await workflows.create(chain("a", "b"), ANN, Note(why="asked for", chat_id="c1", message_id="m1"))
        assert (made.version, made.owner, made.created_at) == (1, "ann", made.updated_at)
        assert made.revision.changes == Changes(blocks_added=("a", "b"), edges_added=(Edge("a", "b"),))
        edited = await workflows.edit(made.id, ANN, 1, ADD_C, Note(chat_id="c1", message_id="m2"))
        assert (edited.version, edited.created_at) == (2, made.created_at)
        assert edited.revision.changes == Changes(blocks_added=("c",), edges_added=(Edge("b", "c"),))
        assert await workflows.get(made.id, ANN) == edited
        assert await workflows.get(made.id, ANN, 1) == made
        history = await workflows.versions(made.id, ANN)
        assert [
            (one.version, one.revision.kind, one.revision.message_id, one.blocks, one.edges) for one in history
        ] == [
            (2, "edited", "m2", 3, 2),
            (1, "created", "m1", 2, 1),
        ]
        assert history[1].revision.why == "asked for"
        assert [one.version for one in await workflows.versions(made.id, ANN, before=2)] == [1]

    told(story)


def test_a_change_of_what_somebody_else_changed_is_refused() -> None:
    async def story(services: Services) -> None:
        workflows = services.workflows
        made = await workflows.create(chain("a", "b"), ANN)
        await workflows.edit(made.id, ANN, 1, ADD_C)
        attempts: list[Awaitable[Any]] = [
            workflows.edit(made.id, ANN, 1, ADD_C),
            workflows.replace(made.id, ANN, 1, chain("x")),
            workflows.revert(made.id, ANN, 1, 1),
            workflows.edit(made.id, ANN, 3, ADD_C),
        ]
        for attempt in attempts:
            with pytest.raises(WrongSequence, match="at version 2 by now"):
                await attempt
        assert (await workflows.get(made.id, ANN)).version == 2

    told(story)


def test_of_two_edits_at_once_one_wins_and_the_other_is_told() -> None:
    async def story(services: Services) -> None:
        made = await services.workflows.create(chain("a", "b"), ANN)
        edits = (services.workflows.edit(made.id, ANN, 1, ADD_C) for _ in range(5))
        outcomes = await asyncio.gather(*edits, return_exceptions=True)
        assert sorted(type(one).__name__ for one in outcomes) == ["StoredWorkflow"] + ["WrongSequence"] * 4

    told(story)


def test_what_changes_nothing_makes_no_version() -> None:
    async def story(services: Services) -> None:
        workflows = services.workflows
        made = await workflows.create(chain("a", "b"), ANN)
        for same in (
            await workflows.edit(made.id, ANN, 1, NOTHING),
            await workflows.replace(made.id, ANN, 1, chain("a", "b")),
            await workflows.revert(made.id, ANN, 1, 1),
        ):
            assert (same.version, same.revision.changes) == (1, Changes())

    told(story)


def test_a_refused_edit_leaves_no_trace() -> None:
    async def story(services: Services) -> None:
        made = await services.workflows.create(chain("a", "b"), ANN)
        wrong = (*ADD_C, *steps({"op": "connect", "source": "c", "target": "a"}))
        with pytest.raises(BadInput, match="a → b → c → a"):
            await services.workflows.edit(made.id, ANN, 1, wrong)
        with pytest.raises(BadInput):
            await services.workflows.replace(made.id, ANN, 1, workflow(block("A")))
        with pytest.raises(BadInput):
            await services.workflows.create(workflow(block("A")), ANN)
        assert await services.workflows.get(made.id, ANN) == made
        assert len(await services.workflows.list(ANN)) == 1

    told(story)


def test_going_back_is_a_version_of_its_own() -> None:
    async def story(services: Services) -> None:
        workflows = services.workflows
        made = await workflows.create(chain("a", "b"), ANN)
        await workflows.edit(made.id, ANN, 1, ADD_C)
        back = await workflows.revert(made.id, ANN, 2, 1, Note(why="it was better"))
        assert (back.version, back.workflow) == (3, made.workflow)
        assert (back.revision.kind, back.revision.reverted_to) == ("reverted", 1)
        assert back.revision.changes == Changes(blocks_removed=("c",), edges_removed=(Edge("b", "c"),))
        forth = await workflows.revert(made.id, ANN, 3, 2)
        assert [one.id for one in forth.workflow.blocks] == ["a", "b", "c"]
        for absent in (0, 5):
            with pytest.raises(BadInput) as caught:
                await workflows.revert(made.id, ANN, 4, absent)
            assert (caught.value.field, caught.value.fix) == ("to", "give one from 1 to 4")

    told(story)


def test_a_workflow_of_somebody_else_is_not_there() -> None:
    async def story(services: Services) -> None:
        workflows = services.workflows
        made = await workflows.create(chain("a", "b"), ANN)
        assert await workflows.list(BOB) == []
        for id in (made.id, "never"):
            attempts: list[Awaitable[Any]] = [
                workflows.get(id, BOB),
                workflows.get(id, BOB, 1),
                workflows.get(id, BOB, 9),
                workflows.versions(id, BOB),
                workflows.edit(id, BOB, 1, ADD_C),
                workflows.replace(id, BOB, 1, chain("x")),
                workflows.revert(id, BOB, 1, 1),
                workflows.delete(id, BOB),
                workflows.plan_file(id, BOB),
                workflows.compiled(id, BOB),
            ]
            for attempt in attempts:
                with pytest.raises(NotFound, match=f"^there is no workflow {id}$"):
                    await attempt

    told(story)


def test_who_administers_may_change_a_workflow_which_stays_its_owners() -> None:
    async def story(services: Services) -> None:
        made = await services.workflows.create(chain("a", "b"), ANN)
        edited = await services.workflows.edit(made.id, THE_LOCAL_USER, 1, ADD_C)
        assert (edited.owner, edited.revision.by) == ("ann", "local")

    told(story)


def test_a_deleted_workflow_is_gone_with_its_versions() -> None:
    async def story(services: Services) -> None:
        made = await services.workflows.create(chain("a", "b"), ANN)
        await services.workflows.edit(made.id, ANN, 1, ADD_C)
        await services.workflows.delete(made.id, ANN)
        for version in (None, 1, 2):
            with pytest.raises(NotFound):
                await services.workflows.get(made.id, ANN, version)
        assert await services.workflows.list(ANN) == []

    told(story)


def test_the_list_begins_with_what_was_changed_last() -> None:
    async def story(services: Services) -> None:
        one = await services.workflows.create(chain("a", "b"), ANN)
        two = await services.workflows.create(Workflow(name="empty"), ANN)
        assert {found.id for found in await services.workflows.list(ANN)} == {one.id, two.id}
        while services.clock.now_ms() <= two.updated_at:
            await asyncio.sleep(0.001)
        await services.workflows.edit(one.id, ANN, 1, ADD_C)
        assert [(found.id, found.name) for found in await services.workflows.list(ANN)] == [
            (one.id, "test"),
            (two.id, "empty"),
        ]

    told(story)


def test_versions_outlive_their_server() -> None:
    world = World()
    ids: list[str] = []

    async def before(services: Services) -> None:
        made = await services.workflows.create(chain("a", "b"), ANN)
        await services.workflows.edit(made.id, ANN, 1, ADD_C)
        ids.append(made.id)

    async def after(services: Services) -> None:
        assert (await services.workflows.edit(ids[0], ANN, 2, steps({"op": "rename", "to": "new"}))).version == 3
        assert (await services.workflows.get(ids[0], ANN, 1)).workflow == chain("a", "b")

    told(before, world)
    told(after, world)


def test_a_workflow_runs_as_a_plan_that_says_where_it_comes_from() -> None:
    async def story(services: Services) -> None:
        workflows: Workflows = services.workflows
        made = await workflows.create(workflow(block("a", "write a"), block("b", "write b"), edges="a>b"), ANN)
        await workflows.edit(made.id, ANN, 1, steps({"op": "remove_block", "id": "b"}))
        compiled = await workflows.compiled(made.id, ANN, 1)
        plan_id = await workflows.run(compiled, ANN, repo=REPO, session_id="chat", key="once")
        assert await workflows.run(compiled, ANN, repo=REPO, session_id="chat", key="once") == plan_id
        assert await ended(services, plan_id) == "succeeded"
        row = await services.queries.run(plan_id)
        assert (row.owner, row.cause, row.session_id) == ("ann", f"workflow:{made.id}@1", "chat")
        assert row.counts["succeeded"] == 2

    told(story)


def test_an_empty_workflow_is_kept_and_not_run() -> None:
    async def story(services: Services) -> None:
        made = await services.workflows.create(Workflow(name="empty"), ANN)
        with pytest.raises(BadInput, match="add a block first"):
            await services.workflows.compiled(made.id, ANN)

    told(story)
