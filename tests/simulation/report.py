"""The frame in which a seed runs, and what is told of it afterwards. Knows neither plans nor turns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Generic, Protocol, TypeVar

from tests.simulation.loop import Deadlock, Exhausted, VirtualLoop

from pilothouse.core.run.events import Recorded
from pilothouse.core.run.segments import Segment
from pilothouse.engine.kinds import REGISTRY


class _Watch(Protocol):
    def broken(self, why: str) -> None: ...


class _World(Protocol):
    """What is needed of either world."""

    told: list[str]

    @property
    def disk(self) -> Any: ...

    @property
    def watch(self) -> _Watch: ...

    def tell(self, what: str) -> None: ...


W = TypeVar("W", bound=_World)


@dataclass
class Report(Generic[W]):
    """``broken`` is the first promise that was broken, None when all were kept."""

    seed: int
    broken: str | None
    world: W

    @property
    def fingerprint(self) -> str:
        """The log, byte for byte."""
        digest = sha256()
        for segment in self.world.disk.log:
            digest.update(f"{segment.position} {segment.run_id} {segment.first_seq} {segment.at}\n".encode())
            digest.update(segment.body)
        return digest.hexdigest()

    def story(self) -> str:
        """What happened, and the log of every run."""
        lines = [f"seed {self.seed}: {self.broken or 'all promises kept'}", "", *self.world.told, ""]
        for run_id, run in self.world.disk.runs.items():
            lines.append(f"{run_id} ({run.row.lifecycle})")
            for recorded in recorded_in(run.segments):
                fields = {n: getattr(recorded.event, n) for n in recorded.event.__struct_fields__ if n != "plan"}
                said = " ".join(f"{name}={value}" for name, value in fields.items() if value not in ("", None, (), {}))
                at = (recorded.at - 1_700_000_000_000) / 1000
                lines.append(f"{at:9.3f}  {recorded.seq:4} {recorded.event.type_name()} {said}")
        return "\n".join(lines)


def recorded_in(segments: Iterable[Segment]) -> list[Recorded]:
    return [
        Recorded(segment.run_id, segment.first_seq + index, segment.at, event)
        for segment in segments
        for index, event in enumerate(REGISTRY.decode(segment.body))
    ]


Meant = Callable[[logging.LogRecord, BaseException | None], bool]
"""Whether what the server's own log says is no bug."""


class _Listener(logging.Handler):
    """The engine says in the server's own log when it met a bug."""

    def __init__(self, world: _World, meant: Meant) -> None:
        super().__init__()
        self._world = world
        self._meant = meant

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        said = f"{record.getMessage()}: {error!r}"
        self._world.tell(f"server log: {said}")
        if not self._meant(record, error):
            self._world.watch.broken(said)


@contextmanager
def watched(world: _World, loop: VirtualLoop, meant: Meant) -> Iterator[None]:
    """Whatever goes wrong within breaks a promise: a server that gets stuck, a bug in its log, an error nobody took."""
    listener = _Listener(world, meant)
    logger = logging.getLogger("pilothouse")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(listener)
    try:
        yield
    except (Deadlock, Exhausted) as stuck:
        world.watch.broken(str(stuck))
    except Exception as error:
        world.watch.broken(f"the simulation itself failed: {error!r}")
        raise
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagate
    for told in loop.errors:
        world.watch.broken(f"unhandled: {told.get('message')}: {told.get('exception')!r}")
