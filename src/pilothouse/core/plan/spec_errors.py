"""Pydantic's complaints about a plan file, put into words that name the field and the fix.

Knows how pydantic reports, and the words; the fields themselves are listed in ``spec_file``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from pilothouse.core.plan.problems import Problem, field_path, listed, quote
from pilothouse.core.plan.spec_file import (
    AgentFile,
    BudgetFile,
    Fields,
    GroupFile,
    JobFile,
    PlanFile,
    ProcessFile,
    SandboxFile,
    ShellFile,
)

_WORK_MODELS: Mapping[str, type[Fields]] = {"process": ProcessFile, "shell": ShellFile, "agent": AgentFile}
_NESTED: Mapping[str, type[Fields]] = {"budget": BudgetFile, "sandbox": SandboxFile}
_WORK_FIELDS = ("work", "prechecks", "postchecks")
_UNBUILT_TYPES = ("tool", "task")
_UNBUILT_VALUES = {"shell": ("cmd", "powershell", "pwsh"), "onInterrupted": ("resume",)}

_MEANT = {
    "cmd": "command",
    "concurrency": "maxParallel",
    "dependsOn": "dependencies",
    "description": "task",
    "depends": "dependencies",
    "id": "producerId",
    "needs": "dependencies",
    "nodes": "jobs",
    "prompt": "instructions",
    "repo": "repoPath",
    "run": "command",
    "steps": "jobs",
    "tasks": "jobs",
    "target": "targetBranch",
}
"""What people write who know another tool."""


def problems_of(error: ValidationError) -> list[Problem]:
    """Every complaint as a problem, in pydantic's order."""
    return [_problem(detail) for detail in error.errors(include_url=False)]


def _problem(detail: ErrorDetails) -> Problem:
    place, models = _walk(detail["loc"])
    context: Mapping[str, Any] = detail.get("ctx", {})
    kind, value = detail["type"], detail["input"]
    if kind == "plan":
        at = [*place, context["at"]] if context["at"] else place
        return Problem(field_path(at), context["message"], context["fix"])
    field = field_path(place)
    if kind == "extra_forbidden":
        return _unknown_field(field, str(place[-1]), models)
    if kind == "union_tag_invalid":
        return _unknown_type(field, str(context["tag"]))
    if kind in ("literal_error", "enum"):
        return _unknown_value(field, str(place[-1]), value, str(context["expected"]))
    if kind == "missing":
        return Problem(field, "is required")
    if kind == "union_tag_not_found":
        return Problem(f"{field}.type", "is required", f"use one of {listed(list(_WORK_MODELS))}")
    if kind in _TYPES:
        wanted, fix = _TYPES[kind]
        if kind == "string_type" and isinstance(value, dict | list):
            fix = ""
        return Problem(field, f"must be {wanted}, not {_kind(value)}", fix)
    if kind in _BOUNDS:
        return Problem(field, _BOUNDS[kind](context, value))
    return Problem(field, detail["msg"])


_TYPES: Mapping[str, tuple[str, str]] = {
    "string_type": ("text", "put it in quotes"),
    "int_type": ("a whole number", ""),
    "float_type": ("a number", ""),
    "float_parsing": ("a number", ""),
    "finite_number": ("a finite number", ""),
    "bool_type": ("true or false", ""),
    "list_type": ("a list", "write it as [a, b]"),
    "dict_type": ("a mapping of names to values", ""),
    "model_type": ("a mapping of fields", ""),
    "model_attributes_type": ("text or a mapping of fields", ""),
}

_BOUNDS: Mapping[str, Callable[[Mapping[str, Any], Any], str]] = {
    "string_too_short": lambda c, v: "must not be empty",
    "string_too_long": lambda c, v: f"must have at most {c['max_length']:,} characters, has {len(v):,}",
    "too_long": lambda c, v: f"must have at most {c['max_length']:,} entries, has {len(v):,}",
    "greater_than": lambda c, v: f"must be more than {c['gt']:g}, is {v}",
    "greater_than_equal": lambda c, v: f"must be at least {c['ge']}, is {v}",
    "less_than_equal": lambda c, v: f"must be at most {c['le']}, is {v}",
}


def _walk(location: Sequence[str | int]) -> tuple[list[str | int], list[type[Fields]]]:
    """The path as the author knows it, without pydantic's union tags and key marks, and the models along it."""
    place: list[str | int] = []
    models: list[type[Fields]] = [PlanFile]
    for part in location:
        if part == "[key]":
            continue
        if isinstance(part, int) and place:
            if place[-1] == "jobs":
                models.append(JobFile)
            elif place[-1] == "groups":
                models.append(GroupFile)
        elif models[-1] is JobFile and place[-1] in _WORK_FIELDS and part in _WORK_MODELS:
            models.append(_WORK_MODELS[str(part)])
            continue
        elif models[-1] in (PlanFile, JobFile) and part in _NESTED:
            models.append(_NESTED[str(part)])
        place.append(part)
    return place, models


def _unknown_field(field: str, name: str, models: Sequence[type[Fields]]) -> Problem:
    model = models[-1]
    camel = to_camel(name) if "_" in name else name
    if camel in model.unbuilt:
        return Problem(field, f"{camel} is not built yet", "remove it")
    if camel == "updateCheckout" and model is PlanFile:
        return Problem(field, "is no field of a plan file", "give --update-checkout on the command line")
    known = [to_camel(known) for known in model.model_fields]
    folded = {name.lower(): name for name in [*known, *sorted(model.unbuilt)]}
    near = difflib.get_close_matches(camel.lower()[:64], folded, n=1, cutoff=0.6)
    meant = _MEANT.get(camel)
    if near:
        fix = f"did you mean {quote(folded[near[0]])}?"
    elif meant in known:
        fix = f"did you mean {quote(str(meant))}?"
    elif model is JobFile and any(camel in _all_fields(work) for work in _WORK_MODELS.values()):
        fix = "it belongs inside work"
    else:
        fix = f"known fields: {listed(known, limit=20)}"
    return Problem(field, "unknown field", fix)


def _all_fields(model: type[Fields]) -> frozenset[str]:
    return model.unbuilt | {to_camel(name) for name in model.model_fields}


def _unknown_type(field: str, tag: str) -> Problem:
    if tag in _UNBUILT_TYPES:
        return Problem(f"{field}.type", f"work of type {quote(tag)} is not built yet", "use process, shell or agent")
    near = difflib.get_close_matches(tag[:64], _WORK_MODELS, n=1)
    fix = f"did you mean {quote(near[0])}?" if near else f"use one of {listed(list(_WORK_MODELS))}"
    return Problem(f"{field}.type", f"there is no work of type {quote(tag)}", fix)


def _unknown_value(field: str, name: str, value: object, expected: str) -> Problem:
    if value in _UNBUILT_VALUES.get(name, ()):
        return Problem(field, f"{name}: {value} is not built yet", f"use {expected}")
    shown = quote(value) if isinstance(value, str) else _kind(value)
    return Problem(field, f"must be {expected}, not {shown}")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {quote(value)}"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else "nothing"
