"""Tools for tests: what they do is what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pilothouse.core.tools.spec import Permit, ToolAnswer, ToolContext, ToolSpec, Touches


class TestTool:
    """Notes its calls and answers ``answer``; with ``holds`` only once that is set."""

    __test__ = False

    def __init__(
        self,
        name: str,
        answer: ToolAnswer | None = None,
        *,
        touches: Touches = Touches.NOTHING,
        permit: Permit | None = None,
        holds: asyncio.Event | None = None,
        idempotent: bool = False,
        timeout_ms: int = 60_000,
    ) -> None:
        self.spec = ToolSpec(
            name=name,
            description=f"{name}, for tests",
            parameters={"type": "object", "properties": {}},
            touches=touches,
            permit=permit,
            idempotent=idempotent,
            timeout_ms=timeout_ms,
        )
        self.answer = answer or ToolAnswer(ok=True, result={"done": name})
        self.holds = holds
        self.calls: list[tuple[dict[str, Any], ToolContext]] = []

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        self.calls.append((dict(arguments), context))
        if self.holds is not None:
            await self.holds.wait()
        return self.answer
