"""``python -m benchmarks [NAME…] [--quick] [--json]``: measure, and say what met its target."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator

from benchmarks.catalogue import BENCHMARKS, Shown, figures
from benchmarks.figure import Skipped


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; none: all of them")
    parser.add_argument("--quick", action="store_true", help="fewer rounds of less work: a rough answer soon")
    parser.add_argument("--json", action="store_true", help="one JSON object per figure and line")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    show(figures(given.names or list(BENCHMARKS), "quick" if given.quick else "full"), as_json=given.json)


def show(found: Iterator[Shown], *, as_json: bool) -> None:
    missed: list[str] = []
    measured = 0
    for figure in found:
        print(json.dumps(figure.data()) if as_json else f"{figure.text()}\n", flush=True)
        measured += not isinstance(figure, Skipped)
        missed += [] if figure.met else [figure.name]
    load = os.getloadavg()[0]
    print(
        f"{measured} figures, {len(missed)} below target; {os.cpu_count()} cores, load {load:.1f} at the end",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
