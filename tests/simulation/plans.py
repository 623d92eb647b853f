"""Random plans: small, crooked, and made so that their nodes get in each other's way."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pilothouse.core.plan.build import build_plan
from pilothouse.core.plan.events import PlanBuilt
from pilothouse.core.plan.integration import Strategy
from pilothouse.core.plan.kind import PlanKind, Submit
from pilothouse.core.plan.spec import JobSpec, OnInterrupted, PlanSpec, ProcessSpec
from pilothouse.core.run.events import RunCreated

_SIZES = (1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 7, 12)


def random_plan(random: Random, name: str, target: str | None) -> PlanSpec:
    size = random.choice(_SIZES)
    jobs = tuple(_job(random, name, index, size) for index in range(size))
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
        ),
    )
