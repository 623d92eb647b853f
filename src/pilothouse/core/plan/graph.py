"""The shape of a plan's dependencies: are they a directed acyclic graph over known, distinct jobs?

Sees names and edges only; knows nothing of work, groups or states. Everything is iterative and linear in jobs
plus dependencies, so a chain of ten thousand jobs is no special case.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from pilothouse.core.plan.problems import Problem, listed, quote
from pilothouse.core.plan.spec import JobSpec

_NAMED = 5
"""Unknown dependencies that get a guess: guessing compares with every id, and must not become quadratic."""
_CYCLE_SHOWN = 12


def check_graph(jobs: Sequence[JobSpec], where: Sequence[str] = ()) -> list[Problem]:
    """Everything wrong with the graph, empty when it can be built.

    ``where`` gives the field path of each job as its author wrote it; by default ``jobs[i]``. Cycles are looked
    for only when all names are sound.
    """
    where = where or [f"jobs[{index}]" for index in range(len(jobs))]
    problems: list[Problem] = []
    index_of: dict[str, int] = {}
    for index, job in enumerate(jobs):
        first = index_of.setdefault(job.producer_id, index)
        if first != index:
            problems.append(
                Problem(
                    f"{where[index]}.producerId",
                    f"{quote(job.producer_id)} is used already by {where[first]}",
                    "give every job its own producerId",
                )
            )
    guesses = 0
    for index, job in enumerate(jobs):
        seen: set[str] = set()
        for position, name in enumerate(job.dependencies):
            field = f"{where[index]}.dependencies[{position}]"
            if name == job.producer_id:
                problems.append(Problem(field, f"{quote(name)} depends on itself", "remove it"))
            elif name not in index_of:
                guesses += 1
                fix = _valid_ids(name, index_of) if guesses <= _NAMED else ""
                problems.append(Problem(field, f"there is no job {quote(name)}", fix))
            elif name in seen:
                problems.append(Problem(field, f"{quote(name)} is listed twice", "remove one"))
            seen.add(name)
    if problems:
        return problems
    edges = [[index_of[name] for name in job.dependencies] for job in jobs]
    cycle = find_cycle(edges)
    if cycle is None:
        return []
    position = edges[cycle[0]].index(cycle[1 % len(cycle)])
    path = [jobs[index].producer_id for index in cycle]
    nothing_starts = "" if any(not targets for targets in edges) else ", and no job can start first"
    return [
        Problem(
            f"{where[cycle[0]]}.dependencies[{position}]",
            f"jobs depend on each other in a cycle: {arrows(path)}{nothing_starts}",
            "remove one of these dependencies",
        )
    ]


def find_cycle(edges: Sequence[Sequence[int]]) -> list[int] | None:
    """A cycle of vertices, each with an edge to the next and the last to the first; None if there is none.

    ``edges[v]`` are the vertices ``v`` points to. The cycle starts at its lowest vertex.
    """
    waiting = [len(targets) for targets in edges]
    sources: list[list[int]] = [[] for _ in edges]
    for vertex, targets in enumerate(edges):
        for target in targets:
            sources[target].append(vertex)
    done = [vertex for vertex, count in enumerate(waiting) if count == 0]
    for vertex in done:  # grows while it is walked: Kahn's algorithm
        for source in sources[vertex]:
            waiting[source] -= 1
            if waiting[source] == 0:
                done.append(source)
    if len(done) == len(edges):
        return None
    # Every vertex still waiting points to another one still waiting, so this walk must meet itself.
    vertex = next(vertex for vertex, count in enumerate(waiting) if count)
    position: dict[int, int] = {}
    walk: list[int] = []
    while vertex not in position:
        position[vertex] = len(walk)
        walk.append(vertex)
        vertex = next(target for target in edges[vertex] if waiting[target])
    cycle = walk[position[vertex] :]
    lowest = cycle.index(min(cycle))
    return cycle[lowest:] + cycle[:lowest]


def _valid_ids(name: str, index_of: Mapping[str, int]) -> str:
    nearest = difflib.get_close_matches(name, index_of, n=3, cutoff=0.6)
    others = [known for known in index_of if known not in nearest]
    return f"valid ids: {listed(nearest + others)}"


def arrows(path: Sequence[str]) -> str:
    """A cycle in words, closed, and bounded however long it is."""
    closed = [*path, path[0]]
    if len(closed) <= _CYCLE_SHOWN:
        return " → ".join(closed)
    half = _CYCLE_SHOWN // 2
    hidden = len(closed) - 2 * half
    return " → ".join([*closed[:half], f"… ({hidden} more)", *closed[-half:]])
