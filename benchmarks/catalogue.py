"""Every benchmark by name. A new one is one line here; each is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Literal, TypeAlias

from benchmarks.figure import Figure, Skipped

BENCHMARKS = {
    "plan-fanout": ("benchmarks.plan_fanout", "benchmarks.node_start", "benchmarks.handover"),
    "scheduler": ("benchmarks.scheduler",),
    "log": ("benchmarks.log",),
    "stop": ("benchmarks.stop",),
    "chat-stream": ("benchmarks.chat_stream", "benchmarks.chat_latency", "benchmarks.chat_memory"),
    "sse-fanout": ("benchmarks.sse_fanout",),
    "startup": ("benchmarks.startup",),
}
"""Name → modules, each with ``measure(size) -> Iterator[Figure | Skipped]``."""

Size: TypeAlias = Literal["full", "quick", "tiny"]
"""How much is measured; ``tiny`` only proves that a benchmark runs."""

Shown: TypeAlias = Figure | Skipped


def figures(names: Iterable[str], size: Size) -> Iterator[Shown]:
    """The figures of some benchmarks, each as soon as it is there."""
    for name in names:
        for module in BENCHMARKS[name]:
            yield from import_module(module).measure(size)
