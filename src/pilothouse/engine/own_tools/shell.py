"""The tools that run a command in the workspace: with the user's rights, or in a sandbox where it can only look.

The executor runs it, so that ending it ends everything it started. Owns how it is followed, ended and shown; what the
command line becomes, and what confines it, is behind ``Shells``.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from pilothouse.core.run.commands import Command, Exit, ExitReason
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches
from pilothouse.engine.chat_ports import Tool
from pilothouse.engine.driving.undisturbed import undisturbed
from pilothouse.engine.ports import Executor, Ids, LogStore
from pilothouse.errors import BadInput, ExecutorFailed

LONGEST_S = 900
HEAD, TAIL = 10_000, 20_000
"""Bytes of the output that are answered, from its beginning and from its end."""

_MARK = "/shell/"
"""In the keys of all commands that are run here, before the life of the owner that ran them."""
_GRACE_MS = 500
_END_WITHIN_S = 20.0
_AGAIN_S = 0.1
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def of_shell_tool(key: str) -> bool:
    """Whether a command's key is of a tool here, which sees to its end itself: another's memory of it is in no log."""
    return _MARK in key


class Shells(Protocol):
    """From a command line to a command."""

    async def command(
        self, line: str, *, workspace: str, env: Mapping[str, str], output: str, timeout_ms: int, read_only: bool
    ) -> Command:
        """What to run. ``env`` is added to an environment without secrets, and its values are blacked out of the
        output. ``read_only``: so that it changes nothing and reaches no network.

        Raises ``BadInput``, ``Unavailable`` where it cannot be confined."""
        ...

    async def forget(self, output: str) -> None:
        """Remove what was made for a command that has ended. Idempotent."""
        ...


class LookShell(Parameters, frozen=True, kw_only=True):
    command: Annotated[str, Meta(description="A command line, run in the workspace.", min_length=1, max_length=100_000)]
    timeout_seconds: Annotated[int, Meta(description="It is ended after that.", ge=1, le=LONGEST_S)] = 120


class RunShell(LookShell, frozen=True, kw_only=True):
    env: Annotated[
        dict[str, str], Meta(description='More variables, as in {"TOKEN": "{{NAME}}"}. The output does not show them.')
    ] = msgspec.field(default_factory=dict)


class ShellTool:
    """``run_shell``."""

    spec = ToolSpec(
        name="run_shell",
        description=(
            "Run a shell command in the workspace, with the user's rights. Answers exit code and output. {{NAME}} in "
            'env stands for a credential of the user. Example: {"command": "make test", "timeoutSeconds": 300}'
        ),
        parameters=schema_of(RunShell),
        touches=Touches.WORLD,
        of_workspace=True,
        timeout_ms=(LONGEST_S + 60) * 1000,
        secrets=("env",),
    )
    read_only = False
    parameters: type[LookShell] = RunShell

    def __init__(self, executor: Executor, logs: LogStore, shells: Shells, ids: Ids, life: str) -> None:
        self._executor = executor
        self._logs = logs
        self._shells = shells
        self._ids = ids
        self._life = life

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(self.parameters, arguments)
        if not context.workspace:
            fix = "choose a repository for this conversation"
            raise BadInput("this conversation has no workspace", field="workspace", fix=fix)
        key = f"{context.turn_id or 'direct'}{_MARK}{self._life}/{self._ids.new()}"
        try:
            command = await self._shells.command(
                given.command,
                workspace=context.workspace,
                env=given.env if isinstance(given, RunShell) else {},
                output=key,
                timeout_ms=given.timeout_seconds * 1000,
                read_only=self.read_only,
            )
            return await self._answered(await self._ended(command, key), key)
        finally:
            await undisturbed(self._forget(key))

    async def _ended(self, command: Command, key: str) -> Exit:
        try:
            await self._executor.start(msgspec.structs.replace(command, grace_ms=_GRACE_MS), key)
            return await _followed(self._executor, key)
        except BaseException:  # cancelled, or the executor fails: it must not run on with nobody looking
            await undisturbed(end_for_certain(self._executor, key))
            raise

    async def _answered(self, exit: Exit, key: str) -> ToolAnswer:
        result: dict[str, Any] = {"output": await self._output(key)}
        if exit.code is not None:
            result["exitCode"] = exit.code
        if exit.signal is not None:
            result["signal"] = exit.signal
        result["durationMs"] = max(0, exit.ended_at - exit.started_at)
        match exit.reason:
            case ExitReason.EXITED:
                return ToolAnswer(ok=True, result=result)
            case ExitReason.TIMEOUT:
                error = "it took too long and was ended, with everything it had started"
            case ExitReason.CANCELED:
                error = "it was ended"
            case _:
                error = exit.error or "nobody knows what became of it"
        return ToolAnswer(ok=False, result=result, error=error)

    async def _output(self, key: str) -> str:
        size = await self._logs.size(key)
        if size <= HEAD + TAIL:
            return _plain((await self._logs.read(key, 0, HEAD + TAIL))[1])
        _, head = await self._logs.read(key, 0, HEAD)
        at, tail = await self._logs.read(key, size - TAIL, TAIL)
        return f"{_plain(head)}\n… {at - len(head):,} bytes left out …\n{_plain(tail)}"

    async def _forget(self, key: str) -> None:
        with contextlib.suppress(ExecutorFailed):  # it remembers a little longer then
            await self._executor.forget(key)
        await self._logs.delete(key)
        await self._shells.forget(key)


class LookShellTool(ShellTool):
    """``run_readonly_shell``."""

    spec = ToolSpec(
        name="run_readonly_shell",
        description=(
            "Run a shell command in a sandbox that sees the workspace but changes nothing and reaches no network: for "
            'looking around with git, grep and the like. Example: {"command": "git log --oneline -20"}'
        ),
        parameters=schema_of(LookShell),
        touches=Touches.NOTHING,
        of_workspace=True,
        timeout_ms=(LONGEST_S + 60) * 1000,
    )
    read_only = True
    parameters = LookShell


def shell_tools(executor: Executor, logs: LogStore, shells: Shells, ids: Ids, life: str) -> Iterable[Tool]:
    """Both. ``life`` is the owner's, see ``end_left_over``."""
    return [kind(executor, logs, shells, ids, life) for kind in (ShellTool, LookShellTool)]


async def end_left_over(executor: Executor, logs: LogStore, shells: Shells, life: str) -> None:
    """End what tools of other lives than this one have run: nobody waits for it any more. Raises ``ExecutorFailed``."""
    inventory = await executor.inventory()
    for key in {*inventory.running, *inventory.ended}:
        if of_shell_tool(key) and f"{_MARK}{life}/" not in key:
            await end_for_certain(executor, key)
            await executor.forget(key)
            await logs.delete(key)
            await shells.forget(key)


async def end_for_certain(executor: Executor, key: str) -> None:
    """Returns when nothing of a command runs any more, or that is beyond us."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_WITHIN_S):
            while True:
                try:
                    await executor.cancel(key)
                    await _followed(executor, key)
                    return
                except ExecutorFailed:
                    await asyncio.sleep(_AGAIN_S)


async def _followed(executor: Executor, key: str) -> Exit:
    async with contextlib.aclosing(executor.attach(key)) as news:  # type: ignore[type-var]  # every executor's is one
        async for item in news:
            if isinstance(item, Exit):
                return item
    return Exit(reason=ExitReason.LOST)


def _plain(data: bytes) -> str:
    """Without what colours terminals."""
    return _ESCAPES.sub("", data.decode("utf-8", "replace"))
