from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.plan.integration import Strategy
from pilothouse.core.plan.spec import (
    AgentSpec,
    JobSpec,
    OnInterrupted,
    PlanSpec,
    ProcessSpec,
    Shell,
    ShellSpec,
    WorkSpec,
)
from pilothouse.core.plan.spec_parse import parse_plan, plan_from_data

words = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=20).filter(str.strip)
env = st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True), words, max_size=3)
timeouts = st.integers(0, 10**6)
interrupted = st.sampled_from(OnInterrupted)
work: st.SearchStrategy[WorkSpec] = st.one_of(
    st.builds(
        ProcessSpec,
        executable=words,
        args=st.lists(words, max_size=3).map(tuple),
        env=env,
        cwd=st.sampled_from(["", "sub/folder"]),
        timeout_ms=timeouts,
        on_interrupted=interrupted,
    ),
    st.builds(ShellSpec, command=words, shell=st.sampled_from(Shell), timeout_ms=timeouts, on_interrupted=interrupted),
    st.builds(AgentSpec, agent=words, instructions=words, script=st.just("replies.json"), env=env),
)
checks = st.none() | work.map(lambda spec: msgspec.structs.replace(spec, on_interrupted=OnInterrupted.RERUN))


@st.composite
def plan_specs(draw: st.DrawFn) -> PlanSpec:
    names = draw(
        st.lists(st.from_regex(r"[a-z0-9][a-z0-9-]{0,9}", fullmatch=True), min_size=1, max_size=6, unique=True)
    )
    return PlanSpec(
        name=draw(words),
        target_branch=draw(st.none() | st.just("feature/x")),
        max_parallel=draw(st.integers(0, 1024)),
        merge_strategy=draw(st.sampled_from(Strategy)),
        clean_up_successful_work=draw(st.booleans()),
        start_paused=draw(st.booleans()),
        env=draw(env),
        inherit_env=("TOKEN",),
        jobs=tuple(
            JobSpec(
                producer_id=name,
                name=draw(words),
                task=draw(words),
                work=draw(st.none() | work),
                prechecks=draw(checks),
                postchecks=draw(checks),
                dependencies=tuple(names[:index][: draw(st.integers(0, 3))]),
                group=draw(st.sampled_from([None, "a", "a/b c"])),
                expects_no_changes=draw(st.booleans()),
                env=draw(env),
            )
            for index, name in enumerate(names)
        ),
    )


@given(plan_specs())
def test_a_spec_survives_json_and_its_json_is_a_plan_file(spec: PlanSpec) -> None:
    encoded = msgspec.json.encode(spec)
    assert msgspec.json.decode(encoded, type=PlanSpec) == spec
    assert parse_plan(encoded, source="plan.json") == spec


def one_job(**fields: object) -> JobSpec:
    return plan_from_data({"name": "p", "jobs": [{"producerId": "a", "task": "t", **fields}]}).jobs[0]


def test_a_job_needs_little_and_gets_the_documented_defaults() -> None:
    assert plan_from_data({"name": "p", "jobs": [{"producerId": "a", "task": "t"}]}) == PlanSpec(
        name="p",
        repo_path=None,
        base_branch=None,
        target_branch=None,
        max_parallel=4,
        merge_strategy=Strategy.SQUASH,
        clean_up_successful_work=True,
        start_paused=False,
        jobs=(JobSpec(producer_id="a", name="a", task="t", dependencies=(), expects_no_changes=False),),
    )


def test_work_is_reviewed_after_an_interruption_unless_it_says_otherwise_and_checks_run_again() -> None:
    job = one_job(work="make", prechecks="make check", postchecks={"type": "process", "executable": "true"})
    assert job.work == ShellSpec(command="make", on_interrupted=OnInterrupted.REVIEW)
    assert job.prechecks == ShellSpec(command="make check", on_interrupted=OnInterrupted.RERUN)
    assert job.postchecks == ProcessSpec(executable="true", on_interrupted=OnInterrupted.RERUN)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("npm run build", ShellSpec(command="npm run build")),
        ("@agent write it", AgentSpec(instructions="write it")),
        ("@agent\nwrite\nit", AgentSpec(instructions="write\nit")),
        ("@agent", AgentSpec(instructions="Complete the task as specified")),
        ("@agents are not meant", ShellSpec(command="@agents are not meant")),
        ('{"type": "shell", "command": "ls", "shell": "bash"}', ShellSpec(command="ls", shell=Shell.BASH)),
        ('{"type": "process", "executable": "ls"} junk', ProcessSpec(executable="ls")),
        ('{"type": "shell", "command": "ls", "timeout": 5}', ShellSpec(command="ls", timeout_ms=5)),
        ("{ echo a; echo b; }", ShellSpec(command="{ echo a; echo b; }")),
        ('{"no": "type"}', ShellSpec(command='{"no": "type"}')),
    ],
)
def test_a_string_is_an_agent_a_spec_in_json_or_a_shell_command(text: str, spec: WorkSpec) -> None:
    assert one_job(work=text).work == spec


def test_both_spellings_mean_the_same() -> None:
    snake = {"producer_id": "a", "task": "t", "expects_no_changes": True, "base_branch": "v1"}
    camel = {"producerId": "a", "task": "t", "expectsNoChanges": True, "baseBranch": "v1"}
    plan = plan_from_data({"name": "p", "max_parallel": 2, "jobs": [snake]})
    assert plan == plan_from_data({"name": "p", "maxParallel": 2, "jobs": [camel]})
    assert plan == plan_from_data({"name": "p", "maxParallel": 2, "max_parallel": 2, "jobs": [{**snake, **camel}]})


def test_null_is_the_same_as_leaving_a_field_out() -> None:
    assert one_job(work=None, group=None, env=None, dependencies=None) == one_job()


def test_an_unbuilt_field_that_asks_for_nothing_is_accepted() -> None:
    assert one_job(autoHeal=False) == one_job()
    plan = {"name": "p", "worktreeInit": [], "verifyRi": None, "jobs": [{"producerId": "a", "task": "t"}]}
    assert plan_from_data(plan).name == "p"


def test_a_whole_number_stands_for_its_text_where_text_is_expected() -> None:
    job = one_job(producerId=7, name=8, env={"PORT": 8080}, work={"type": "process", "executable": "x", "args": [1]})
    assert (job.producer_id, job.name, job.env) == ("7", "8", {"PORT": "8080"})
    assert job.work == ProcessSpec(executable="x", args=("1",))


NESTED = """
name: p
jobs:
  - { producerId: api, task: t }
groups:
  - name: Front end
    jobs:
      - { producerId: web, task: t, dependencies: [api] }
    groups:
      - name: docs
        jobs:
          - { producerId: api, task: t }
          - { producerId: guide, task: t, dependencies: [api, web] }
  - name: last
    jobs:
      - { producerId: all, task: t, dependencies: [Front end/docs/guide, api] }
"""


def test_nested_groups_qualify_ids_and_dependencies_look_outwards() -> None:
    jobs = {job.producer_id: job for job in parse_plan(NESTED).jobs}
    assert {name: (job.group, job.dependencies) for name, job in jobs.items()} == {
        "api": (None, ()),
        "Front end/web": ("Front end", ("api",)),
        "Front end/docs/api": ("Front end/docs", ()),
        "Front end/docs/guide": ("Front end/docs", ("Front end/docs/api", "Front end/web")),
        "last/all": ("last", ("Front end/docs/guide", "api")),
    }
    assert jobs["Front end/web"].name == "web"


def test_a_group_tag_does_not_change_the_id() -> None:
    job = one_job(group="a/b")
    assert (job.producer_id, job.group) == ("a", "a/b")
