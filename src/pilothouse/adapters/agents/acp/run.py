"""One run of an agent that speaks the Agent Client Protocol: from its process, just started, to its end and a verdict.

Joins the conversation (``session``) to the process and to the signals that end both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import cast

from acp import Client
from acp.client import ClientSideConnection

from pilothouse.adapters.agents.acp.client import AgentClient
from pilothouse.adapters.agents.acp.errand import Errand
from pilothouse.adapters.agents.acp.files import Files
from pilothouse.adapters.agents.acp.meters import difference, read
from pilothouse.adapters.agents.acp.news import Updates
from pilothouse.adapters.agents.acp.outcome import Trouble, failed, own_error, stopped, used
from pilothouse.adapters.agents.acp.permissions import Desk
from pilothouse.adapters.agents.acp.pipes import MAX_LINE, Pipes
from pilothouse.adapters.agents.acp.session import Session
from pilothouse.adapters.agents.lines import Finished
from pilothouse.adapters.agents.private import ANSWERS
from pilothouse.adapters.agents.reading import MAX_NOTE, bounded
from pilothouse.core.run.agents import News, Noted, Used
from pilothouse.core.run.usage import Usage

Process = subprocess.Popen[bytes]

LEAVE_S = 0.5
"""For an agent to leave by itself, its work done and its pipe closed."""
END_S = 0.2
"""Between the polite signal and the final one, and for a prompt to be canceled: both fit into an agent's grace."""
LAST_WORDS_S = 1.0
"""For what a dead agent still has in its pipe, and for one whose pipe has ended to be dead."""
_LOOK_S = 0.02
_DEATH_LOOK_S = 0.1


class Run:
    """One agent at one errand. ``tell`` makes news known."""

    def __init__(self, errand: Errand, tell: Callable[[Iterable[News]], None]) -> None:
        self._errand = errand
        self._tell = tell
        self._updates = Updates(errand.worktree, errand.tools, errand.titles)
        self._before: Usage | None = None
        """By the records of the agent, when the prompt was given; None before that."""
        self._used: list[Used] = []
        """What it told in the end."""
        desk = Desk(errand.permissions, Path(errand.run, ANSWERS), lambda asked: tell((asked,)))
        files = Files(errand.worktree, errand.folders)
        self._client = AgentClient(self._updates, desk, files, errand.urls, tell)

    async def work(self, process: Process) -> Finished:
        """Has the agent do its work. Its process has ended when this ends."""
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        async with self._connected(process) as agent:
            session = Session(agent, self._client, self._errand)
            finished = await self._converse_until(ended, process, session)
        self._tell(self._updates.close())
        self._tell(self._usage(session))
        return finished

    @contextlib.asynccontextmanager
    async def _connected(self, process: Process) -> AsyncIterator[ClientSideConnection]:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_LINE)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        # The parts of a client that ours lacks are answered with "method not found".
        agent = ClientSideConnection(cast(Client, self._client), Pipes(reader, writer, self._stray))
        try:
            yield agent
        finally:
            await agent.close()
            await _end(process)

    async def _converse_until(self, ended: asyncio.Event, process: Process, session: Session) -> Finished:
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._converse(session))
            stop = group.create_task(ended.wait())
            death = group.create_task(_death(process))
            await asyncio.wait((work, stop, death), return_when=asyncio.FIRST_COMPLETED)
            if stop.done():
                if session.id and not work.done():
                    with contextlib.suppress(ConnectionError):
                        await session.cancel()
                    await asyncio.wait((work,), timeout=END_S)
            elif not work.done() or work.result() is None:
                # An agent that dies and a connection that ends are one thing, seen twice.
                await asyncio.wait((work, death), timeout=LAST_WORDS_S)
            for task in (work, stop, death):
                task.cancel()
        if ended.is_set():
            return failed("it was ended", transient=False)
        if not work.cancelled() and (finished := work.result()) is not None:
            return finished
        how = "closed its output" if process.returncode is None else _exit(process.returncode)
        return failed(f"the agent {how} in the middle of its work", transient=False)

    async def _converse(self, session: Session) -> Finished | None:
        """None when the connection is gone."""
        try:
            self._tell(await session.open())
            self._before = self._recorded(session) or Usage()
            response = await session.prompt()
        except Trouble as trouble:
            return trouble.finished
        except ConnectionError:
            return None
        self._used = list(used(response, session.model))
        if self._errand.says_errors and response.usage is None and (error := own_error(self._client.last)):
            return error
        if response.stop_reason == "end_turn" and not self._updates.acted:
            return failed("it ended its turn without a word")
        return stopped(response.stop_reason)

    def _recorded(self, session: Session) -> Usage | None:
        if not self._errand.meter or not session.id:
            return None
        return read(self._errand.meter, os.environ, self._errand.run, session.id)

    def _usage(self, session: Session) -> list[Used]:
        """Tokens by its own records, where it keeps some that are better than what it tells; tools and lines."""
        if self._before is not None and (now := self._recorded(session)) is not None:
            self._used = [Used(usage=difference(self._before, now), model=session.model)]
        told = [*self._used, Used(usage=self._updates.sums)]
        return [one for one in told if one.usage != Usage()]

    def _stray(self, line: str) -> None:
        self._tell((Noted(text=f"the agent printed: {bounded(line, MAX_NOTE)}", level="warning"),))


async def _death(process: Process) -> None:
    """Until the process has ended, whoever still holds its pipes."""
    while process.poll() is None:
        await asyncio.sleep(_DEATH_LOOK_S)


async def _end(process: Process) -> None:
    """Its standard input is closed. What it leaves behind is for the keeper of us all to end."""
    for wait_s, signal_it in ((LEAVE_S, process.terminate), (END_S, process.kill)):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while process.poll() is None:
                    await asyncio.sleep(_LOOK_S)
        signal_it()


def _exit(status: int) -> str:
    return f"exited with {status}" if status >= 0 else f"was killed by signal {-status}"
