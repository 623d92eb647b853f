"""Which ready nodes start next, and how many: the scheduler's order and its arithmetic.

Knows nothing of states or events: whoever folds them adds a node when it becomes ready and discards it when it
no longer is. ``ReadyQueue`` changes in place and belongs to that fold; everything else here is a plain function.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

import msgspec

from pilothouse.core.plan.build import Node


class Rank(msgspec.Struct, frozen=True, order=True):
    """Lower starts sooner: what unlocks most work, then what is tried again, then what was declared first."""

    minus_dependents: int
    first_try: bool
    order: int
    node: str


def rank(node: Node, *, retry: bool = False) -> Rank:
    """``retry`` is true for a node that has had an attempt before."""
    return Rank(-len(node.dependents), not retry, node.order, node.id)


def free_slots(max_parallel: int, running: int, global_max: int, global_running: int) -> int:
    """How many more working nodes of one plan may start: ``min(plan max − running, global max − running)``.

    ``max_parallel`` 0 sets no limit for the plan; the global one always holds. Never negative. The running
    numbers count scheduled and running nodes that hold a slot: not coordination nodes, not those that wait for
    a person.
    """
    free = global_max - global_running
    if max_parallel:
        free = min(free, max_parallel - running)
    return max(0, free)


def select(ready: Iterable[Node], slots: int, retries: frozenset[str] = frozenset()) -> list[Node]:
    """What ``ReadyQueue.first`` would answer, from scratch."""
    ordered = sorted(ready, key=lambda node: rank(node, retry=node.id in retries))
    working = [node for node in ordered if not node.is_coordination]
    return [node for node in ordered if node.is_coordination] + working[: max(0, slots)]


class ReadyQueue:
    """The ready nodes of one plan in starting order."""

    def __init__(self) -> None:
        self._working = _LazyHeap()
        self._coordination = _LazyHeap()

    def __len__(self) -> int:
        return len(self._working.live) + len(self._coordination.live)

    @property
    def working(self) -> int:
        """How many of them need a slot."""
        return len(self._working.live)

    def __contains__(self, node: object) -> bool:
        return node in self._working.live or node in self._coordination.live

    def add(self, node: Node, *, retry: bool = False) -> None:
        """A node that is in already is only ranked anew."""
        heap = self._coordination if node.is_coordination else self._working
        heap.add(rank(node, retry=retry))

    def discard(self, node: str) -> None:
        """Forget a node by id; one that is not in is no error."""
        self._working.discard(node)
        self._coordination.discard(node)

    def first(self, slots: int) -> list[str]:
        """The ids to start now, best first: every coordination node, for they need no slot, then at most
        ``slots`` others. Nothing is removed. O(n log ready) for n answers, amortised."""
        joins = len(self._coordination.live)
        return self._coordination.first(joins) + self._working.first(slots) if joins or slots > 0 else []


class _LazyHeap:
    """A heap whose entries are removed by forgetting them, and skipped when they surface."""

    def __init__(self) -> None:
        self._heap: list[Rank] = []
        self._live: dict[str, Rank] = {}

    @property
    def live(self) -> Mapping[str, Rank]:
        return self._live

    def add(self, entry: Rank) -> None:
        if self._live.get(entry.node) == entry:
            return
        self._live[entry.node] = entry
        heapq.heappush(self._heap, entry)
        # Without this, nodes that come and go without ever surfacing would be kept for ever.
        if len(self._heap) > 2 * len(self._live) + 16:
            self._heap = list(self._live.values())
            heapq.heapify(self._heap)

    def discard(self, node: str) -> None:
        self._live.pop(node, None)

    def first(self, count: int) -> list[str]:
        kept: dict[str, Rank] = {}
        while self._heap and len(kept) < count:
            entry = heapq.heappop(self._heap)
            # Equal entries can be in the heap twice, when a node was discarded and added again.
            if self._live.get(entry.node) == entry:
                kept[entry.node] = entry
        for entry in kept.values():
            heapq.heappush(self._heap, entry)
        return list(kept)
