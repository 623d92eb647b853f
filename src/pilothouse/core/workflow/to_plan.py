"""From a workflow to the plan it stands for, through the same checks as a plan file.

There is no second validator: a workflow is written as the data of a plan file, read as one, and what is wrong is told
in terms of its blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.core.plan.problems import Invalid, Problem, quote, refuse
from pilothouse.core.plan.spec import PlanSpec
from pilothouse.core.plan.spec_groups import Grouped, grouped, name_inside
from pilothouse.core.plan.spec_parse import plan_from_data
from pilothouse.core.plan.spec_text import MAX_BYTES
from pilothouse.core.workflow.document import JOIN, Block, Workflow, workflow_data
from pilothouse.core.workflow.shape import Where, check_shape, in_document

_PLACE = re.compile(r"(?:groups\[\d+\]\.)*jobs\[\d+\]|groups\[\d+\](?:\.groups\[\d+\])*")

_EMPTY = Problem("blocks", "there is none yet", "add a block first")


def plan_file(workflow: Workflow) -> dict[str, Any]:
    """The plan file, as data, that says what a sound workflow says. Raises ``BadInput``."""
    compile_workflow(workflow)
    laid, _ = _lay_out(workflow, in_document(workflow))
    return _file(workflow, laid)


def compile_workflow(workflow: Workflow) -> PlanSpec:
    """Raises ``BadInput`` naming block or option, for an empty workflow too."""
    found = _compiled(workflow, in_document(workflow))
    if isinstance(found, PlanSpec):
        return found
    raise refuse(found)


def check_workflow(workflow: Workflow, where: Where | None = None) -> None:
    """Whether a workflow is right as a draft: it can be compiled, but that it may be empty still. Raises ``BadInput``;
    ``where`` says what its parts are called then."""
    found = _compiled(workflow, where or in_document(workflow))
    if isinstance(found, PlanSpec):
        return
    problems = [problem for problem in found if problem != _EMPTY]
    if problems:
        raise refuse(problems)


def _compiled(workflow: Workflow, where: Where) -> PlanSpec | list[Problem]:
    problems = check_shape(workflow, where)
    if problems:
        return problems
    if (size := len(msgspec.json.encode(workflow_data(workflow)))) > MAX_BYTES:
        return [Problem("", f"the workflow is larger than 1 MiB ({size:,} bytes)", "move long texts into files")]
    laid, problems = _lay_out(workflow, where)
    if problems:
        return problems
    try:
        return plan_from_data(_file(workflow, laid))
    except Invalid as error:
        return [_translated(problem, workflow, laid, where) for problem in error.problems]


def _file(workflow: Workflow, laid: Grouped) -> dict[str, Any]:
    return {"name": workflow.name, **workflow.options, **laid.fields}


def _lay_out(workflow: Workflow, where: Where) -> tuple[Grouped, list[Problem]]:
    """The jobs in their groups, and which dependencies cannot be said there."""
    known = {block.id for block in workflow.blocks}
    dependencies: dict[str, list[str]] = {block.id: [] for block in workflow.blocks}
    problems = [
        Problem(f"{where.blocks[index]}.config", f"a join does no work, in block {quote(block.id)}", "remove it")
        for index, block in enumerate(workflow.blocks)
        if block.type == JOIN and block.config
    ]
    for index, edge in enumerate(workflow.edges):
        scope = edge.target.rpartition("/")[0]
        name = name_inside(scope, edge.source, known)
        if name is None:
            message = f"inside the group {quote(scope)} another block hides {quote(edge.source)}"
            problems.append(Problem(where.edges[index], message, "rename one of them"))
        else:
            dependencies[edge.target].append(name)
    return grouped([(block.id, _job(block, dependencies[block.id])) for block in workflow.blocks]), problems


def _job(block: Block, dependencies: Iterable[str]) -> dict[str, Any]:
    job = dict(block.fields)
    if block.type != JOIN:
        job["work"] = {"type": block.type, **block.config}
    if dependencies:
        job["dependencies"] = list(dependencies)
    return job


def _translated(problem: Problem, workflow: Workflow, laid: Grouped, where: Where) -> Problem:
    """A problem of the plan file in the terms of the workflow."""
    if problem.field == "jobs":
        return Problem("blocks", problem.message, problem.fix) if workflow.blocks else _EMPTY
    found = _PLACE.match(problem.field)
    if found is None:
        return Problem(_outside_blocks(problem.field, where), problem.message, problem.fix)
    index = laid.places[found[0]]
    block, rest = workflow.blocks[index], problem.field[found.end() :]
    if not found[0].rpartition(".")[2].startswith("jobs") or rest.startswith(".producerId"):
        rest = ".id"  # a nested group exists only in the ids of its blocks
    elif rest == ".work.type":
        fix = f"{problem.fix}, or {JOIN!r}" if problem.fix.startswith("use") else problem.fix
        rest, problem = ".type", msgspec.structs.replace(problem, fix=fix)
    elif rest.startswith(".work"):
        rest = f".config{rest.removeprefix('.work')}"
    return Problem(f"{where.blocks[index]}{rest}", f"{problem.message}, in block {quote(block.id)}", problem.fix)


def _outside_blocks(field: str, where: Where) -> str:
    if field in ("", "name"):
        return where.name if field else ""
    name = re.split(r"[.\[]", field, maxsplit=1)[0]
    if not name:
        return f"options{field}"  # a name that is no plain word stands in brackets already
    return where.options.get(name, f"options.{name}") + field.removeprefix(name)
