"""Performing a plan's effects: the table from effect to what does it."""

from __future__ import annotations

import logging

import msgspec

from pilothouse.core.plan.effects import (
    AddWorktree,
    AnswerAgent,
    CommitWork,
    MergeForward,
    MergeIntoTarget,
    OpenTarget,
    RemoveWorktree,
    Rescue,
    RunWork,
)
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.contract import Effect, Timer
from pilothouse.engine.agents.work import LINGER_S, AgentWork
from pilothouse.engine.driving.commands import Commands
from pilothouse.engine.driving.effects import Done, Within
from pilothouse.engine.driving.timers import time_up
from pilothouse.engine.plans.git import PlanGit
from pilothouse.engine.ports import Agents, Clock, Executor, Git, LogStore

log = logging.getLogger(__name__)

_ANSWER_AGAIN_S = 1.0
"""The pause before an answer that could not be handed over is handed over again: the agent waits for nothing else."""


class PlanEffects:
    """The performer of plans. ``linger_s``: how long an agent that is through may go on before it is ended."""

    def __init__(
        self,
        git: Git,
        executor: Executor,
        clock: Clock,
        agents: Agents,
        logs: LogStore,
        *,
        linger_s: float = LINGER_S,
    ) -> None:
        self._git = PlanGit(git, executor)
        self._clock = clock
        self._agents = agents
        self._commands = Commands(executor, clock)
        self._agent_work = AgentWork(self._commands, agents, logs, clock, linger_s=linger_s)

    async def __call__(self, effect: Effect, within: Within) -> msgspec.Struct:
        match effect:
            case OpenTarget():
                return await self._git.open_target(effect)
            case MergeForward():
                return await self._git.merge_forward(effect, within)
            case AddWorktree():
                return await self._git.add_worktree(effect, within)
            case RunWork(spec=AgentSpec()):
                return await self._agent_work.run(effect, within)
            case RunWork():
                return await self._commands.run(effect, within, self._agents.command)
            case AnswerAgent():
                return await within.unless_unwanted(self._answer(effect))
            case Timer():
                return await within.unless_unwanted(time_up(self._clock, effect.until))
            case CommitWork():
                return await self._git.commit(effect, within)
            case MergeIntoTarget():
                return await self._git.merge_into(effect)
            case Rescue():
                return await self._git.rescue(effect)
            case RemoveWorktree():
                return await self._git.remove_worktree(effect)
        raise TypeError(f"no performer for {type(effect).__name__}")

    async def _answer(self, effect: AnswerAgent) -> Done:
        """Until the agent has it, or there is no such agent any more: its question is closed, nobody asks again."""
        while True:
            try:
                await self._agents.answer(effect)
                return Done()
            except OSError as error:
                log.warning("agent.unanswered", exc_info=error, extra={"output": effect.output})
                await self._clock.sleep(_ANSWER_AGAIN_S)
