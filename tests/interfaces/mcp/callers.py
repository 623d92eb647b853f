"""A caller of tools for tests: what it offers is said, what is called is noted, and what comes of it is prepared."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pilothouse.core.tools.spec import ToolSpec, Touches
from pilothouse.engine.tools.callers import Tell, ToolOutcome
from pilothouse.errors import NotFound

LOOK = ToolSpec(
    name="look",
    description="Looks.",
    parameters={"type": "object", "properties": {"n": {"type": "integer"}}},
)
TOUCH = ToolSpec(name="touch", description="Touches the world.", parameters={"type": "object"}, touches=Touches.WORLD)


class FakeCaller:
    """``outcomes`` by the name of a tool: an outcome, an error to be raised, or None for a call that waits until
    ``go_on`` is set; what is not there answers its arguments."""

    def __init__(self, *specs: ToolSpec, **outcomes: ToolOutcome | Exception | None) -> None:
        self.specs: tuple[ToolSpec, ...] = specs or (LOOK, TOUCH)
        self.outcomes = outcomes
        self.refusal: Exception | None = None
        self.called: list[tuple[str, str, dict[str, Any]]] = []
        self.left: list[str] = []
        """Calls that nobody waited for to the end."""
        self.go_on = asyncio.Event()

    async def offered(self) -> tuple[ToolSpec, ...]:
        if self.refusal is not None:
            raise self.refusal
        return self.specs

    async def call(self, call_id: str, name: str, arguments: Mapping[str, Any], tell: Tell) -> ToolOutcome:
        self.called.append((call_id, name, dict(arguments)))
        if name not in {spec.name for spec in await self.offered()}:
            raise NotFound(f"there is no tool {name}")
        outcome = self.outcomes.get(name, ToolOutcome(ok=True, result={"given": dict(arguments)}))
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            return outcome
        try:
            await tell("waits for an approval")
            await tell("runs")
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.left.append(call_id)
            raise
        return ToolOutcome(ok=True, result="done")
