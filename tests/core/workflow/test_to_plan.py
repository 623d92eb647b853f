"""A workflow compiled to a plan, a plan made a workflow, and what is wrong told in terms of blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.plan.test_spec import plan_specs
from tests.core.workflow.workflows import block, chain, workflow

from pilothouse.core.plan.spec import AgentSpec, PlanSpec, ShellSpec
from pilothouse.core.plan.spec_groups import name_inside, qualified
from pilothouse.core.plan.spec_parse import parse_plan, plan_from_data
from pilothouse.core.workflow.document import Workflow, workflow_data
from pilothouse.core.workflow.from_plan import workflow_from_plan
from pilothouse.core.workflow.reading import read_workflow
from pilothouse.core.workflow.to_plan import check_workflow, compile_workflow, plan_file
from pilothouse.errors import BadInput

EXAMPLES = [
    path
    for path in sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
    if not path.name.endswith(".replies.yaml")
]


def refusal(found: Workflow) -> BadInput:
    with pytest.raises(BadInput) as caught:
        compile_workflow(found)
    return caught.value


@st.composite
def grouped_plans(draw: st.DrawFn) -> PlanSpec:
    """Plan files with nested groups whose jobs have the same few names, so that near ones hide those further out."""
    placed: list[tuple[str, dict[str, Any]]] = []

    def jobs(scope: str) -> list[dict[str, Any]]:
        names = draw(st.lists(st.sampled_from("xyz"), unique=True, min_size=1, max_size=3))
        found = [{"producerId": name, "task": "t", "work": f"echo {name}"} for name in names]
        placed.extend((scope, job) for job in found)
        return found

    def groups(scope: str, depth: int) -> list[dict[str, Any]]:
        names = draw(st.lists(st.sampled_from(["g", "x", "A b"]), unique=True, max_size=2)) if depth else []
        inside = [(name, qualified(scope, name)) for name in names]
        return [{"name": name, "jobs": jobs(path), "groups": groups(path, depth - 1)} for name, path in inside]

    data = {"name": "grouped", "jobs": jobs(""), "groups": groups("", 3)}
    outside = [qualified(scope, job["producerId"]) for scope, job in placed]
    for index, (scope, job) in enumerate(placed):
        said = {name for earlier in outside[:index] if (name := name_inside(scope, earlier, outside))}
        job["dependencies"] = draw(st.lists(st.sampled_from(sorted(said)), unique=True)) if said else []
    return plan_from_data(data)


@given(plan_specs() | grouped_plans())
def test_a_plan_that_was_made_a_workflow_compiles_to_the_same_plan(spec: PlanSpec) -> None:
    found = workflow_from_plan(spec)
    assert compile_workflow(found) == spec
    assert plan_from_data(plan_file(found)) == spec
    assert read_workflow(workflow_data(found)) == found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_can_be_made_a_workflow(path: Path) -> None:
    spec = parse_plan(path.read_bytes())
    assert compile_workflow(workflow_from_plan(spec)) == spec


def test_a_block_says_what_a_job_says() -> None:
    found = workflow(
        block("build", "make", env={"A": "1"}, postchecks="make test", expects_no_changes=True),
        {"id": "think", "type": "agent", "task": "Think", "config": {"agent": "claude", "max_turns": 3}},
        {"id": "end", "type": "join", "task": "Both are done"},
        edges="build>end think>end",
        options={"maxParallel": 2, "targetBranch": "feature/x"},
    )
    spec = compile_workflow(found)
    assert (spec.name, spec.max_parallel, spec.target_branch) == ("test", 2, "feature/x")
    build, think, end = spec.jobs
    assert (build.work, build.env, build.expects_no_changes) == (ShellSpec(command="make"), {"A": "1"}, True)
    assert think.work == AgentSpec(agent="claude", max_turns=3)
    assert (end.work, end.dependencies) == (None, ("build", "think"))


def test_the_plan_file_says_only_what_its_author_said() -> None:
    assert plan_file(chain("a", "b")) == {
        "name": "test",
        "jobs": [
            {"producerId": "a", "task": "do a", "work": {"type": "shell", "command": "true"}},
            {"producerId": "b", "task": "do b", "work": {"type": "shell", "command": "true"}, "dependencies": ["a"]},
        ],
    }


def test_blocks_stand_in_the_groups_that_their_ids_name() -> None:
    found = workflow(block("all"), block("web/test"), block("web/ui/test"), edges="web/ui/test>web/test web/test>all")
    assert [(job.producer_id, job.group, job.dependencies) for job in compile_workflow(found).jobs] == [
        ("all", None, ("web/test",)),
        ("web/test", "web", ("web/ui/test",)),
        ("web/ui/test", "web/ui", ()),
    ]


def test_a_dependency_that_a_nearer_block_hides_is_refused() -> None:
    error = refusal(workflow(block("a"), block("g/a"), block("g/b"), edges="g/a>g/b a>g/b"))
    assert (error.field, "hides 'a'" in error.message) == ("edges[1]", True)


def test_an_empty_workflow_is_a_draft_and_no_plan() -> None:
    check_workflow(Workflow(name="empty"))
    assert refusal(Workflow(name="empty")).field == "blocks"
    with pytest.raises(BadInput) as caught:
        check_workflow(Workflow(name="empty", options={"maxParallel": -1}))
    assert caught.value.field == "options.maxParallel"


@pytest.mark.parametrize(
    ("found", "field", "said"),
    [
        (workflow(block("a"), block("b", " ")), "blocks[1].config.command", "in block 'b'"),
        (workflow(block("a", name="x\ny")), "blocks[0].name", "in block 'a'"),
        (workflow({"id": "a", "type": "shell", "config": {"command": "x"}}), "blocks[0].task", "is required"),
        (workflow(block("a"), block("a")), "blocks[1].id", "two blocks 'a'"),
        (workflow(block("a", "x", type="shel")), "blocks[0].type", "did you mean 'shell'?"),
        (workflow(block("g/a", group="h")), "blocks[0].group", "already stands in a group"),
        (workflow(block("a"), edges="a>aa"), "edges[0].target", "did you mean 'a'?"),
        (workflow(block("a"), block("b"), edges="a>b a>b"), "edges[1]", "connected already"),
        (workflow(block("a"), block("b"), edges="a>b b>a"), "edges[1]", "a → b → a"),
        (workflow(block("a"), block("b", baseBranch="main"), edges="a>b"), "blocks[1].baseBranch", "without depend"),
        (workflow(block("a"), options={"env": {"1": "x"}}), "options.env", "name of a variable"),
        (workflow(block("a"), options={"maxParalel": 1}), "options.maxParalel", "did you mean 'maxParallel'?"),
        (workflow(block("a"), options={"no word": 1}), "options['no word']", "unknown field"),
        (workflow(block("a", "x" * 50_001)), "blocks[0].config.command", "50,000"),
    ],
)
def test_what_is_wrong_names_the_place_and_the_block(found: Workflow, field: str, said: str) -> None:
    error = refusal(found)
    assert error.field.startswith(field)
    assert said in str(error)


def test_a_workflow_larger_than_a_plan_file_is_refused() -> None:
    error = refusal(workflow(*(block(f"a{n}", instructions="x" * 90_000) for n in range(12))))
    assert "1 MiB" in error.message


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ([], "workflow"),
        ({}, "name"),
        ({"name": 1}, "name"),
        ({"name": "x", "block": []}, "block"),
        ({"name": "x", "blocks": {}}, "blocks"),
        ({"name": "x", "blocks": [1]}, "blocks[0]"),
        ({"name": "x", "blocks": [{"id": "a"}]}, "blocks[0].type"),
        ({"name": "x", "blocks": [block("a", base_branch="x", baseBranch="y")]}, "blocks[0].baseBranch"),
        ({"name": "x", "blocks": [block("a", producerId="a")]}, "blocks[0].producerId"),
        ({"name": "x", "blocks": [block("a", config=[])]}, "blocks[0].config"),
        ({"name": "x", "blocks": [block("a", position={"x": True, "y": 1})]}, "blocks[0].position.x"),
        ({"name": "x", "edges": [{"source": "a"}]}, "edges[0].target"),
        ({"name": "x", "options": {"name": "y"}}, "options.name"),
        ({"name": "x", "blocks": [block("a", task="\x00")]}, "blocks[0].task"),
    ],
)
def test_data_of_another_shape_is_refused_by_name(data: object, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_workflow(data)
    assert caught.value.field == field


def test_nothing_is_the_same_as_leaving_a_field_out() -> None:
    assert read_workflow({"name": "x", "blocks": [block("a", group=None)], "edges": None}) == read_workflow(
        {"name": "x", "blocks": [block("a")]}
    )
