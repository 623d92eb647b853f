"""Which agents there are, and whether a plan can have what it asks of one. A table: a new agent is one line in it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from pilothouse.adapters.agents.driver import AgentDriver
from pilothouse.adapters.agents.scripted import ScriptedAgent
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import Permissions
from pilothouse.errors import BadInput

DRIVERS: Mapping[str, AgentDriver] = MappingProxyType({driver.facts.name: driver for driver in (ScriptedAgent(),)})
"""By name."""


def require(name: str, drivers: Mapping[str, AgentDriver] = DRIVERS) -> AgentDriver:
    """The driver of an agent. Raises ``BadInput`` for one that is not built."""
    if (driver := drivers.get(name)) is not None:
        return driver
    near = difflib.get_close_matches(name, drivers, n=1)
    raise BadInput(
        f"agent {name!r} is not built yet; built: {', '.join(drivers)}",
        field="agent",
        fix=f"did you mean {near[0]!r}?" if near else "",
    )


def check_agent(
    spec: AgentSpec,
    permissions: Permissions = Permissions.ALLOW,
    drivers: Mapping[str, AgentDriver] = DRIVERS,
) -> None:
    """Whether an agent can be given this work here and now: to be asked before a plan is accepted.

    Raises ``BadInput`` naming the field of the spec (``agent``, ``script``), ``Unavailable`` for what is missing.
    """
    require(spec.agent, drivers).check(spec, permissions)
