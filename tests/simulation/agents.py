"""What the agents of a simulated plan do: drawn from their key.

They speak the line protocol, ask and wait for answers, fail, linger, and go on with conversations.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from pilothouse.adapters.agents.lines import Finished, encode
from pilothouse.adapters.work.memory import MemoryProgram
from pilothouse.core.plan.effects import AnswerAgent, RunWork
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import (
    Asked,
    FileEdited,
    News,
    Noted,
    Permissions,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.commands import Command
from pilothouse.core.run.usage import Usage

if TYPE_CHECKING:
    from tests.simulation.world import World

AGENT = "scripted"
FOR_EVER_S = 1e6
LINGER_S = 1.0
_PAUSES = (0.0, 0.0, 0.01, 0.05, 0.2, 0.5)


def agent_argv(work: RunWork, spec: AgentSpec) -> tuple[str, ...]:
    """(agent, phase, file stem, flags, conversation): flag ``a`` for one that asks."""
    stem, _, flags = spec.instructions.partition(" ")
    asks = "a" if (spec.permissions or work.permissions) is Permissions.ASK else ""
    return ("agent", str(work.phase), stem, flags + asks, work.session_id)


class SimulatedAgent:
    """One run of one agent: parts of work, with a request before each but the first."""

    def __init__(self, world: World, command: Command, key: str, write: Callable[[bool], None]) -> None:
        _, self._phase, _, flags, session = command.argv
        self._key = key
        self._random = random = Random(f"{world.seed}/{key}")
        self._write = write
        self._asks = random.choice((0, 1, 1, 2)) if "a" in flags else 0
        self._part = 0
        self._session = session or f"s-{key}"
        self._dead = bool(session) and random.random() < 0.1
        self._call = 0

    def begin(self) -> MemoryProgram:
        if self._random.random() < 0.02:
            return MemoryProgram(not_started="no such file")
        if self._dead:
            return self._program([(0.05, encode(Finished(ok=False, error="no such conversation")))], code=1)
        return self._work([(0.01, encode(SessionStarted(session_id=self._session, model="m")))])

    def answered(self, answer: AnswerAgent) -> MemoryProgram | None:
        """What it does once it has an answer; None when it does not wait for this one."""
        if answer.request_id != str(self._part):
            return None
        ended = ToolStatus.SUCCEEDED if answer.allowed else ToolStatus.DENIED
        return self._work([(0.0, encode(ToolEnded(call_id=f"a{self._part}", tool="shell", status=ended)))])

    def _work(self, begun: list[tuple[float, bytes]]) -> MemoryProgram:
        random = self._random
        pieces = [*begun, *(piece for _ in range(random.choice((1, 1, 2, 3, 6))) for piece in self._step())]
        if self._part < self._asks:
            self._part += 1
            asked = Asked(
                request_id=str(self._part), tool="shell", title=f"part {self._part}", can_remember=random.random() < 0.5
            )
            pieces.append((random.choice(_PAUSES), encode(asked)))
            return self._program(pieces, lasts=FOR_EVER_S)
        return self._end(pieces)

    def _end(self, pieces: list[tuple[float, bytes]]) -> MemoryProgram:
        random = self._random
        roll = random.random()
        pause = random.choice(_PAUSES)
        if roll < 0.06:
            why = random.choice((Finished(ok=False, error="cannot"), None))
            return self._program([*pieces, (pause, encode(why) if why else b"Traceback\n")], code=1)
        if roll < 0.18:
            passing = Finished(ok=False, transient=True, error="rate limit", retry_after_ms=random.choice((0, 0, 700)))
            return self._program([*pieces, (pause, encode(passing))], code=random.choice((0, 1)))
        if roll < 0.20:
            return self._program([*pieces, (pause, encode(Finished()))], code=1)
        if roll < 0.28:
            self._write(True)  # it is through, and lingers
            return self._program([*pieces, (pause, encode(Finished()))], lasts=FOR_EVER_S)
        return self._program([*pieces, (pause, encode(Finished()))], effect=lambda: self._write(True))

    def _program(
        self,
        pieces: list[tuple[float, bytes]],
        *,
        lasts: float = 0.0,
        code: int = 0,
        effect: Callable[[], None] | None = None,
    ) -> MemoryProgram:
        """``pieces``: (pause before it, bytes)."""
        at, output = 0.0, []
        for pause, data in pieces:
            at += pause
            output.append((at, data))
        return MemoryProgram(
            duration_s=at + lasts,
            output=tuple(output),
            errors=((0.0, b"a warning\n"),),
            code=code,
            ignores_term=self._random.random() < 0.15,
            effect=effect,
        )

    def _step(self) -> list[tuple[float, bytes]]:
        """A step of work: a few lines, at times cut in the middle."""
        random = self._random
        self._call += 1
        n = self._call
        kinds: tuple[tuple[News, ...], ...] = (
            (Text(text=f"word{n} "), Text(text=f"more{n} ")),
            (Text(text=f"word{n} "),),
            (Reasoning(text=f"thought{n} "),),
            (ToolStarted(call_id=f"c{n}", tool="edit"), ToolEnded(call_id=f"c{n}", output="ok")),
            (FileEdited(path=f"file{n}"),),
            (Used(usage=Usage(input_tokens=random.choice((100, 400)), output_tokens=50, turns=1), model="m"),),
            (Used(usage=Usage(input_tokens=200, turns=1), model="unpriced"),),
            (Noted(text=f"note{n}"),),
        )
        data = encode(*random.choice(kinds))
        if random.random() < 0.1:
            data = b"\xffjunk\n" + data
        pause = random.choice(_PAUSES)
        if random.random() < 0.2:
            cut = random.randrange(1, len(data))
            return [(pause, data[:cut]), (random.choice(_PAUSES), data[cut:])]
        return [(pause, data)]
