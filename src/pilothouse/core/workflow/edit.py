"""Editing a workflow: operations one after the other, all of them or none.

In between the workflow may be wrong, in the end it may not. What is wrong then is told in terms of the operation that
last had to do with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from pilothouse.core.plan.problems import Problem, quote, refuse
from pilothouse.core.workflow.changes import Changes, changes_between
from pilothouse.core.workflow.document import Edge, Workflow, block_data
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
    return edited, changes_between(workflow, edited, draft.renamed())


_Link: TypeAlias = tuple[int, int]
"""An edge between two handles."""


class _Draft:
    """A workflow taken apart. Each block has a handle, a number that outlives a change of its id and is never given
    again: so renaming touches no edge, and the edges of a removed block are those with a dead handle.

    Beside each part stands the place, among the operations, that last touched it."""

    def __init__(self, workflow: Workflow) -> None:
        self._before = workflow
        self._blocks = dict(enumerate(workflow.blocks))
        self._handles = {block.id: handle for handle, block in self._blocks.items()}
        self._next_handle = len(self._blocks)
        self._links = {self._link(edge): "" for edge in workflow.edges}
        self._at_block: dict[int, str] = {}
        self._options = dict(workflow.options)
        self._at_option: dict[str, str] = {}
        self._name, self._at_name = workflow.name, "name"

    def workflow(self) -> Workflow:
        ids = {handle: block.id for handle, block in self._blocks.items()}
        return Workflow(
            name=self._name,
            blocks=tuple(self._blocks.values()),
            edges=tuple(Edge(ids[source], ids[target]) for source, target in self._living_links()),
            options=self._options,
        )

    def where(self) -> Where:
        return Where(
            blocks=[self._at_block.get(handle, f"blocks[{index}]") for index, handle in enumerate(self._blocks)],
            edges=[self._links[link] or f"edges[{index}]" for index, link in enumerate(self._living_links())],
            options=self._at_option,
            name=self._at_name,
        )

    def renamed(self) -> dict[str, str]:
        """The id that a block had at first, by the one it has now."""
        first = enumerate(self._before.blocks)
        return {
            self._blocks[handle].id: block.id
            for handle, block in first
            if handle in self._blocks and self._blocks[handle].id != block.id
        }

    def perform(self, operation: Operation, at: str) -> None:
        match operation:
            case AddBlock():
                self._add(operation, at)
            case UpdateBlock():
                self._update(operation, at)
            case RemoveBlock(id=id):
                del self._blocks[self._handle(id, f"{at}.id")], self._handles[id]
            case RenameBlock(id=id, to=to):
                self._rename(self._handle(id, f"{at}.id"), to, at)
            case Connect(source=source, target=target):
                self._connect(Edge(source, target), at)
            case Disconnect(source=source, target=target):
                self._disconnect(Edge(source, target), at)
            case SetOptions(set=options):
                self._set_options(options, f"{at}.set")
            case Rename(to=to):
                self._name, self._at_name = to, f"{at}.to"

    def _add(self, operation: AddBlock, at: str) -> None:
        block = read_block(operation.block, f"{at}.block")
        self._check_free(block.id, f"{at}.block.id")
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._blocks[handle], self._handles[block.id] = block, handle
        self._at_block[handle] = f"{at}.block"
        for index, source in enumerate(operation.after):
            here = f"{at}.after[{index}]"
            self._handle(source, here)
            self._connect(Edge(source, block.id), here)

    def _update(self, operation: UpdateBlock, at: str) -> None:
        handle = self._handle(operation.id, f"{at}.id")
        block, here = self._blocks[handle], f"{at}.set"
        given = spelt(operation.set, here, nulls=True)
        if given.get("id", block.id) != block.id:
            raise refuse([Problem(f"{here}.id", "an update does not change the id", "use rename_block")])
        data = block_data(block)
        if given.get("type", block.type) != block.type:
            data.pop("config", None)
        if (config := given.get("config")) is not None:
            given["config"] = _merged(data.get("config", {}), mapping(config, f"{here}.config"), f"{here}.config")
        self._blocks[handle] = read_block(data | given, here)
        self._at_block[handle] = here

    def _rename(self, handle: int, to: str, at: str) -> None:
        block = self._blocks[handle]
        if to == block.id:
            return
        self._check_free(to, f"{at}.to")
        del self._handles[block.id]
        self._handles[to] = handle
        self._blocks[handle] = msgspec.structs.replace(block, id=to)
        self._at_block[handle] = at

    def _connect(self, edge: Edge, at: str) -> None:
        link = self._link(edge, at)
        if link in self._links:
            message = f"{quote(edge.source)} and {quote(edge.target)} are connected already"
            raise refuse([Problem(at, message, "leave this out")])
        self._links[link] = at

    def _disconnect(self, edge: Edge, at: str) -> None:
        source, target = link = self._link(edge, at)
        if link not in self._links:
            message = f"{quote(edge.source)} and {quote(edge.target)} are not connected"
            fix = "the edge goes the other way" if (target, source) in self._links else "leave this out"
            raise refuse([Problem(at, message, fix)])
        del self._links[link]

    def _set_options(self, given: dict[str, Any], at: str) -> None:
        self._options = read_options(_merged(self._options, given, at), at)
        self._at_option |= {name: f"{at}.{name}" for name in self._options if name in spelt(given, at)}

    def _living_links(self) -> Iterator[_Link]:
        return (link for link in self._links if link[0] in self._blocks and link[1] in self._blocks)

    def _link(self, edge: Edge, at: str = "") -> _Link:
        return self._handle(edge.source, f"{at}.source"), self._handle(edge.target, f"{at}.target")

    def _handle(self, id: str, at: str) -> int:
        found = self._handles.get(id)
        if found is None:
            fix = near(id, self._handles) if self._handles else "add it first"
            raise refuse([Problem(at, f"there is no block {quote(id)}", fix)])
        return found

    def _check_free(self, id: str, at: str) -> None:
        if id in self._handles:
            raise refuse([Problem(at, f"there is a block {quote(id)} already", "give it another id")])


def _merged(old: dict[str, Any], new: dict[str, Any], at: str) -> dict[str, Any]:
    merged = old | spelt(new, at, nulls=True)
    return {name: value for name, value in merged.items() if value is not None}
