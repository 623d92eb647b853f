"""Editing: all operations or none, what they changed, and refusals that name operation and block."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.workflow.workflows import block, chain, operations, workflow

from pilothouse.core.workflow.changes import Changes, Renamed, changes_between
from pilothouse.core.workflow.document import Edge, Position, Workflow, workflow_data
from pilothouse.core.workflow.edit import edit
from pilothouse.core.workflow.operations import MAX_OPERATIONS, OPERATIONS, Operation, read_operations
from pilothouse.core.workflow.reading import BLOCK_FIELDS, read_workflow
from pilothouse.core.workflow.to_plan import check_workflow, compile_workflow
from pilothouse.errors import BadInput

EMPTY = Workflow(name="test")


def done(start: Workflow, *steps: dict[str, Any]) -> tuple[Workflow, Changes]:
    return edit(start, read_operations(list(steps)))


def refusal(start: Workflow, *steps: dict[str, Any]) -> BadInput:
    with pytest.raises(BadInput) as caught:
        done(start, *steps)
    return caught.value


def ids(found: Workflow) -> list[str]:
    return [one.id for one in found.blocks]


def test_blocks_are_added_in_order_and_connected_with_those_they_come_after() -> None:
    found, changes = done(
        EMPTY,
        {"op": "add_block", "block": block("a")},
        {"op": "add_block", "block": block("b")},
        {"op": "add_block", "block": block("c", position={"x": 10, "y": 20}), "after": ["b", "a"]},
    )
    assert ids(found) == ["a", "b", "c"]
    assert found.blocks[2].position == Position(10.0, 20.0)
    assert compile_workflow(found).jobs[2].dependencies == ("b", "a")
    assert changes == Changes(blocks_added=("a", "b", "c"), edges_added=(Edge("b", "c"), Edge("a", "c")))


def test_an_update_replaces_what_it_names_and_leaves_the_rest() -> None:
    start = workflow(block("a", name="First", config={"command": "make", "timeout": 5}))
    found, changes = done(
        start, {"op": "update_block", "id": "a", "set": {"task": "Build", "name": None, "config": {"timeout": 9}}}
    )
    assert found.blocks[0].fields == {"task": "Build"}
    assert found.blocks[0].config == {"command": "make", "timeout": 9}
    assert changes == Changes(blocks_updated=("a",))


def test_null_takes_a_field_of_the_config_away_in_either_spelling() -> None:
    start = workflow(block("a", config={"command": "make", "onInterrupted": "rerun"}))
    found, _ = done(start, {"op": "update_block", "id": "a", "set": {"config": {"on_interrupted": None}}})
    assert found.blocks[0].config == {"command": "make"}


def test_another_type_begins_with_an_empty_config() -> None:
    turned = {"op": "update_block", "id": "a", "set": {"type": "agent", "config": {"agent": "claude"}}}
    found, _ = done(chain("a"), turned)
    assert (found.blocks[0].type, found.blocks[0].config) == ("agent", {"agent": "claude"})
    joined, _ = done(chain("a"), {"op": "update_block", "id": "a", "set": {"type": "join"}})
    assert compile_workflow(joined).jobs[0].work is None


def test_a_removed_block_takes_its_edges_along() -> None:
    found, changes = done(chain("a", "b", "c"), {"op": "remove_block", "id": "b"})
    assert (ids(found), found.edges) == (["a", "c"], ())
    assert changes == Changes(blocks_removed=("b",), edges_removed=(Edge("a", "b"), Edge("b", "c")))


def test_a_renamed_block_keeps_its_place_and_its_edges() -> None:
    found, changes = done(chain("a", "b", "c"), {"op": "rename_block", "id": "b", "to": "middle"})
    assert ids(found) == ["a", "middle", "c"]
    assert found.edges == (Edge("a", "middle"), Edge("middle", "c"))
    assert changes == Changes(blocks_renamed=(Renamed(before="b", after="middle"),))


def test_two_blocks_can_swap_their_ids() -> None:
    start = workflow(block("a", "one"), block("b", "two"))
    found, changes = done(
        start,
        {"op": "rename_block", "id": "a", "to": "x"},
        {"op": "rename_block", "id": "b", "to": "a"},
        {"op": "rename_block", "id": "x", "to": "b"},
    )
    assert [(one.id, one.config["command"]) for one in found.blocks] == [("b", "one"), ("a", "two")]
    assert {(one.before, one.after) for one in changes.blocks_renamed} == {("a", "b"), ("b", "a")}
    assert not changes.blocks_updated and not changes.reordered


def test_an_id_that_became_free_may_be_given_to_a_new_block() -> None:
    _, changes = done(
        chain("a"), {"op": "rename_block", "id": "a", "to": "b"}, {"op": "add_block", "block": block("a")}
    )
    assert (changes.blocks_renamed, changes.blocks_added) == ((Renamed(before="a", after="b"),), ("a",))


def test_a_block_that_takes_the_id_of_a_removed_one_is_not_taken_for_it() -> None:
    _, changes = done(
        workflow(block("a"), block("b"), block("c"), edges="a>c b>c"),
        {"op": "remove_block", "id": "a"},
        {"op": "rename_block", "id": "b", "to": "a"},
    )
    assert (changes.blocks_removed, changes.blocks_renamed) == (("a",), (Renamed(before="b", after="a"),))
    assert (changes.edges_removed, changes.edges_added) == ((Edge("a", "c"),), ())


def test_options_and_the_name_are_set_one_by_one() -> None:
    start = workflow(block("a"), options={"maxParallel": 2, "env": {"A": "1"}})
    found, changes = done(
        start,
        {"op": "set_options", "set": {"max_parallel": None, "targetBranch": "feature/x"}},
        {"op": "rename", "to": "better"},
    )
    assert (found.name, found.options) == ("better", {"env": {"A": "1"}, "targetBranch": "feature/x"})
    assert changes == Changes(options_changed=("maxParallel", "targetBranch"), renamed=True)


def test_in_between_a_workflow_may_be_wrong() -> None:
    found, _ = done(
        chain("a", "b"),
        {"op": "connect", "source": "b", "target": "a"},
        {"op": "disconnect", "source": "a", "target": "b"},
    )
    assert found.edges == (Edge("b", "a"),)


def test_a_cycle_is_refused_with_its_path_at_the_operation_that_closed_it() -> None:
    error = refusal(
        chain("a", "b", "c"),
        {"op": "rename", "to": "other"},
        {"op": "connect", "source": "c", "target": "a"},
    )
    assert error.field == "operations[1]"
    assert "a → b → c → a" in error.message
    assert "'c' → 'a'" in error.fix


def test_what_is_wrong_with_a_block_names_the_operation_and_the_block() -> None:
    added = refusal(EMPTY, {"op": "add_block", "block": {**block("a"), "config": {"comand": "x"}}})
    assert added.field == "operations[0].block.config.command"
    assert "'a'" in added.message
    updated = refusal(chain("a"), {"op": "update_block", "id": "a", "set": {"config": {"timeout": -1}}})
    assert updated.field == "operations[0].set.config.timeout"
    option = refusal(chain("a"), {"op": "set_options", "set": {"maxParallel": -1}})
    assert option.field == "operations[0].set.maxParallel"
    name = refusal(chain("a"), {"op": "rename", "to": " "})
    assert name.field == "operations[0].to"


@pytest.mark.parametrize(
    ("step", "field", "said"),
    [
        ({"op": "add_blok", "block": {}}, "operations[0].op", "did you mean 'add_block'?"),
        ({"block": {}}, "operations[0].op", "is required"),
        ({"op": "add_block"}, "operations[0].block", "is required"),
        ({"op": "add_block", "block": block("a")}, "operations[0].block.id", "there is a block 'a' already"),
        ({"op": "add_block", "block": block("z"), "after": ["y"]}, "operations[0].after[0]", "no block 'y'"),
        ({"op": "add_block", "block": block("z"), "after": [1]}, "operations[0].after[0]", "must be text"),
        ({"op": "add_block", "block": block("z") | {"command": "x"}}, "operations[0].block.command", "inside config"),
        ({"op": "add_block", "block": block("z") | {"dependencies": []}}, "operations[0].block.dependencies", "edges"),
        ({"op": "add_block", "block": block("z", type="tool")}, "operations[0].block.type", "'join'"),
        ({"op": "add_block", "block": block("z", type="join")}, "operations[0].block.config", "does no work"),
        ({"op": "add_block", "block": block("Z")}, "operations[0].block.id", "is not an id"),
        ({"op": "add_block", "block": block("g/" * 9 + "z")}, "operations[0].block.id", "groups deep"),
        ({"op": "add_block", "block": block("./z")}, "operations[0].block.id", "not a group name"),
        ({"op": "add_block", "block": block("z") | {"position": {"x": 1}}}, "operations[0].block.position.y", "number"),
        ({"op": "update_block", "id": "a", "set": {"id": "b"}}, "operations[0].set.id", "rename_block"),
        ({"op": "update_block", "id": "aa", "set": {}}, "operations[0].id", "did you mean 'a'?"),
        ({"op": "update_block", "id": "a", "set": {"config": {"type": "x"}}}, "operations[0].set.config.type", "block"),
        ({"op": "rename_block", "id": "a", "to": "b"}, "operations[0].to", "there is a block 'b' already"),
        ({"op": "connect", "source": "a", "target": "b"}, "operations[0]", "are connected already"),
        ({"op": "connect", "source": "a", "target": "x"}, "operations[0].target", "no block 'x'"),
        ({"op": "connect", "source": "b", "target": "b"}, "operations[0]", "with itself"),
        ({"op": "connect", "from": "a", "target": "b"}, "operations[0].from", "known are"),
        ({"op": "disconnect", "source": "b", "target": "a"}, "operations[0]", "the other way"),
        ({"op": "set_options", "set": {"jobs": []}}, "operations[0].set.jobs", "add blocks"),
    ],
)
def test_an_operation_that_makes_no_sense_is_refused_with_the_fix(step: dict[str, Any], field: str, said: str) -> None:
    error = refusal(chain("a", "b"), step)
    assert error.field == field
    assert said in str(error)


@pytest.mark.parametrize("data", [None, {}, [], ["x"], [{}] * (MAX_OPERATIONS + 1), [{"op": ["x"]}]])
def test_what_is_no_list_of_operations_is_refused(data: object) -> None:
    with pytest.raises(BadInput):
        read_operations(data)


def test_every_operation_can_be_described_to_a_model() -> None:
    schema = msgspec.json.schema(Operation)
    assert {tag: kind.__doc__ for tag, kind in OPERATIONS.items()} == {
        found["properties"]["op"]["enum"][0]: found["description"] for found in schema["$defs"].values()
    }


NAMES = [*sorted(BLOCK_FIELDS), "blocks", "edges", "options", "source", "target", "x", "y", "max_parallel", "work"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["a", "shell"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    anything,
    st.lists(
        st.fixed_dictionaries(
            {"op": st.sampled_from(sorted(OPERATIONS))},
            optional={
                "id": anything,
                "to": anything,
                "set": anything,
                "block": anything,
                "after": anything,
                "source": anything,
                "target": anything,
            },
        ),
        max_size=3,
    ),
)
def test_whatever_is_sent_is_done_or_refused(document: object, steps: list[dict[str, Any]]) -> None:
    for attempt in (lambda: check_workflow(read_workflow(document)), lambda: done(chain("a", "b"), *steps)):
        try:
            attempt()
        except BadInput as error:
            assert str(error)


@given(st.lists(st.lists(operations, min_size=1, max_size=4), max_size=12))
def test_any_operations_leave_a_sound_workflow_or_are_refused(edits: list[list[dict[str, Any]]]) -> None:
    standing = EMPTY
    for steps in edits:
        before = workflow_data(standing)
        try:
            after, changes = done(standing, *steps)
        except BadInput as error:
            assert error.field or "workflow" in error.message
            assert workflow_data(standing) == before
            continue
        check_workflow(after)
        assert read_workflow(workflow_data(after)) == after
        assert (changes == Changes()) == (after == standing)
        assert set(ids(after)) == (
            set(ids(standing)) - set(changes.blocks_removed) - {one.before for one in changes.blocks_renamed}
        ) | set(changes.blocks_added) | {one.after for one in changes.blocks_renamed}
        assert changes_between(after, after) == Changes()
        standing = after
