"""Which agents there are. A table: a new agent of our own is one line in it.

Others come from users (``agents.NAME`` in the settings, when that agent speaks ACP) and from installed packages (entry
points of the group ``pilothouse.agents``: an ``AgentDriver``, or what makes one when it is called).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

import msgspec

from pilothouse.adapters.agents.acp.agents import ACP_AGENTS
from pilothouse.adapters.agents.acp.driver import user_agent
from pilothouse.adapters.agents.claude.driver import Claude
from pilothouse.adapters.agents.codex.driver import Codex
from pilothouse.adapters.agents.copilot.driver import Copilot
from pilothouse.adapters.agents.driver import AgentDriver
from pilothouse.adapters.agents.gemini.driver import Gemini
from pilothouse.adapters.agents.opencode.driver import OpenCode
from pilothouse.adapters.agents.scripted.driver import ScriptedAgent
from pilothouse.adapters.agents.suggestions import near, unknown_agent
from pilothouse.core.run.agents import AgentConfig
from pilothouse.errors import BadInput, Unavailable

GROUP = "pilothouse.agents"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")

_OURS: tuple[AgentDriver, ...] = (
    Claude(),
    Codex(),
    Copilot(),
    Gemini(),
    OpenCode(),
    ScriptedAgent(),
    *ACP_AGENTS,
)

DRIVERS: Mapping[str, AgentDriver] = MappingProxyType({driver.facts.name: driver for driver in _OURS})
"""Those of our own, by name."""


class Drivers:
    """Every driver there is, by name. What a package brings is loaded when it is first asked for."""

    def __init__(
        self,
        config: Mapping[str, AgentConfig],
        ours: Mapping[str, AgentDriver] = DRIVERS,
        foreign: Iterable[EntryPoint] | None = None,
    ) -> None:
        """Raises ``BadInput`` for settings of an agent that is not there, or that cannot be."""
        self.config = dict(config)
        self._loaded = dict(ours)
        points = entry_points(group=GROUP) if foreign is None else foreign
        self._foreign = {point.name: point for point in points if point.name not in ours}
        self._broken: dict[str, str] = {}
        for name, given in config.items():
            if given.acp:
                self._loaded[name] = self._spoken_to(name, given)
            elif name not in self:
                raise BadInput(
                    f"there is no such agent; there are: {', '.join(self)}",
                    field=f"agents.{name}",
                    fix=near(name, self) or "set acp and command for an agent of your own that speaks ACP",
                )

    def _spoken_to(self, name: str, given: AgentConfig) -> AgentDriver:
        if not _NAME.fullmatch(name):
            raise BadInput("is not a name", field=f"agents.{name}", fix="use a-z, 0-9 and '-'")
        if name in self:
            raise BadInput("is an agent that is known already", field=f"agents.{name}.acp", fix="use another name")
        if not given.command:
            raise BadInput("is missing", field=f"agents.{name}.command", fix="say what to start")
        return user_agent(name, given)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._loaded, *self._foreign}))

    def __contains__(self, name: str) -> bool:
        return name in self._loaded or name in self._foreign

    def require(self, name: str) -> AgentDriver:
        """Raises ``BadInput`` for an agent there is no driver for, ``Unavailable`` for one whose driver is broken."""
        if (driver := self._loaded.get(name)) is not None:
            return driver
        if name not in self._foreign:
            raise unknown_agent(name, self)
        if name not in self._broken:
            try:
                driver = _load(self._foreign[name])
            except Exception as error:  # whatever a package of somebody else's does, it must not take the others down
                self._broken[name] = f"{type(error).__name__}: {error}"
            else:
                self._loaded[name] = driver
                return driver
        point = self._foreign[name]
        raise Unavailable(f"the agent {name!r} of {point.value} cannot be loaded: {self._broken[name]}")

    def config_of(self, driver: AgentDriver, asked: str) -> AgentConfig:
        """What is set for ``driver``, or for the agent that was asked for where it works in that one's place: then the
        program is taken over only when it is the same."""
        name = driver.facts.name
        found = self.config.get(name) or self.config.get(asked) or AgentConfig()
        if name in self.config or name == asked or driver.facts.programs == self.require(asked).facts.programs:
            return found
        return msgspec.structs.replace(found, command=())


def _load(point: EntryPoint) -> AgentDriver:
    found = point.load()
    driver: AgentDriver = found if hasattr(found, "facts") and not isinstance(found, type) else found()
    if driver.facts.name != point.name:
        raise ValueError(f"its driver calls itself {driver.facts.name!r}")
    return driver
