"""Whether two states of a plan are the same, and where they differ."""

from __future__ import annotations

from dataclasses import fields

from pilothouse.core.plan.state import PlanState


def differences(one: PlanState, other: PlanState) -> str:
    """The names of the fields that differ; empty when none does."""
    found = [
        field.name
        for field in fields(PlanState)
        if field.name not in ("ready", "groups", "counts") and getattr(one, field.name) != getattr(other, field.name)
    ]
    if {k: v for k, v in one.counts.items() if v} != {k: v for k, v in other.counts.items() if v}:
        found.append("counts")
    if one.ready.first(len(one.nodes)) != other.ready.first(len(other.nodes)):
        found.append("ready")
    if one.groups is not None and other.groups is not None and list(one.groups.items()) != list(other.groups.items()):
        found.append("groups")
    return ", ".join(found)
