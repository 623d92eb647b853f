"""A figure: what we take beside what its floor takes, measured in turns, and the target for how they compare.

Owns the arithmetic and how a figure is shown. Knows nothing of what is measured.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Unit: TypeAlias = Literal["s", "B"]


@dataclass(frozen=True, slots=True)
class AtMost:
    """Ours may take this many times as long as the floor."""

    times: float

    def compare(self, ours: Sequence[float], floor: Sequence[float]) -> tuple[str, bool]:
        ratio = statistics.median(ours) / statistics.median(floor)
        return f"{ratio:.2f} × the floor's time, target ≤ {self.times:g} ×", ratio <= self.times


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Ours is to reach this share of the floor's speed."""

    share: float

    def compare(self, ours: Sequence[float], floor: Sequence[float]) -> tuple[str, bool]:
        share = statistics.median(floor) / statistics.median(ours)
        return f"{share:.2f} of the floor's speed, target ≥ {self.share:g}", share >= self.share


@dataclass(frozen=True, slots=True)
class Within:
    """This quantile of ours is to stay below a bound, which is a promise to people: the floor only shows what of it
    the machine takes."""

    quantile: float
    seconds: float

    def compare(self, ours: Sequence[float], floor: Sequence[float]) -> tuple[str, bool]:
        found = quantile(ours, self.quantile)
        name = f"p{self.quantile * 100:g}"
        times = found / quantile(floor, self.quantile)
        text = f"{name} {times:.2f} × the floor's, and {show(found)}, target < {show(self.seconds)}"
        return text, found < self.seconds


@dataclass(frozen=True, slots=True)
class Below:
    """The median of ours is to stay below so many bytes."""

    size: float

    def compare(self, ours: Sequence[float], floor: Sequence[float]) -> tuple[str, bool]:
        found, bare = statistics.median(ours), statistics.median(floor)
        text = f"{show_bytes(found)} beside the floor's {show_bytes(bare)}, target < {show_bytes(self.size)}"
        return text, found < self.size


@dataclass(frozen=True, slots=True)
class Reported:
    """No target: shown for comparison."""

    def compare(self, ours: Sequence[float], floor: Sequence[float]) -> tuple[str, bool]:
        return f"{statistics.median(ours) / statistics.median(floor):.2f} × the floor, no target", True


@dataclass(frozen=True, slots=True)
class Figure:
    """What both sides took, in seconds or in ``unit``. ``floor_is`` says in a few words what the floor does."""

    name: str
    ours: Sequence[float]
    floor: Sequence[float]
    floor_is: str
    target: AtMost | AtLeast | Within | Below | Reported
    note: str = ""
    unit: Unit = "s"

    @property
    def met(self) -> bool:
        return self.target.compare(self.ours, self.floor)[1]

    def text(self) -> str:
        said, met = self.target.compare(self.ours, self.floor)
        verdict = "" if isinstance(self.target, Reported) else f": {'met' if met else 'below target'}"
        lines = [
            f"{self.name}",
            f"  ours   {spread(self.ours, self.unit)}",
            f"  floor  {spread(self.floor, self.unit)}   {self.floor_is}",
            f"  {said}{verdict}",
        ]
        return "\n".join([*lines, *([f"  ({self.note})"] if self.note else [])])

    def data(self) -> dict[str, Any]:
        said, met = self.target.compare(self.ours, self.floor)
        return {
            "name": self.name,
            "ours": list(self.ours),
            "floor": list(self.floor),
            "floorIs": self.floor_is,
            "ratio": statistics.median(self.ours) / statistics.median(self.floor),
            "said": said,
            "met": None if isinstance(self.target, Reported) else met,
            "note": self.note,
            "unit": self.unit,
        }


@dataclass(frozen=True, slots=True)
class Skipped:
    """A figure that cannot be measured here, and why."""

    name: str
    why: str

    @property
    def met(self) -> bool:
        return True

    def text(self) -> str:
        return f"{self.name}\n  skipped: {self.why}"

    def data(self) -> dict[str, Any]:
        return {"name": self.name, "skipped": self.why}


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))]


def spread(values: Sequence[float], unit: Unit = "s") -> str:
    write = show if unit == "s" else show_bytes
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"min {write(low)}  median {write(middle)}  max {write(high)}  (n={len(values)})"


def show_bytes(size: float) -> str:
    return f"{size / 1024:.3g} KiB" if size >= 1024 else f"{size:.0f} B"


def show(seconds: float) -> str:
    """With three digits, in the unit that suits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds:.0f} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def in_turns(rounds: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Measure every side once per round, so that whatever else the machine does falls on all of them; the order turns
    round each time. A side answers the seconds it took. The first round warms up and does not count."""
    taken: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + 1):
        for index, side in _order(sides, number):
            gc.collect()
            seconds = side()
            if number:
                taken[index].append(seconds)
    return taken


async def in_turns_async(rounds: int, *sides: Callable[[], Awaitable[float]]) -> list[list[float]]:
    """See ``in_turns``."""
    taken: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + 1):
        for index, side in _order(sides, number):
            gc.collect()
            seconds = await side()
            if number:
                taken[index].append(seconds)
    return taken


def _order(sides: Sequence[Any], number: int) -> list[tuple[int, Any]]:
    forwards = list(enumerate(sides))
    return forwards if number % 2 else forwards[::-1]
