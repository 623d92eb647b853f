"""Which agents there are, and whether a plan's agents are among them. A table; a new agent is one more line in it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from pilothouse.adapters.agents.driver import AgentDriver
from pilothouse.adapters.agents.scripted import ScriptedAgent
from pilothouse.core.plan.spec import AgentSpec, PlanSpec
from pilothouse.errors import BadInput

DRIVERS: Mapping[str, AgentDriver] = MappingProxyType({driver.name: driver for driver in (ScriptedAgent(),)})
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


def check_agents(plan: PlanSpec, drivers: Mapping[str, AgentDriver] = DRIVERS) -> None:
    """Whether every agent of a plan can be given work here and now: to be asked before the plan is accepted.

    Raises ``BadInput`` naming the job (by its producer id) and the field, ``Unavailable`` for what is missing.
    """
    for job in plan.jobs:
        for phase, spec in (("prechecks", job.prechecks), ("work", job.work), ("postchecks", job.postchecks)):
            if isinstance(spec, AgentSpec):
                try:
                    driver = require(spec.agent, drivers)
                    driver.check_script(spec.script)
                except BadInput as error:
                    field = f"jobs[{job.producer_id}].{phase}.{error.field}"
                    raise BadInput(error.message, field=field, fix=error.fix) from None
                driver.check()
