"""Many seeds, in one process or several."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Protocol

_CHUNK = 100

Report = tuple[int, list[tuple[int, str]]]
"""How many seeds were run, and what broke by seed."""


class Kept(Protocol):
    """What came of a seed."""

    @property
    def broken(self) -> str | None: ...


def run_many(first: int, count: int, jobs: int, simulate: Callable[[int], Kept]) -> Iterator[Report]:
    """Chunk by chunk, in the order of the seeds."""
    chunks = [(start, min(start + _CHUNK, first + count)) for start in range(first, first + count, _CHUNK)]
    if jobs <= 1 or len(chunks) == 1:
        yield from map(partial(_run_chunk, simulate), chunks)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(partial(_run_chunk, simulate), chunks)


def _run_chunk(simulate: Callable[[int], Kept], chunk: tuple[int, int]) -> Report:
    """Garbage is collected between chunks only: a run is over long before it would pay."""
    broken: list[tuple[int, str]] = []
    gc.disable()
    try:
        for seed in range(*chunk):
            result = simulate(seed)
            if result.broken is not None:
                broken.append((seed, result.broken))
    finally:
        gc.enable()
        gc.collect()
    return chunk[1] - chunk[0], broken
