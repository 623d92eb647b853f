"""Performing a plan's effects: the table from effect to what does it, and the running of commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import msgspec

from pilothouse.core.plan.effects import (
    AddWorktree,
    CommitWork,
    MergeForward,
    MergeIntoTarget,
    OpenTarget,
    RemoveWorktree,
    Rescue,
    RunWork,
)
from pilothouse.core.plan.events import LogAppended
from pilothouse.core.plan.recover import command_key
from pilothouse.core.run.commands import Command, Exit, ExitReason, Grew
from pilothouse.core.run.contract import Effect, Failed
from pilothouse.engine.effects import Within
from pilothouse.engine.plan_git import PlanGit
from pilothouse.engine.ports import Clock, Executor, Git
from pilothouse.errors import BadInput, ExecutorFailed

LOG_INTERVAL_S = 0.2
"""LOG_APPENDED at most this often per attempt."""

_PATIENCE_S = (0.0, 0.05, 0.2, 1.0, 5.0)
"""Pauses before an executor that failed is asked again what became of a command."""

CommandOf = Callable[[RunWork], Command]
"""From what a plan says to what an executor runs: environment rules, shells and agents are the adapters' business."""


class PlanEffects:
    """The performer of plans."""

    def __init__(self, git: Git, executor: Executor, clock: Clock, command_of: CommandOf) -> None:
        self._git = PlanGit(git, executor)
        self._executor = executor
        self._clock = clock
        self._command_of = command_of

    async def __call__(self, effect: Effect, within: Within) -> msgspec.Struct:
        match effect:
            case OpenTarget():
                return await self._git.open_target(effect)
            case MergeForward():
                return await self._git.merge_forward(effect, within)
            case AddWorktree():
                return await self._git.add_worktree(effect, within)
            case RunWork():
                return await self._run(effect, within)
            case CommitWork():
                return await self._git.commit(effect)
            case MergeIntoTarget():
                return await self._git.merge_into(effect)
            case Rescue():
                return await self._git.rescue(effect)
            case RemoveWorktree():
                return await self._git.remove_worktree(effect)
        raise TypeError(f"no performer for {type(effect).__name__}")

    async def _run(self, effect: RunWork, within: Within) -> msgspec.Struct:
        """Run a command to its end, whoever started it; ended when unwanted, left running when this process goes."""
        key = command_key(within.run_id, effect.key)
        trouble: ExecutorFailed | None = None
        try:
            if not (effect.adopted or within.unwanted.is_set()):
                await self._executor.start(self._command_of(effect), key)
        except BadInput as error:
            return Failed(error=str(error))
        except ExecutorFailed as error:
            trouble = error
        # Whether it was started, or how it ended, is not known when the executor fails. It is never started again, but
        # what runs must not be taken for lost: that would put a second one beside it.
        for pause in _PATIENCE_S:
            if trouble is not None:
                await self._clock.sleep(pause)
                try:
                    inventory = await self._executor.inventory()
                except ExecutorFailed:
                    continue
                if not inventory.knows(key):
                    if inventory.instance == effect.place and not effect.adopted:
                        return Failed(error=str(trouble))  # it was refused, so it certainly never started
                    break
            followed = await self._follow(effect, key, within)
            if not isinstance(followed, ExecutorFailed):
                return followed
            trouble = followed
        return Exit(reason=ExitReason.LOST, error=str(trouble))

    async def _follow(self, effect: RunWork, key: str, within: Within) -> Exit | ExecutorFailed:
        reporter = _Reporter(effect, within, self._clock)
        async with asyncio.TaskGroup() as group:
            ender = group.create_task(self._end_when_unwanted(key, within))
            ticker = group.create_task(reporter.run())
            ended = await _to_the_end(self._executor.attach(key), reporter)
            ender.cancel()
            ticker.cancel()
        reporter.flush()
        return ended

    async def _end_when_unwanted(self, key: str, within: Within) -> None:
        """Until the executor has taken it; whoever follows the command says when that is pointless."""
        await within.unwanted.wait()
        while True:
            try:
                await self._executor.cancel(key)
                return
            except ExecutorFailed:
                await self._clock.sleep(_PATIENCE_S[1])


async def _to_the_end(news: AsyncIterator[Grew | Exit], reporter: _Reporter) -> Exit | ExecutorFailed:
    try:
        async for item in news:
            if isinstance(item, Exit):
                reporter.grew(item.output_to)
                return item
            reporter.grew(item.to)
    except ExecutorFailed as error:
        return error
    finally:
        if isinstance(news, AsyncGenerator):
            await news.aclose()
    return Exit(reason=ExitReason.LOST, error="the executor stopped telling before the command had ended")


class _Reporter:
    """Says how far output has grown: at once the first time, then merged to the interval."""

    def __init__(self, effect: RunWork, within: Within, clock: Clock) -> None:
        self._effect = effect
        self._within = within
        self._clock = clock
        self._said = 0
        self._to = 0
        self._bell = asyncio.Event()

    def grew(self, to: int) -> None:
        if to > self._to:
            self._to = to
            self._bell.set()

    async def run(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            self.flush()
            await self._clock.sleep(LOG_INTERVAL_S)

    def flush(self) -> None:
        if self._to > self._said:
            effect = self._effect
            event = LogAppended(
                node_id=effect.node_id,
                attempt=effect.attempt,
                phase=effect.phase,
                start=self._said,
                end=self._to,
            )
            self._said = self._to
            self._within.record((event,))
