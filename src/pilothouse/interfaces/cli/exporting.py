"""From a plan back to a plan file: what was submitted, as the log has it, with every default filled in."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

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
    names = {node.id: node.producer_id for node in plan.nodes.values()}
    options: dict[str, Any] = msgspec.to_builtins(PlanSpec(**_fields(plan, PlanOptions), jobs=()))
    said = {"repoPath": built.repo_path, "baseBranch": built.base_branch, "targetBranch": built.target_branch}
    file = {**options, **{name: value for name, value in said.items() if value is not None}, "jobs": []}
    for node in plan.nodes.values():
        path = plan.groups[node.group].path if node.group else None
        spec = JobSpec(
            **_fields(node, JobBody), dependencies=tuple(names[one] for one in node.dependencies), group=path
        )
        job: dict[str, Any] = msgspec.to_builtins(spec)
        if path is not None and node.producer_id.startswith(f"{path}/"):
            # The id was made of a nested group's path and the job's own: the file names them apart again.
            del job["group"]
            job["producerId"] = node.producer_id.removeprefix(f"{path}/")
            _nested(file, path).setdefault("jobs", []).append(job)
        else:
            file["jobs"].append(job)
    return file


def _nested(within: dict[str, Any], path: str) -> dict[str, Any]:
    """The nested group of a path, made where it is not there yet."""
    for name in path.split("/"):
        groups = within.setdefault("groups", [])
        within = next((group for group in groups if group["name"] == name), {})
        if not within:
            within["name"] = name
            groups.append(within)
    return within


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
