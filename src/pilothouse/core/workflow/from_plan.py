"""From a plan to the workflow that stands for it: what a plan file says can be gone on with as a draft.

The way back is ``to_plan``: compiled, the workflow is the plan again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.plan.spec import JobSpec, PlanSpec
from pilothouse.core.workflow.document import JOIN, Block, Edge, Workflow


def workflow_from_plan(spec: PlanSpec) -> Workflow:
    """Every job becomes a block, every dependency an edge. What the plan leaves to defaults, the workflow does too."""
    options = _plain(spec)
    del options["jobs"]
    return Workflow(
        name=options.pop("name"),
        blocks=tuple(map(_block, spec.jobs)),
        edges=tuple(Edge(source, job.producer_id) for job in spec.jobs for source in job.dependencies),
        options=options,
    )


def _block(job: JobSpec) -> Block:
    fields = _plain(job)
    work: dict[str, Any] = fields.pop("work", {})
    del fields["producerId"]
    fields.pop("dependencies", None)
    scope, _, own_id = job.producer_id.rpartition("/")
    if scope:
        del fields["group"]  # the id says it
    if job.name == own_id:
        del fields["name"]
    return Block(id=job.producer_id, type=work.pop("type", JOIN), fields=fields, config=work)


def _plain(spec: PlanSpec | JobSpec) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(spec), type=dict[str, Any])
