"""The examples are what they say: plans that are accepted, and that end as their comments tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.support.flow import engine, finished, make_repo, node, run, run_plan

from pilothouse.adapters.agents.registry import Drivers
from pilothouse.adapters.agents.scripted.script import replies_for
from pilothouse.core.plan.build import build_plan
from pilothouse.core.plan.spec import AgentSpec, JobSpec, PlanSpec, ShellSpec
from pilothouse.core.plan.spec_parse import parse_plan
from pilothouse.core.run.agents import Permissions

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
DRIVERS = Drivers({}, foreign=())
PLANS = sorted(path.name for path in EXAMPLES.glob("*.yaml") if not path.name.endswith(".replies.yaml"))


def read(name: str) -> PlanSpec:
    return parse_plan((EXAMPLES / name).read_bytes(), source=name)


def agents(spec: PlanSpec) -> Iterator[tuple[JobSpec, AgentSpec]]:
    for job in spec.jobs:
        for work in (job.work, job.prechecks, job.postchecks):
            if isinstance(work, AgentSpec):
                yield job, work


@pytest.mark.parametrize("name", PLANS)
def test_an_example_is_a_plan_that_can_be_built(name: str) -> None:
    spec = read(name)
    numbers = count(1)
    assert build_plan(spec, lambda: f"n{next(numbers)}").roots
    assert spec.name == name.removesuffix(".yaml")


@pytest.mark.parametrize("name", PLANS)
def test_the_agents_of_an_example_are_built_and_have_replies(name: str) -> None:
    for job, work in agents(read(name)):
        DRIVERS.require(work.agent).check(work, Permissions.ALLOW)
        if work.agent == "scripted":
            assert replies_for((ROOT / work.script).read_text(encoding="utf-8"), job.producer_id, 1)


def test_every_example_is_in_the_readme_and_the_other_way_round() -> None:
    linked = re.findall(r"\]\(([^)/]+\.yaml)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert sorted(linked) == sorted([*PLANS, "scripted-agents.replies.yaml"])


def test_the_format_of_replies_is_documented_with_an_example_that_works() -> None:
    page = (ROOT / "docs/scripted-agent.md").read_text(encoding="utf-8")
    for example in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL):
        # What is a plan there is a plan, the rest are replies.
        if "jobs" in yaml.safe_load(example):
            assert parse_plan(example).jobs
        else:
            assert replies_for(example, "api", 1)


def test_the_folders_that_the_self_check_names_are_there() -> None:
    commands = [job.work.command for job in read("self-check.yaml").jobs if isinstance(job.work, ShellSpec)]
    folders = [
        word for command in commands for word in command.split() if word.startswith(("tests", "src", "examples/"))
    ]
    assert len(folders) > len(commands)
    assert [folder for folder in folders if not (ROOT / folder).exists()] == []


class Ended(NamedTuple):
    """A plan as it ended, and the files of its branch that it made."""

    plan: dict[str, Any]
    files: dict[str, str]


def play(tmp_path: Path, name: str, *, retry: bool = False) -> Ended:
    async def journey() -> Ended:
        replies = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in EXAMPLES.glob("*.replies.yaml")}
        repo = make_repo(tmp_path / "repo", replies or {"README.md": "hello"})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, (EXAMPLES / name).read_text("utf-8"))
            if retry:
                last = (await services.queries.run(plan["planId"])).seq
                await services.plans.retry(plan["planId"])
                plan = await finished(services, plan["planId"], after=last)
        branch = plan["targetBranch"]
        made = [path for path in repo.files(branch) if path.startswith("example/")]
        return Ended(plan, {path: repo.show(branch, path) for path in made})

    return run(journey())


def test_the_diamond_joins_both_sides(tmp_path: Path) -> None:
    ended = play(tmp_path, "diamond.yaml")
    assert ended.plan["status"] == "succeeded"
    assert ended.files["example/trip.txt"] == "Packed for Lisbon\nBooked for Lisbon\n"


def test_what_fails_first_succeeds_when_it_is_retried(tmp_path: Path) -> None:
    ended = play(tmp_path / "once", "fails-then-retry.yaml")
    assert ended.plan["status"] == "partial"
    assert [node(ended.plan, name)["status"] for name in ("steady", "flaky", "after")] == [
        "succeeded",
        "failed",
        "blocked",
    ]
    ended = play(tmp_path / "twice", "fails-then-retry.yaml", retry=True)
    assert ended.plan["status"] == "succeeded"
    assert ended.files["example/after.txt"] == "after one that worked on attempt 2\n"


def test_a_conflict_keeps_one_result_and_names_the_file(tmp_path: Path) -> None:
    ended = play(tmp_path, "conflict.yaml")
    assert ended.plan["status"] == "partial"
    assert ended.files["example/ship.txt"] in ("The ship is green.\n", "The ship is blue.\n")
    (error,) = [found["error"] for found in ended.plan["nodes"] if found["error"]]
    assert "example/ship.txt" in error


def test_scripted_agents_work_on_what_the_others_left(tmp_path: Path) -> None:
    ended = play(tmp_path, "scripted-agents.yaml")
    assert ended.plan["status"] == "succeeded", ended.plan
    assert ended.files["example/haiku.md"].startswith("# Write a haiku about the sea\n")
    assert ended.files["example/haiku.md"].endswith("Reviewed by reviewer.\n")
    assert ended.files["example/log.txt"] == "Write a haiku\n"
