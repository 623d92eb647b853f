"""The tools of a server, by name: which of them a turn is offered, and running one.

Knows neither what a tool does nor when it is called. Values that models must not see are put into arguments at the last
moment, and taken out of whatever comes back.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from pilothouse.core.chat.calls import Offered
from pilothouse.core.tools.policy import Rules, permit_of
from pilothouse.core.tools.secrets import Hider, names_in, resolve
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec
from pilothouse.engine.chat_ports import Tool
from pilothouse.engine.tools.journal import ToolJournal
from pilothouse.errors import PilothouseError, Unavailable

log = logging.getLogger(__name__)

LARGEST_ANSWER = 1 << 20
"""Bytes of JSON that a tool's answer may have; of a longer one the beginning is given, as text."""
_SHOWN_OF_LARGE = 200_000
_LONGEST_ERROR = 10_000
VALUES_WITHIN_S = 2.0
"""How long a call that refers to no credential waits for those that its answer must not hold."""

NO_RULES: Rules = {}


class Secrets(Protocol):
    """Where the values of references lie."""

    async def values(self, owner: str) -> Mapping[str, str]:
        """By the name that ``{{NAME}}`` says. Raises ``Unavailable`` when they cannot be read."""
        ...


class NoSecrets:
    """There are none."""

    async def values(self, owner: str) -> Mapping[str, str]:
        return {}


class ToolRegistry:
    """All tools there are. Some work with what is only there when runs are driven already: until ``complete`` is
    called, whoever runs a tool waits."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        secrets: Secrets | None = None,
        *,
        complete: bool = True,
        journal: ToolJournal | None = None,
    ) -> None:
        """``journal``: where calls outside any turn are recorded. Raises ``ValueError`` for a name that is taken."""
        self.journal = journal
        self._tools: dict[str, Tool] = {}
        self._secrets: Secrets = secrets or NoSecrets()
        self._complete = asyncio.Event()
        self._blind = False
        """What is hidden could not be read the last time."""
        if complete:
            self._complete.set()
        for tool in tools:
            self.add(tool)

    def complete(self) -> None:
        """All are there."""
        self._complete.set()

    def add(self, tool: Tool) -> None:
        """Raises ``ValueError`` when its name is taken."""
        if tool.spec.name in self._tools:
            raise ValueError(f"there are two tools {tool.spec.name}")
        self._tools[tool.spec.name] = tool

    def specs(self) -> tuple[ToolSpec, ...]:
        """By name."""
        return tuple(self._tools[name].spec for name in sorted(self._tools))

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def offered(self, mode: str, chat: Rules = NO_RULES, user: Rules = NO_RULES) -> tuple[Offered, ...]:
        """The tools of a turn in ``mode``, and what becomes of their calls by what chat and user say. Raises
        ``BadInput`` for an unknown mode."""
        return tuple(
            Offered(
                name=spec.name,
                permit=permit,
                repeatable=spec.repeatable,
                timeout_ms=spec.timeout_ms,
                workflow=spec.workflow,
            )
            for spec in self.specs()
            if (permit := permit_of(spec, mode, chat, user)) is not None
        )

    async def named(self, names: Iterable[str]) -> tuple[ToolSpec, ...]:
        """The specs of those that exist, as models are told of them."""
        await self._complete.wait()
        return tuple(self._tools[name].spec for name in names if name in self._tools)

    async def run(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        """Run a tool. What fails is an answer too, whatever it was: a model can make something of it."""
        await self._complete.wait()
        tool = self._tools.get(name)
        if tool is None:
            return ToolAnswer(ok=False, error=f"Tool not found: {name}")
        hider: Hider | None = None
        try:
            values = await self._values(context.owner, needed=bool(names_in(arguments, tool.spec.secrets)))
            hider = Hider(values)
            answer = await tool.run(resolve(arguments, tool.spec.secrets, values), context)
            return _bounded(_hidden(answer, hider))
        except PilothouseError as error:
            return _refusal(str(error), hider)
        except Exception as error:  # a bug in a tool is its call's alone
            trace = "".join(traceback.format_exception(error))
            extra = {"tool": name, "run_id": context.turn_id}
            log.error("tool.crashed\n%s", hider.text(trace) if hider else trace, extra=extra)
            return _refusal(f"internal error in {name}: {type(error).__name__}: {error}", hider)

    async def hidden(self, owner: str, value: Any) -> Any:
        """A JSON value without what an owner wants hidden, as far as that can be read."""
        return Hider(await self._values(owner, needed=False)).hide(value)

    async def _values(self, owner: str, *, needed: bool) -> Mapping[str, str]:
        """The values of an owner. A call that needs none goes on without where they cannot be read, or not soon: then
        its answer is not searched for them. Raises ``Unavailable``."""
        if needed:
            return await self._secrets.values(owner)
        try:
            async with asyncio.timeout(VALUES_WITHIN_S):
                values = await self._secrets.values(owner)
        except (Unavailable, TimeoutError) as error:
            if not self._blind:
                log.warning("tools.nothing-hidden: %s", str(error) or "credentials take too long to be read")
            self._blind = True
            return {}
        self._blind = False
        return values


def _refusal(error: str, hider: Hider | None) -> ToolAnswer:
    return ToolAnswer(ok=False, error=(hider.text(error) if hider else error)[:_LONGEST_ERROR])


def _hidden(answer: ToolAnswer, hider: Hider) -> ToolAnswer:
    if not hider:
        return answer
    return msgspec.structs.replace(answer, result=hider.hide(answer.result), error=hider.text(answer.error))


def _bounded(answer: ToolAnswer) -> ToolAnswer:
    """As JSON can say it, and not longer than a log should hold. Raises ``TypeError`` for what is no JSON."""
    encoded = msgspec.json.encode(answer.result)
    error = answer.error[:_LONGEST_ERROR]
    if len(encoded) <= LARGEST_ANSWER:
        return msgspec.structs.replace(answer, error=error)
    beginning = encoded[:_SHOWN_OF_LARGE].decode("utf-8", "ignore")
    cut = {"truncated": True, "bytes": len(encoded), "beginning": beginning}
    return msgspec.structs.replace(answer, result=cut, error=error)
