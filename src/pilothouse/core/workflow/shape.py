"""Whether blocks and edges form a graph that can be run: known, distinct ends and no cycle.

The same questions as a plan's graph is asked, answered in terms of blocks and edges. Knows nothing of what blocks hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pilothouse.core.plan.graph import arrows, find_cycle
from pilothouse.core.plan.problems import SHOWN, Problem, quote
from pilothouse.core.plan.spec_file import MAX_GROUP_DEPTH
from pilothouse.core.workflow.document import Workflow
from pilothouse.core.workflow.reading import near


@dataclass(frozen=True, slots=True)
class Where:
    """What the parts of a workflow are called in messages: field paths in the terms of whoever wrote them."""

    blocks: Sequence[str]
    edges: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)
    """By name; others are called ``options.<name>``."""
    name: str = "name"


def in_document(workflow: Workflow) -> Where:
    """The parts by their place in the document."""
    return Where(
        blocks=[f"blocks[{index}]" for index in range(len(workflow.blocks))],
        edges=[f"edges[{index}]" for index in range(len(workflow.edges))],
    )


def check_shape(workflow: Workflow, where: Where) -> list[Problem]:
    """Everything wrong with the graph. Cycles are looked for only when all names are sound."""
    problems: list[Problem] = []
    index_of: dict[str, int] = {}
    for index, block in enumerate(workflow.blocks):
        if index_of.setdefault(block.id, index) != index:
            message = f"there are two blocks {quote(block.id)}"
            problems.append(Problem(f"{where.blocks[index]}.id", message, "give every block its own id"))
        if block.id.count("/") > MAX_GROUP_DEPTH:
            message = f"block {quote(block.id)} is nested more than {MAX_GROUP_DEPTH} groups deep"
            problems.append(Problem(f"{where.blocks[index]}.id", message, "shorten its id"))
    seen: set[tuple[str, str]] = set()
    for index, edge in enumerate(workflow.edges):
        at = where.edges[index]
        for end, name in (("source", edge.source), ("target", edge.target)):
            if name not in index_of:
                fix = near(name, index_of) if len(problems) < SHOWN else ""  # a guess compares with every id
                problems.append(Problem(f"{at}.{end}", f"there is no block {quote(name)}", fix))
        if edge.source == edge.target:
            problems.append(Problem(at, f"block {quote(edge.source)} is connected with itself", "remove this edge"))
        elif (edge.source, edge.target) in seen:
            message = f"{quote(edge.source)} and {quote(edge.target)} are connected already"
            problems.append(Problem(at, message, "remove one of these edges"))
        seen.add((edge.source, edge.target))
    return problems or _cycle(workflow, where, index_of)


def _cycle(workflow: Workflow, where: Where, index_of: Mapping[str, int]) -> list[Problem]:
    targets: list[list[int]] = [[] for _ in workflow.blocks]
    edge_of: dict[tuple[int, int], int] = {}
    for index, edge in enumerate(workflow.edges):
        source, target = index_of[edge.source], index_of[edge.target]
        targets[source].append(target)
        edge_of[source, target] = index
    cycle = find_cycle(targets)
    if cycle is None:
        return []
    # The edge that came last is the one that closed the cycle, if the blocks were connected one by one.
    newest = max(edge_of[one, next_] for one, next_ in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    path = arrows([workflow.blocks[index].id for index in cycle])
    closing = workflow.edges[newest]
    return [
        Problem(
            where.edges[newest],
            f"the blocks form a cycle: {path}",
            f"take away {quote(closing.source)} → {quote(closing.target)}, or another of these edges",
        )
    ]
