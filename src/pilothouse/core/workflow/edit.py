"""Editing a workflow: operations one after the other, all of them or none.

In between the workflow may be wrong, in the end it may not. What is wrong then is told in terms of the operation that
last had to do with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from pilothouse.core.plan.problems import Problem, quote, refuse
from pilothouse.core.workflow.changes import Changes, changes_between
from pilothouse.core.workflow.document import Block, Edge, Workflow, block_data
from pilothouse.core.workflow.operations import (
    AddBlock,
    Connect,
    Disconnect,
    Operation,
    RemoveBlock,
    Rename,
    RenameBlock,
    SetOptions,
    UpdateBlock,
)
from pilothouse.core.workflow.reading import mapping, near, read_block, read_options, spelt
from pilothouse.core.workflow.shape import Where
from pilothouse.core.workflow.to_plan import check_workflow


def edit(workflow: Workflow, operations: Sequence[Operation]) -> tuple[Workflow, Changes]:
    """The workflow after ``operations``, and what they changed. Raises ``BadInput`` naming the operation; nothing was
    done then."""
    draft = _Draft(workflow)
    for index, operation in enumerate(operations):
        draft.perform(operation, f"operations[{index}]")
    edited = draft.workflow()
    check_workflow(edited, draft.where())
    return edited, changes_between(workflow, edited, draft.renamed)


class _Draft:
    """A workflow taken apart. Beside each part stands the place, among the operations, that last touched it."""

    def __init__(self, workflow: Workflow) -> None:
        self.blocks = {block.id: block for block in workflow.blocks}
        self.edges = dict.fromkeys(workflow.edges)
        self.options = dict(workflow.options)
        self.name = workflow.name
        self.renamed: dict[str, str] = {}
        """The id that a block had at first, by the one it has now."""
        self._at_block: dict[str, str] = {}
        self._at_edge: dict[Edge, str] = {}
        self._at_option: dict[str, str] = {}
        self._at_name = "name"

    def workflow(self) -> Workflow:
        return Workflow(
            name=self.name, blocks=tuple(self.blocks.values()), edges=tuple(self.edges), options=self.options
        )

    def where(self) -> Where:
        return Where(
            blocks=[self._at_block.get(id, f"blocks[{index}]") for index, id in enumerate(self.blocks)],
            edges=[self._at_edge.get(edge, f"edges[{index}]") for index, edge in enumerate(self.edges)],
            options=self._at_option,
            name=self._at_name,
        )

    def perform(self, operation: Operation, at: str) -> None:
        match operation:
            case AddBlock():
                self._add(operation, at)
            case UpdateBlock():
                self._update(operation, at)
            case RemoveBlock():
                self._remove(self._block(operation.id, f"{at}.id"))
            case RenameBlock():
                self._rename(self._block(operation.id, f"{at}.id"), operation.to, at)
            case Connect():
                self._connect(Edge(operation.source, operation.target), at)
            case Disconnect():
                self._disconnect(Edge(operation.source, operation.target), at)
            case SetOptions():
                self.options = _merged(self.options, operation.set, f"{at}.set")
                read_options(self.options, f"{at}.set")
                self._at_option |= {name: f"{at}.set.{name}" for name in spelt(operation.set, at, nulls=True)}
            case Rename():
                self.name, self._at_name = operation.to, f"{at}.to"

    def _add(self, operation: AddBlock, at: str) -> None:
        block = read_block(operation.block, f"{at}.block")
        self._free(block.id, f"{at}.block.id")
        self.blocks[block.id] = block
        self._at_block[block.id] = f"{at}.block"
        for index, source in enumerate(operation.after):
            self._connect(Edge(self._block(source, f"{at}.after[{index}]").id, block.id), f"{at}.after[{index}]")

    def _update(self, operation: UpdateBlock, at: str) -> None:
        block = self._block(operation.id, f"{at}.id")
        given = spelt(operation.set, f"{at}.set", nulls=True)
        if given.get("id", block.id) != block.id:
            raise refuse([Problem(f"{at}.set.id", "an update does not change the id", "use rename_block")])
        data = block_data(block)
        if given.get("type", block.type) != block.type:
            data.pop("config", None)
        if (config := given.get("config")) is not None:
            here = f"{at}.set.config"
            given["config"] = _merged(data.get("config", {}), mapping(config, here), here)
        self.blocks[block.id] = read_block(data | given, f"{at}.set")
        self._at_block[block.id] = f"{at}.set"

    def _remove(self, block: Block) -> None:
        del self.blocks[block.id]
        self.edges = dict.fromkeys(edge for edge in self.edges if block.id not in (edge.source, edge.target))
        self.renamed.pop(block.id, None)

    def _rename(self, block: Block, to: str, at: str) -> None:
        if to == block.id:
            return
        self._free(to, f"{at}.to")

        def name(id: str) -> str:
            return to if id == block.id else id

        renamed = msgspec.structs.replace(block, id=to)
        self.blocks = {name(id): renamed if id == block.id else one for id, one in self.blocks.items()}
        moved = {edge: Edge(name(edge.source), name(edge.target)) for edge in self.edges}
        self.edges = dict.fromkeys(moved.values())
        self._at_edge = {moved[edge]: place for edge, place in self._at_edge.items() if edge in moved}
        self._at_block[to] = at
        self.renamed[to] = self.renamed.pop(block.id, block.id)

    def _connect(self, edge: Edge, at: str) -> None:
        for end, id in (("source", edge.source), ("target", edge.target)):
            self._block(id, f"{at}.{end}")
        if edge in self.edges:
            message = f"{quote(edge.source)} and {quote(edge.target)} are connected already"
            raise refuse([Problem(at, message, "leave this out")])
        self.edges[edge] = None
        self._at_edge[edge] = at

    def _disconnect(self, edge: Edge, at: str) -> None:
        if edge not in self.edges:
            message = f"{quote(edge.source)} and {quote(edge.target)} are not connected"
            raise refuse([Problem(at, message, self._edges_at(edge))])
        del self.edges[edge]

    def _edges_at(self, wanted: Edge) -> str:
        if Edge(wanted.target, wanted.source) in self.edges:
            return "the edge goes the other way"
        sources = [edge.source for edge in self.edges if edge.target == wanted.target]
        return f"{quote(wanted.target)} depends on {_shown(sources)}" if sources else "leave this out"

    def _block(self, id: str, at: str) -> Block:
        found = self.blocks.get(id)
        if found is None:
            fix = near(id, self.blocks) if self.blocks else "add it first"
            raise refuse([Problem(at, f"there is no block {quote(id)}", fix)])
        return found

    def _free(self, id: str, at: str) -> None:
        if id in self.blocks:
            raise refuse([Problem(at, f"there is a block {quote(id)} already", "give it another id")])


def _merged(old: dict[str, Any], new: dict[str, Any], at: str) -> dict[str, Any]:
    merged = old | spelt(new, at, nulls=True)
    return {name: value for name, value in merged.items() if value is not None}


def _shown(ids: Iterable[str]) -> str:
    return ", ".join(quote(id) for id in list(ids)[:5])
