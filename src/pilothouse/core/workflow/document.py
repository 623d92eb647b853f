"""The workflow: an editable DAG of blocks and edges, as frozen values and as the plain data that clients see.

A block is a job of a plan file before it runs, an edge is a dependency between two. Owns the shape alone: how data is
read is in ``reading``, what makes a workflow right in ``to_plan``.
"""

from __future__ import annotations

from typing import Any

import msgspec

JOIN = "join"
"""The type of a block that does no work: it brings the blocks before it together."""


class Position(msgspec.Struct, frozen=True):
    """Where a block is drawn."""

    x: float
    y: float


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """``id`` is unique in its workflow and becomes the producer id of a job; ``a/b/id`` stands in the group ``a/b``.

    ``type`` is ``join`` or a type of work, ``config`` the fields of that work, ``fields`` the other fields of the job
    (``name``, ``task``, ``prechecks`` …), both in camelCase and as their author wrote them.
    """

    id: str
    type: str
    fields: dict[str, Any] = {}
    config: dict[str, Any] = {}
    position: Position | None = None


class Edge(msgspec.Struct, frozen=True):
    """``target`` begins when ``source`` has succeeded. Of edges to one target the order is that of its merges."""

    source: str
    target: str


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """``options`` are the fields of a plan file beside its name and its jobs. May be empty: it is a draft."""

    name: str
    blocks: tuple[Block, ...] = ()
    edges: tuple[Edge, ...] = ()
    options: dict[str, Any] = {}


def workflow_data(workflow: Workflow) -> dict[str, Any]:
    """A workflow as plain data; ``reading.read_workflow`` reads it back."""
    return {
        "name": workflow.name,
        "blocks": [block_data(block) for block in workflow.blocks],
        "edges": [edge_data(edge) for edge in workflow.edges],
        "options": workflow.options,
    }


def block_data(block: Block) -> dict[str, Any]:
    data: dict[str, Any] = {"id": block.id, "type": block.type, **block.fields}
    if block.config:
        data["config"] = block.config
    if block.position is not None:
        data["position"] = {"x": block.position.x, "y": block.position.y}
    return data


def edge_data(edge: Edge) -> dict[str, str]:
    return {"source": edge.source, "target": edge.target}
