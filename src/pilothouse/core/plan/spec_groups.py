"""Nested groups in a plan file: what a job inside one is called outside, what a name inside one means, and how jobs
that were flattened are written in groups again.

Outside, a job is ``<group path>/<its id>``. Knows nothing of the other fields of a job.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


def qualified(scope: str, name: str) -> str:
    """What ``name``, said inside the group ``scope``, is called outside. No group is the empty text."""
    return f"{scope}/{name}" if scope else name


def resolve(name: str, scope: str, known: Container[str]) -> str:
    """What a dependency named inside the group ``scope`` means: the nearest job of that name, looking outwards."""
    for outer in _outwards(scope):
        if (found := qualified(outer, name)) in known:
            return found
    return name


def name_inside(scope: str, job: str, known: Container[str]) -> str | None:
    """A name by which ``job`` (its outside name) can be meant inside ``scope``; None where nearer jobs hide it."""
    for outer in _outwards(scope):
        name = job.removeprefix(f"{outer}/") if outer else job
        if qualified(outer, name) == job and resolve(name, scope, known) == job:
            return name
    return None


def _outwards(scope: str) -> Iterator[str]:
    while scope:
        yield scope
        scope = scope.rpartition("/")[0]
    yield ""


@dataclass(frozen=True, slots=True)
class Grouped:
    """``fields`` are ``jobs`` and ``groups`` of a plan file. ``places`` says which job, by its index, stands at a field
    path (``groups[0].jobs[1]``), and which is the first one in a group (``groups[0]``)."""

    fields: dict[str, Any]
    places: dict[str, int]


def grouped(jobs: Sequence[tuple[str, dict[str, Any]]]) -> Grouped:
    """Jobs with their outside names, written as a plan file has them; each is given its ``producerId``.

    Reading the result back gives the same jobs in the same order if they came from a plan file, else those of one
    group stand together."""
    fields: dict[str, Any] = {"jobs": []}
    places: dict[str, int] = {}
    groups: dict[str, tuple[str, dict[str, Any]]] = {"": ("", fields)}

    def group(path: str, first: int) -> tuple[str, dict[str, Any]]:
        if path not in groups:
            outer, _, name = path.rpartition("/")
            prefix, around = group(outer, first)
            made: dict[str, Any] = {"name": name}
            siblings = around.setdefault("groups", [])
            here = f"{prefix}groups[{len(siblings)}]"
            siblings.append(made)
            places[here] = first
            groups[path] = (f"{here}.", made)
        return groups[path]

    for index, (outside, job) in enumerate(jobs):
        scope, _, name = outside.rpartition("/")
        prefix, around = group(scope, index)
        siblings = around.setdefault("jobs", [])
        places[f"{prefix}jobs[{len(siblings)}]"] = index
        siblings.append({"producerId": name, **job})
    return Grouped(fields, places)
