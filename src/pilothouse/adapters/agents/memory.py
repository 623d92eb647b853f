"""Agents in memory: the twin for the simulation and for tests. Nothing of it touches a disk or a process.

``MemoryAgents`` is what an owner holds, ``AgentWorld`` what would lie on the machine and outlives it: which agents
there are, and the answers that were given to them. What an agent prints is the line protocol of ``lines``; when it does
so is up to the program that an in-memory executor runs for its command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from pilothouse.adapters.agents.commands import least
from pilothouse.adapters.agents.lines import LineReader
from pilothouse.adapters.agents.models import model_infos
from pilothouse.adapters.agents.pricing import PriceTable, price_of, priced
from pilothouse.adapters.agents.suggestions import unknown_agent, unknown_model, unlisted
from pilothouse.core.plan.effects import AnswerAgent, RunWork
from pilothouse.core.plan.spec import AgentSpec, ProcessSpec, ShellSpec
from pilothouse.core.run.agents import AgentInfo, ModelInfo, Permissions
from pilothouse.core.run.commands import Command
from pilothouse.core.run.usage import Usage
from pilothouse.errors import BadInput, Unavailable

INSTALL = "install-{}"
"""What installs an agent of this world that is not there."""


class MemoryAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of an ``AgentWorld``."""

    installed: bool = True
    asks: bool = True
    models: tuple[str, ...] = ()
    """Empty: it does not tell."""


class AgentWorld:
    """``answered`` is called with every new answer, as an agent that looks for it would find it."""

    def __init__(
        self,
        agents: Mapping[str, MemoryAgent] | None = None,
        *,
        prices: PriceTable | None = None,
        answered: Callable[[AnswerAgent], None] = lambda _: None,
    ) -> None:
        self.agents = dict(agents) if agents is not None else {"scripted": MemoryAgent()}
        self.prices: PriceTable = prices or {}
        self.answers: dict[tuple[str, str], AnswerAgent] = {}
        """By output and request id: the first answer to a request is the one that counts."""
        self.private: dict[str, set[str]] = {}
        """Nodes that have private files, by plan."""
        self.answered = answered


def plain_command(work: RunWork) -> Command:
    """A command that a program of an in-memory executor can be chosen by: argv is what the plan says.

    Of an agent: ``("agent", its name, its instructions or the task)``.
    """
    match work.spec:
        case ShellSpec(command=command):
            argv: tuple[str, ...] = (command,)
        case ProcessSpec(executable=executable, args=args):
            argv = (executable, *args)
        case AgentSpec() as spec:
            return Command(
                argv=("agent", spec.agent, spec.instructions or work.task),
                cwd=work.path,
                output=work.output,
                errors=work.errors,
                timeout_ms=least(spec.timeout_ms, work.time_left_ms),
            )
    return Command(argv=argv, cwd=work.path, output=work.output, timeout_ms=work.spec.timeout_ms)


class MemoryAgents:
    """Implements the engine's ``Agents`` port. ``command_of`` makes the commands of specs of every kind."""

    def __init__(
        self, world: AgentWorld | None = None, command_of: Callable[[RunWork], Command] = plain_command
    ) -> None:
        self.world = world or AgentWorld()
        self._command_of = command_of

    async def check(self, spec: AgentSpec, permissions: Permissions = Permissions.ALLOW) -> None:
        agent = self._agent(spec.agent)
        if (spec.permissions or permissions) is Permissions.ASK and not agent.asks:
            raise BadInput(f"the agent {spec.agent!r} cannot ask for permission", field="permissions")
        if spec.model and agent.models and spec.model not in agent.models:
            raise unknown_model(spec.model, spec.agent, agent.models)
        if spec.model_tier is not None and not (spec.model or agent.models):
            raise BadInput(f"the agent {spec.agent!r} does not tell which models it offers", field="modelTier")

    def _agent(self, name: str) -> MemoryAgent:
        """Raises ``BadInput`` for one there is not, ``Unavailable`` for one that is not installed."""
        agent = self.world.agents.get(name)
        if agent is None:
            raise unknown_agent(name, self.world.agents)
        if not agent.installed:
            raise Unavailable(f"the agent {name!r} is not installed; install it with: {INSTALL.format(name)}")
        return agent

    async def command(self, work: RunWork) -> Command:
        if isinstance(work.spec, AgentSpec):
            try:
                self._agent(work.spec.agent)
            except Unavailable as error:
                raise BadInput(str(error), field="agent") from None
            self.world.private.setdefault(work.plan_id, set()).add(work.node_id)
        return self._command_of(work)

    def reader(self, work: RunWork) -> LineReader:
        return LineReader()

    def priced(self, model: str, usage: Usage) -> Usage:
        return priced(model, usage, self.world.prices)

    async def answer(self, answer: AnswerAgent) -> None:
        key = (answer.output, answer.request_id)
        if answer.node_id in self.world.private.get(answer.plan_id, ()) and key not in self.world.answers:
            self.world.answers[key] = answer
            self.world.answered(answer)

    async def forget(self, plan_id: str) -> None:
        self.world.private.pop(plan_id, None)
        for key in [key for key, answer in self.world.answers.items() if answer.plan_id == plan_id]:
            del self.world.answers[key]

    async def agents(self, *, fresh: bool = False) -> list[AgentInfo]:
        return [
            AgentInfo(
                name=name,
                title=name.capitalize(),
                installed=agent.installed,
                asks=agent.asks,
                models=len(agent.models) if agent.models else None,
                install=INSTALL.format(name),
                problem="" if agent.installed else "not installed",
            )
            for name, agent in sorted(self.world.agents.items())
        ]

    async def models(self, agent: str | None = None, *, fresh: bool = False) -> list[ModelInfo]:
        if agent is not None and agent not in self.world.agents:
            raise unlisted(agent, self.world.agents)
        return [
            info
            for name, known in sorted(self.world.agents.items())
            if known.installed and agent in (None, name)
            for info in model_infos(known.models, name, lambda model: price_of(model, self.world.prices) is not None)
        ]
