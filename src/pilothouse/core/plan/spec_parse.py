"""Reading a plan: from the text of a plan file, or from data that arrived some other way, to a ``PlanSpec``.

Owns what spans several fields: defaults that depend on others, nested groups and their names, and that the jobs
form a graph. Says everything that is wrong in one ``BadInput``, and raises nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from pydantic import ValidationError

from pilothouse.core.plan.graph import check_graph
from pilothouse.core.plan.integration import Strategy
from pilothouse.core.plan.problems import Problem, quote, refuse
from pilothouse.core.plan.spec import (
    DEFAULT_AGENT,
    DEFAULT_APPROVAL_TIMEOUT_MS,
    DEFAULT_MAX_PARALLEL,
    AgentSpec,
    Effort,
    JobSpec,
    Network,
    OnInterrupted,
    PlanSpec,
    ProcessSpec,
    SandboxSpec,
    Shell,
    ShellSpec,
    Tier,
    WorkSpec,
)
from pilothouse.core.plan.spec_errors import problems_of
from pilothouse.core.plan.spec_file import (
    MAX_GROUP_DEPTH,
    MAX_JOBS,
    AgentFile,
    BudgetFile,
    GroupFile,
    JobFile,
    PlanFile,
    ProcessFile,
    SandboxFile,
    ShellFile,
)
from pilothouse.core.plan.spec_groups import qualified, resolve
from pilothouse.core.plan.spec_text import check_values, read_data
from pilothouse.core.run.agents import Permissions
from pilothouse.core.run.usage import Budget
from pilothouse.errors import BadInput


def parse_plan(text: bytes | str, *, source: str = "plan") -> PlanSpec:
    """Read a plan in YAML or JSON. ``source`` names it in messages about the whole. Raises ``BadInput``."""
    data = read_data(text, source)
    if data is None:
        raise BadInput(f"{source} is empty", fix="give a plan with 'name' and 'jobs'")
    if not isinstance(data, dict):
        raise BadInput(f"{source} is not a mapping of fields", fix="begin with 'name:' and 'jobs:'")
    return plan_from_data(data)


def plan_from_data(data: object) -> PlanSpec:
    """Read a plan from plain data, such as the body of a request. Trusts nothing about it. Raises ``BadInput``."""
    problems = check_values(data)
    if problems:
        raise refuse(problems)
    try:
        file = PlanFile.model_validate(data)
    except ValidationError as error:
        raise refuse(problems_of(error)) from None
    return _plan(file)


class _Placed(msgspec.Struct, frozen=True):
    """A job with the field path and the nested group it stands in."""

    job: JobFile
    field: str
    scope: str


def _plan(file: PlanFile) -> PlanSpec:
    problems: list[Problem] = []
    placed = [_Placed(job, f"jobs[{index}]", "") for index, job in enumerate(file.jobs)]
    placed.extend(_in_groups(file.groups, "groups", "", problems))
    if not placed and not problems:
        problems.append(Problem("jobs", "is missing or empty", "add at least one job"))
    if len(placed) > MAX_JOBS:
        problems.append(Problem("jobs", f"must have at most {MAX_JOBS:,} entries, has {len(placed):,}"))
    known = frozenset(qualified(item.scope, item.job.producer_id) for item in placed)
    jobs = tuple(_job(item, known, problems) for item in placed)
    problems.extend(check_graph(jobs, [item.field for item in placed]))
    if problems:
        raise refuse(problems)
    return PlanSpec(
        name=file.name,
        repo_path=file.repo_path,
        base_branch=file.base_branch,
        target_branch=file.target_branch,
        max_parallel=DEFAULT_MAX_PARALLEL if file.max_parallel is None else file.max_parallel,
        merge_strategy=Strategy(file.merge_strategy),
        clean_up_successful_work=file.clean_up_successful_work,
        start_paused=file.start_paused,
        env=file.env,
        inherit_env=tuple(file.inherit_env),
        budget=_budget(file.budget),
        permissions=Permissions(file.permissions),
        approval_timeout_ms=DEFAULT_APPROVAL_TIMEOUT_MS if file.approval_timeout is None else file.approval_timeout,
        sandbox=_sandbox(file.sandbox),
        jobs=jobs,
    )


def _budget(file: BudgetFile | None) -> Budget | None:
    if file is None:
        return None
    return Budget(tokens=file.tokens, cost=file.cost, time_ms=file.time, turns=file.turns)


def _sandbox(file: SandboxFile | None) -> SandboxSpec | None:
    if file is None:
        return None
    return SandboxSpec(network=Network(file.network), writable=tuple(file.writable), readable=tuple(file.readable))


def _in_groups(groups: Sequence[GroupFile], field: str, scope: str, problems: list[Problem]) -> Iterator[_Placed]:
    # Recursion is bounded: the text was refused already if it is nested too deep.
    names: set[str] = set()
    for index, group in enumerate(groups):
        here = f"{field}[{index}]"
        path = qualified(scope, group.name)
        if group.name in names:
            problems.append(Problem(f"{here}.name", f"the group {quote(group.name)} is given twice", "join them"))
        names.add(group.name)
        if path.count("/") >= MAX_GROUP_DEPTH:
            problems.append(Problem(here, f"is nested more than {MAX_GROUP_DEPTH} groups deep", "flatten it"))
        if not group.jobs and not group.groups:
            problems.append(Problem(here, "has neither jobs nor groups", "remove it"))
        for position, job in enumerate(group.jobs):
            yield _Placed(job, f"{here}.jobs[{position}]", path)
        yield from _in_groups(group.groups, f"{here}.groups", path, problems)


def _job(placed: _Placed, known: frozenset[str], problems: list[Problem]) -> JobSpec:
    job, field, scope = placed.job, placed.field, placed.scope
    if job.base_branch is not None and job.dependencies:
        problems.append(
            Problem(
                f"{field}.baseBranch",
                "only a job without dependencies can have its own base",
                "remove it, or the dependencies",
            )
        )
    if job.group is not None and scope:
        problems.append(Problem(f"{field}.group", "the job already stands in a group", "remove it"))
    for name, check in (("prechecks", job.prechecks), ("postchecks", job.postchecks)):
        if check is not None and check.on_interrupted == "review":
            problems.append(
                Problem(f"{field}.{name}.onInterrupted", "checks are always run again", "remove it, or use 'rerun'")
            )
    return JobSpec(
        producer_id=qualified(scope, job.producer_id),
        name=job.name or job.producer_id,
        task=job.task,
        work=_work(job.work, OnInterrupted.REVIEW),
        prechecks=_work(job.prechecks, OnInterrupted.RERUN),
        postchecks=_work(job.postchecks, OnInterrupted.RERUN),
        instructions=job.instructions or "",
        dependencies=tuple(resolve(name, scope, known) for name in job.dependencies),
        group=scope or job.group,
        expects_no_changes=job.expects_no_changes,
        base_branch=job.base_branch,
        env=job.env,
        budget=_budget(job.budget),
    )


def _work(file: ProcessFile | ShellFile | AgentFile | None, default: OnInterrupted) -> WorkSpec | None:
    if file is None:
        return None
    on_interrupted = OnInterrupted(file.on_interrupted) if file.on_interrupted else default
    match file:
        case ProcessFile():
            return ProcessSpec(
                executable=file.executable,
                args=tuple(file.args),
                env=file.env,
                cwd=file.cwd or "",
                timeout_ms=file.timeout,
                on_interrupted=on_interrupted,
            )
        case ShellFile():
            return ShellSpec(
                command=file.command,
                shell=Shell(file.shell),
                env=file.env,
                cwd=file.cwd or "",
                timeout_ms=file.timeout,
                on_interrupted=on_interrupted,
            )
        case AgentFile():
            return AgentSpec(
                agent=file.agent or DEFAULT_AGENT,
                instructions=file.instructions or "",
                instructions_file=file.instructions_file or "",
                context=file.context or "",
                context_files=tuple(file.context_files),
                model=file.model or "",
                model_tier=Tier(file.model_tier) if file.model_tier else None,
                effort=Effort(file.effort) if file.effort else None,
                max_turns=file.max_turns,
                resume_session=file.resume_session,
                allowed_folders=tuple(file.allowed_folders),
                allowed_urls=tuple(file.allowed_urls),
                permissions=Permissions(file.permissions) if file.permissions else None,
                script=file.script or "",
                env=file.env,
                timeout_ms=file.timeout,
                on_interrupted=on_interrupted,
            )
