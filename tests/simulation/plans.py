"""Random plans: small, crooked, and made so that their nodes get in each other's way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from tests.simulation.agents import AGENT

from pilothouse.core.plan.build import build_plan
from pilothouse.core.plan.events import PlanBuilt
from pilothouse.core.plan.integration import Strategy
from pilothouse.core.plan.kind import PlanKind, Submit
from pilothouse.core.plan.spec import AgentSpec, JobSpec, OnInterrupted, PlanSpec, ProcessSpec
from pilothouse.core.run.agents import Permissions
from pilothouse.core.run.events import RunCreated
from pilothouse.core.run.usage import Budget

_SIZES = (1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 7, 12)


def random_plan(random: Random, name: str, target: str | None, agents: Random | None = None) -> PlanSpec:
    """``agents``: much of the work is theirs. They are drawn apart, so that plans without them stay what they are."""
    size = random.choice(_SIZES)
    jobs = tuple(_job(random, name, index, size) for index in range(size))
    plan = _plan(random, name, target, jobs)
    return plan if agents is None else _with_agents(agents, plan)


def _plan(random: Random, name: str, target: str | None, jobs: tuple[JobSpec, ...]) -> PlanSpec:
    return PlanSpec(
        name=name,
        jobs=jobs,
        target_branch=target,
        max_parallel=random.choice((0, 1, 2, 2, 3, 4)),
        merge_strategy=random.choice((Strategy.SQUASH, Strategy.SQUASH, Strategy.MERGE)),
        clean_up_successful_work=random.random() < 0.9,
        start_paused=random.random() < 0.05,
    )


def _job(random: Random, plan: str, index: int, size: int) -> JobSpec:
    parents = tuple(f"j{other}" for other in range(index) if random.random() < min(0.5, 1.6 / size))
    producer = f"j{index}"
    stem = f"{plan}-{producer}"
    coordination = bool(parents) and random.random() < 0.2
    no_changes = random.random() < 0.12
    flags = "n" if no_changes else "".join(str(shared) for shared in range(3) if random.random() < 0.12)
    return JobSpec(
        producer_id=producer,
        name=producer,
        task=f"do {producer}",
        work=None if coordination else _command(random, "work", stem, flags),
        prechecks=_command(random, "prechecks", stem, "") if not coordination and random.random() < 0.2 else None,
        postchecks=_command(random, "postchecks", stem, random.choice(("", "e")))
        if not coordination and random.random() < 0.2
        else None,
        expects_no_changes=no_changes and random.random() < 0.8,
        dependencies=parents,
        group=random.choice((None, None, "g", "g/h", "k")),
    )


def _command(random: Random, role: str, stem: str, flags: str) -> ProcessSpec:
    rerun = role != "work" or random.random() < 0.4
    return ProcessSpec(
        executable=role,
        args=(stem, flags),
        timeout_ms=300 if random.random() < 0.08 else 0,
        on_interrupted=OnInterrupted.RERUN if rerun else OnInterrupted.REVIEW,
    )


def _with_agents(random: Random, plan: PlanSpec) -> PlanSpec:
    return msgspec.structs.replace(
        plan,
        jobs=tuple(_job_with_agents(random, job) for job in plan.jobs),
        budget=Budget(tokens=random.choice((1000, 3000))) if random.random() < 0.1 else None,
        permissions=random.choice((Permissions.ALLOW, Permissions.ALLOW, Permissions.ASK)),
        approval_timeout_ms=random.choice((0, 400, 2000, 60_000)),
    )


def _job_with_agents(random: Random, job: JobSpec) -> JobSpec:
    given: dict[str, Any] = {}
    for role, likely in (("work", 0.7), ("prechecks", 0.3), ("postchecks", 0.3)):
        command = getattr(job, role)
        if command is not None and random.random() < likely:
            given[role] = _agent(random, command)
    if given and random.random() < 0.25:
        given["budget"] = Budget(
            tokens=random.choice((None, 300, 1000)),
            turns=random.choice((None, None, 3)),
            time_ms=random.choice((None, None, 1000)),
            cost=random.choice((None, None, None, 0.002)),
        )
    return msgspec.structs.replace(job, **given)


def _agent(random: Random, command: ProcessSpec) -> AgentSpec:
    stem, flags = command.args
    return AgentSpec(
        agent=AGENT,
        instructions=f"{stem} {flags}",
        permissions=random.choice((None, None, Permissions.ALLOW, Permissions.ASK)),
        resume_session=random.random() < 0.7,
        max_turns=random.choice((None, None, None, 2)),
        timeout_ms=command.timeout_ms,
        on_interrupted=command.on_interrupted,
    )


def submission(spec: PlanSpec, run_id: str, base: str, new_id: Callable[[], str], *, update_checkout: bool) -> Submit:
    return Submit(
        created=RunCreated(kind=PlanKind.name, name=spec.name, owner="local", root_run_id=run_id),
        built=PlanBuilt(
            plan=build_plan(spec, new_id),
            repo_path="/repo",
            base_branch="main",
            base_commit=base,
            target_branch=spec.target_branch,
            update_checkout=update_checkout,
            worktree_root="/trees",
            backoff_ms=400,
        ),
    )
