"""From a plan back to a plan file: what was submitted, as the log has it, with every default filled in."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from pilothouse.core.plan.events import PlanBuilt
from pilothouse.core.plan.spec import JobBody, JobSpec, PlanOptions, PlanSpec
from pilothouse.core.plan.spec_groups import grouped, name_inside
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
    names = {node.id: node.producer_id for node in plan.nodes.values()}
    options: dict[str, Any] = msgspec.to_builtins(PlanSpec(**_fields(plan, PlanOptions), jobs=()))
    said = {"repoPath": built.repo_path, "baseBranch": built.base_branch, "targetBranch": built.target_branch}
    known = frozenset(names.values())
    jobs = []
    for node in plan.nodes.values():
        scope = node.producer_id.rpartition("/")[0]
        inside = (name_inside(scope, names[one], known) or names[one] for one in node.dependencies)
        path = plan.groups[node.group].path if node.group and not scope else None  # a nested group is in the id
        job: dict[str, Any] = msgspec.to_builtins(
            JobSpec(**_fields(node, JobBody), dependencies=tuple(inside), group=path)
        )
        del job["producerId"]
        jobs.append((node.producer_id, job))
    return {**options, **{name: value for name, value in said.items() if value is not None}, **grouped(jobs).fields}


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
