"""Run the simulation: ``python -m tests.simulation [N] [--turns] [--seed S] [--from S] [--jobs J] [--verbose]``.

One seed replays one run exactly, and says what happened and what was recorded.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.batch import run_many
from tests.simulation.run import simulate
from tests.simulation.turns.run import simulate_turns


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulate", description="Seeded simulation of the whole engine.")
    parser.add_argument("count", nargs="?", type=int, default=10_000, help="how many seeds (default: 10,000)")
    parser.add_argument("--turns", action="store_true", help="turns of conversations instead of plans")
    parser.add_argument("--seed", type=int, help="this seed alone, told in full")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--verbose", action="store_true", help="tell every failing seed in full")
    given = parser.parse_args()
    one = simulate_turns if given.turns else simulate
    if given.seed is not None:
        result = one(given.seed)
        say(result.story())
        say(f"\nlog {result.fingerprint}")
        return int(result.broken is not None)
    started, done, failed = time.monotonic(), 0, 0
    for ran, broken in run_many(given.first, given.count, given.jobs, one):
        done += ran
        for seed, what in broken:
            failed += 1
            say(one(seed).story() if given.verbose else f"seed {seed}: {what}")
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} seeds, {failed} failed, {done / (time.monotonic() - started):.0f}/s ")
    took = time.monotonic() - started
    how = ": replay one with --seed" if failed else ""
    say(f"{done} seeds in {took:.1f} s ({done / took:.0f}/s), {failed} failed{how}")
    return int(failed > 0)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
