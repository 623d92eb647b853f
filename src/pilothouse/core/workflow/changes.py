"""What became of a workflow from one version to the next, by name. How it came about does not count."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from pilothouse.core.workflow.document import Edge, Workflow


class Renamed(msgspec.Struct, frozen=True, kw_only=True):
    """A block that has another id now."""

    before: str
    after: str


class Changes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Blocks by id, options by name. Edges that only follow a renamed block have not changed."""

    blocks_added: tuple[str, ...] = ()
    blocks_updated: tuple[str, ...] = ()
    blocks_removed: tuple[str, ...] = ()
    blocks_renamed: tuple[Renamed, ...] = ()
    edges_added: tuple[Edge, ...] = ()
    edges_removed: tuple[Edge, ...] = ()
    options_changed: tuple[str, ...] = ()
    renamed: bool = False
    """The workflow has another name."""
    reordered: bool = False
    """Blocks or edges stand in another order. That of blocks says what starts first, that of edges what is merged
    first."""


def changes_between(before: Workflow, after: Workflow, renamed: Mapping[str, str] = MappingProxyType({})) -> Changes:
    """``renamed`` is the id that a block had before, by the one it has after."""
    old = {block.id: block for block in before.blocks}
    new = {block.id: block for block in after.blocks}
    moved_away = frozenset(renamed.values())
    was = {id: renamed.get(id, id) for id in new if id in renamed or id not in moved_away}
    was = {id: first for id, first in was.items() if first in old}
    now = {first: id for id, first in was.items()}
    # What an edge of before is called after; None when a block at one of its ends is gone.
    called = [
        Edge(now[edge.source], now[edge.target]) if edge.source in now and edge.target in now else None
        for edge in before.edges
    ]
    old_edges, new_edges = frozenset(called), frozenset(after.edges)
    options = {**before.options, **after.options}
    return Changes(
        blocks_added=tuple(id for id in new if id not in was),
        blocks_updated=tuple(id for id in was if msgspec.structs.replace(old[was[id]], id=id) != new[id]),
        blocks_removed=tuple(id for id in old if id not in now),
        blocks_renamed=tuple(Renamed(before=first, after=id) for id, first in was.items() if first != id),
        edges_added=tuple(edge for edge in after.edges if edge not in old_edges),
        edges_removed=tuple(
            edge or was_called for edge, was_called in zip(called, before.edges, strict=True) if edge not in new_edges
        ),
        options_changed=tuple(name for name in options if before.options.get(name) != after.options.get(name)),
        renamed=before.name != after.name,
        reordered=[now[id] for id in old if id in now] != list(was)
        or [edge for edge in called if edge in new_edges] != [edge for edge in after.edges if edge in old_edges],
    )
