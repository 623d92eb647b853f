"""Run the simulation: ``python -m tests.simulation [N] [--seed S] [--from S] [--jobs J] [--verbose]``.

One seed replays one run exactly, and says what happened and what was recorded.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from collections.abc import Iterator

from tests.simulation.run import simulate

_CHUNK = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description="Seeded simulation of the whole engine.")
    parser.add_argument("count", nargs="?", type=int, default=10_000, help="how many seeds (default: 10,000)")
    parser.add_argument("--seed", type=int, help="this seed alone, told in full")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--verbose", action="store_true", help="tell every failing seed in full")
    given = parser.parse_args()
    if given.seed is not None:
        result = simulate(given.seed)
        say(result.story())
        say(f"\n{result.virtual_s:.1f} simulated seconds, log {result.fingerprint}")
        return int(result.broken is not None)
    chunks = [
        (first, min(first + _CHUNK, given.first + given.count))
        for first in range(given.first, given.first + given.count, _CHUNK)
    ]
    started, done, failed = time.monotonic(), 0, 0
    for ran, broken in _results(chunks, given.jobs):
        done += ran
        for seed, what in broken:
            failed += 1
            say(f"seed {seed}: {what}")
            if given.verbose:
                say(simulate(seed).story())
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} seeds, {failed} failed, {done / (time.monotonic() - started):.0f}/s ")
    took = time.monotonic() - started
    say(
        f"{done} seeds in {took:.1f} s ({done / took:.0f}/s), {failed} failed"
        + (": replay with --seed S" if failed else "")
    )
    return int(failed > 0)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


Chunk = tuple[int, int]
Report = tuple[int, list[tuple[int, str]]]
"""How many seeds were run, and what broke by seed."""


def _results(chunks: list[Chunk], jobs: int) -> Iterator[Report]:
    if jobs <= 1 or len(chunks) == 1:
        yield from map(_run_chunk, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_run_chunk, chunks)


def _run_chunk(chunk: Chunk) -> Report:
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


if __name__ == "__main__":
    sys.exit(main())
