"""The server's tools for those who call them outside any turn, as callers like any other.

Which tools there are, and who may use which, is ``direct``'s to say. What is remembered of calls is for those who
lost an answer and ask again; a restart forgets it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pilothouse.core.auth.principals import Principal
from pilothouse.core.tools.spec import ToolSpec
from pilothouse.engine.calling.direct import DirectTools
from pilothouse.engine.tools.callers import Tell, ToolCaller, ToolOutcome
from pilothouse.errors import Denied, NotFound, PilothouseError

REMEMBERED = 256
"""Calls of tools that must not be executed twice, over all callers, that are over; those that go on all are."""


@dataclass(slots=True)
class _Call:
    """``begun`` without an outcome: whoever made it went away, and its tool was ended."""

    making: asyncio.Lock = field(default_factory=asyncio.Lock)
    begun: bool = False
    outcome: ToolOutcome | None = None


class DirectCalls:
    """What everybody called."""

    def __init__(self, direct: DirectTools) -> None:
        self.direct = direct
        self._calls: OrderedDict[tuple[str, str], _Call] = OrderedDict()

    def of(self, principal: Principal) -> ToolCaller:
        return _Caller(self, principal)

    def made(self, by: str, call_id: str) -> _Call:
        """The call of that id, whether it is the first time or not."""
        call = self._calls.setdefault((by, call_id), _Call())
        self._calls.move_to_end((by, call_id))
        # One that goes on stays: whoever asks for it again would have its tool executed beside itself.
        over = (place for place, one in self._calls.items() if one is not call and not one.making.locked())
        if len(self._calls) > REMEMBERED and (oldest := next(over, None)) is not None:
            del self._calls[oldest]
        return call


class _Caller:
    """Implements ``ToolCaller``."""

    def __init__(self, calls: DirectCalls, principal: Principal) -> None:
        self._calls = calls
        self._principal = principal

    async def offered(self) -> tuple[ToolSpec, ...]:
        return await self._calls.direct.offered(self._principal)

    async def call(self, call_id: str, name: str, arguments: Mapping[str, Any], tell: Tell) -> ToolOutcome:
        spec = next((spec for spec in await self.offered() if spec.name == name), None)
        if spec is None:
            raise NotFound(f"there is no tool {name}")
        await tell(f"{name} is being executed")
        if spec.repeatable:
            return await self._run(name, arguments, call_id)
        call = self._calls.made(self._principal.name, call_id)
        async with call.making:
            if call.outcome is None and call.begun:
                error = f"{name} was ended when its caller went away. It may have taken effect in part: look"
                call.outcome = ToolOutcome(ok=False, error=f"{error} before you call it again.")
            elif call.outcome is None:
                call.begun = True
                try:
                    call.outcome = await self._run(name, arguments, call_id)
                except PilothouseError:  # refused, or not to be recorded: nothing was done
                    call.begun = False
                    raise
            return call.outcome

    async def _run(self, name: str, arguments: Mapping[str, Any], call_id: str) -> ToolOutcome:
        try:
            answer = await self._calls.direct.run(name, arguments, self._principal, call_id=call_id)
        except Denied as error:
            return ToolOutcome(ok=False, error=str(error))
        return ToolOutcome(ok=answer.ok, result=answer.result, error=answer.error)
