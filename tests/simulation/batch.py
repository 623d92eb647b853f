"""Many seeds, in one process or several."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.run import simulate

_CHUNK = 100

Report = tuple[int, list[tuple[int, str]]]
"""How many seeds were run, and what broke by seed."""


def run_many(first: int, count: int, jobs: int) -> Iterator[Report]:
    """Chunk by chunk, in the order of the seeds."""
    chunks = [(start, min(start + _CHUNK, first + count)) for start in range(first, first + count, _CHUNK)]
    if jobs <= 1 or len(chunks) == 1:
        yield from map(_run_chunk, chunks)
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_run_chunk, chunks)


def _run_chunk(chunk: tuple[int, int]) -> Report:
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
