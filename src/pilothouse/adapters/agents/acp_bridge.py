"""The process beside an agent that speaks the Agent Client Protocol: it holds the other end of the agent's pipes.

Agents survive the end of the server, so the server cannot hold them. Its standard input is an ``Errand`` as JSON, its
standard output the news of the agent as ``lines`` has them; what the agent prints on standard error passes by. It exits
with 0 when the work was done, 1 when it was not. Owns the agent's process from its start to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import NoReturn, cast

import msgspec
from acp import Client
from acp.client import ClientSideConnection

from pilothouse.adapters.agents.acp_client import AgentClient
from pilothouse.adapters.agents.acp_errand import Errand
from pilothouse.adapters.agents.acp_files import Files
from pilothouse.adapters.agents.acp_meters import difference, read
from pilothouse.adapters.agents.acp_news import Updates
from pilothouse.adapters.agents.acp_outcome import Trouble, failed, own_error, stopped, used
from pilothouse.adapters.agents.acp_permissions import Desk
from pilothouse.adapters.agents.acp_pipes import MAX_LINE, Pipes
from pilothouse.adapters.agents.acp_session import Session
from pilothouse.adapters.agents.lines import Finished, encode
from pilothouse.adapters.agents.reading import MAX_NOTE, bounded
from pilothouse.core.run.agents import News, Noted, Used
from pilothouse.core.run.usage import Usage

LEAVE_S = 0.5
"""For an agent to leave by itself, its work done and its pipe closed."""
END_S = 0.2
"""Between the polite signal and the final one, and for a prompt to be canceled: both fit into an agent's grace."""
LAST_WORDS_S = 1.0
"""For what a dead agent still has in its pipe."""
_LOOK_S = 0.02
_DEATH_LOOK_S = 0.1


def main() -> NoReturn:
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    errand = msgspec.json.decode(sys.stdin.buffer.read(), type=Errand)
    finished = asyncio.run(Bridge(errand).run())
    tell((finished,))
    sys.exit(0 if finished.ok else 1)


def tell(news: Iterable[News | Finished]) -> None:
    sys.stdout.buffer.write(encode(*news))
    sys.stdout.buffer.flush()


class Bridge:
    """One agent at one errand."""

    def __init__(self, errand: Errand) -> None:
        self._errand = errand
        self._updates = Updates(errand.worktree)
        self._meter = Usage()
        self._used: list[Used] = []
        """What it told in the end."""
        desk = Desk(errand.permissions, Path(errand.answers), lambda asked: tell((asked,)))
        files = Files(errand.worktree, errand.folders)
        self._client = AgentClient(self._updates, desk, files, errand.urls, tell)

    async def run(self) -> Finished:
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        try:
            async with self._agent() as (process, agent):
                session = Session(agent, self._client, self._errand)
                finished = await self._work(process, session, ended)
            tell(self._usage(session))
            return finished
        except OSError as error:
            return failed(f"{self._errand.argv[0]} cannot be started: {error.strerror}", transient=False)

    @contextlib.asynccontextmanager
    async def _agent(self) -> AsyncIterator[tuple[asyncio.subprocess.Process, ClientSideConnection]]:
        """Raises ``OSError`` when it cannot be started. It has ended when this ends."""
        process = await asyncio.create_subprocess_exec(
            *self._errand.argv,
            cwd=self._errand.worktree,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=MAX_LINE,
        )
        assert process.stdin is not None and process.stdout is not None
        pipes = Pipes(process.stdout, process.stdin, _stray)
        # The parts of the client that are not there are answered with "method not found".
        agent = ClientSideConnection(cast(Client, self._client), pipes)
        try:
            yield process, agent
        finally:
            await agent.close()
            await _end(process)

    async def _work(self, process: asyncio.subprocess.Process, session: Session, ended: asyncio.Event) -> Finished:
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
        tell(self._updates.close())
        if ended.is_set():
            return failed("it was ended", transient=False)
        if not work.cancelled() and (finished := work.result()) is not None:
            return finished
        how = "closed its output" if process.returncode is None else _exit(process.returncode)
        return failed(f"the agent {how} in the middle of its work", transient=False)

    async def _converse(self, session: Session) -> Finished | None:
        """None when the connection is gone."""
        try:
            tell(await session.open())
            self._meter = self._metered(session) or Usage()
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

    def _metered(self, session: Session) -> Usage | None:
        return read(self._errand.meter, os.environ, session.id) if self._errand.meter and session.id else None

    def _usage(self, session: Session) -> list[Used]:
        """Tokens by its own records, where it keeps some that are better than what it tells; tools and lines."""
        if (now := self._metered(session)) is not None:
            self._used = [Used(usage=difference(self._meter, now), model=session.model)]
        told = [*self._used, Used(usage=self._updates.sums)]
        return [one for one in told if one.usage != Usage()]


def _stray(line: str) -> None:
    tell((Noted(text=f"the agent printed: {bounded(line, MAX_NOTE)}", level="warning"),))


async def _death(process: asyncio.subprocess.Process) -> None:
    """Until the process has ended, whoever still holds its pipes."""
    while process.returncode is None:
        await asyncio.sleep(_DEATH_LOOK_S)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Its standard input is closed. What it leaves behind is for the keeper of us all to end."""
    for wait_s, signal_it in ((LEAVE_S, process.terminate), (END_S, process.kill)):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while process.returncode is None:
                    await asyncio.sleep(_LOOK_S)
        with contextlib.suppress(ProcessLookupError):
            signal_it()


def _exit(status: int) -> str:
    return f"exited with {status}" if status >= 0 else f"was killed by signal {-status}"
