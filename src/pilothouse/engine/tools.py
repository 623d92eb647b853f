"""The tools of a server, by name: which of them a turn is offered, and running one.

Knows neither what a tool does nor when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pilothouse.core.chat.calls import Offered
from pilothouse.core.tools.spec import Permit, ToolAnswer, ToolContext, ToolSpec
from pilothouse.engine.chat_ports import Tool


class ToolRegistry:
    """All tools there are."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        """Raises ``ValueError`` for a name that is taken."""
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

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

    def offered(
        self, mode: str, chat: Mapping[str, Permit] | None = None, user: Mapping[str, Permit] | None = None
    ) -> tuple[Offered, ...]:
        """The tools of a turn in ``mode``, and what becomes of calls: what the chat says outranks what its user says
        for always, and that what the mode and the tool do."""
        raise NotImplementedError

    async def run(self, name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        """Run a tool; what an expected failure says is the answer. Secrets are put in, and taken out of what comes
        back."""
        raise NotImplementedError
