"""From a plan back to a plan file: what was submitted, as the log has it, with every default filled in."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from pilothouse.core.plan.build import Plan
from pilothouse.core.plan.events import PlanBuilt
from pilothouse.core.plan.spec import JobBody, JobSpec, PlanOptions, PlanSpec
from pilothouse.engine.kinds import REGISTRY
from pilothouse.errors import NotFound
from pilothouse.interfaces.cli.client import Client


def plan_file(client: Client, plan_id: str) -> dict[str, Any]:
    """The plan as plain data that can be run again. Raises ``NotFound`` for a run that is no plan."""
    for raw in client.get(f"/api/runs/{plan_id}/events", after=0, limit=10)["events"]:
        event = REGISTRY.unwire(msgspec.json.encode(raw)).event
        if isinstance(event, PlanBuilt):
            return _file(event)
    raise NotFound(f"{plan_id} is no plan")


def _file(built: PlanBuilt) -> dict[str, Any]:
    plan = built.plan
    spec = PlanSpec(**_fields(plan, PlanOptions), jobs=tuple(_job(plan, node_id) for node_id in plan.nodes))
    spec = msgspec.structs.replace(
        spec, repo_path=built.repo_path, base_branch=built.base_branch, target_branch=built.target_branch
    )
    found: dict[str, Any] = msgspec.to_builtins(spec, str_keys=True)
    return {"name": found.pop("name"), **found}


def _job(plan: Plan, node_id: str) -> JobSpec:
    node = plan.nodes[node_id]
    group = plan.groups[node.group].path if node.group else None
    # In a nested group the id was made of the group's path and the job's own: the file names both apart.
    names = {n.id: n.producer_id for n in plan.nodes.values()}
    return JobSpec(
        **_fields(node, JobBody),
        dependencies=tuple(names[parent] for parent in node.dependencies),
        group=group,
    )


def _fields(value: JobBody | PlanOptions, shared: type[JobBody] | type[PlanOptions]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in shared.__struct_fields__}


def to_yaml(data: dict[str, Any]) -> str:
    """Text over several lines is written as it reads."""
    return str(yaml.dump(data, Dumper=_Readable, sort_keys=False, allow_unicode=True, width=120))


class _Readable(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _text)
