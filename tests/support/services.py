"""A whole engine over the in-memory twins: nothing of it touches a disk, a process or a repository.

``World`` is what would lie on disk and outlives an engine; ``world.engine()`` is one owner's life over it. What a
plan's commands do is said in a small language of their own, see ``program``.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from pilothouse.adapters.agents.memory import AgentWorld, MemoryAgents
from pilothouse.adapters.backends.memory import MemoryBackend
from pilothouse.adapters.git.memory import MemoryGit
from pilothouse.adapters.git.memory_world import MemoryWorld as GitWorld
from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.adapters.store.memory import MemoryWorld as StoreWorld
from pilothouse.adapters.store.memory_output import MemoryLogStore
from pilothouse.adapters.system.clock import SystemClock
from pilothouse.adapters.system.ids import Uuid7Ids
from pilothouse.adapters.vault.memory import MemoryVault
from pilothouse.adapters.vault.provider import HttpProvider
from pilothouse.adapters.work.memory import MemoryExecutor, MemoryProgram, MemoryWarden
from pilothouse.core.auth.agent_tokens import SECRET_BYTES
from pilothouse.core.chat.kind import TurnKind
from pilothouse.core.credentials.services import Given, services
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.spec_parse import plan_from_data
from pilothouse.core.run.commands import Command
from pilothouse.core.run.lifecycle import TERMINAL
from pilothouse.engine.access.access import Access
from pilothouse.engine.access.credentials import Credentials
from pilothouse.engine.access.keys import Keys
from pilothouse.engine.access.oauth import OAuth
from pilothouse.engine.access.repos import Repos
from pilothouse.engine.agents.catalogue import AgentCatalogue
from pilothouse.engine.answering.backend import AgentTurns
from pilothouse.engine.answering.known import KnownInLog
from pilothouse.engine.answering.server import AgentTools
from pilothouse.engine.answering.tokens import AgentTokens
from pilothouse.engine.calling.callers import Callers
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chats.chats import Chats
from pilothouse.engine.chats.documents import ChatDocuments
from pilothouse.engine.chats.effects import TurnEffects
from pilothouse.engine.chats.history import ChatHistory
from pilothouse.engine.chats.turns import ChatTurns
from pilothouse.engine.driving.supervisor import Driven, supervising
from pilothouse.engine.kinds import REGISTRY
from pilothouse.engine.plans.effects import PlanEffects
from pilothouse.engine.plans.plans import Origin, Plans
from pilothouse.engine.plans.workflows import Workflows
from pilothouse.engine.ports import Clock, EventStore
from pilothouse.engine.queries import Queries
from pilothouse.engine.runs import Runs
from pilothouse.engine.services import Services
from pilothouse.engine.tools.registry import ToolRegistry

REPO = "/repo"
SECRET = b"s" * SECRET_BYTES
"""What the tokens of agents are derived from."""
PATIENCE_S = 10.0
"""Bound of every wait: how long a broken build may hang, not how long anything should take."""


class World:
    """One machine: a log, a repository at ``REPO`` with one commit on ``main``, and an executor."""

    def __init__(self) -> None:
        self.store = StoreWorld()
        self.git = GitWorld()
        self.git.add_repository(REPO, {"README.md": "hello\n"})
        self.logs = MemoryLogStore()
        self.clock: Clock = SystemClock()
        self.agents = AgentWorld()
        self.warden = MemoryWarden(self.clock, self.program, self.logs)
        self.backend: Backend = MemoryBackend()
        self.agent = ""
        """Of a machine whose conversations an agent answers: which one."""
        self.tools = ToolRegistry()
        self.why_no_tools = ""
        """Of a machine that can give its agent none of them."""
        self.vault = MemoryVault()
        self.outside: dict[str, Given] = {}

    def program(self, command: Command, _: str) -> MemoryProgram:
        """``write NAME`` (or ``echo … > NAME``) writes that file and says so, ``fail`` exits with 1, ``hang`` waits for
        its end. An agent prints its instructions, which are lines of the line protocol, and writes ``agent.txt``;
        without a last line that says ``finished`` it waits for its end."""
        if command.argv[0] == "agent":
            return self._agent(command)
        verb, _, name = re.sub(r"^echo .* > ", "write ", command.argv[0]).partition(" ")
        if verb == "fail":
            return MemoryProgram(code=1, output=((0.0, b"it failed\n"),))
        if verb == "hang":
            return MemoryProgram(duration_s=1e6, output=((0.0, b"hanging\n"),))
        assert verb == "write", command.argv
        return MemoryProgram(output=((0.0, f"wrote {name}\n".encode()),), effect=partial(self._write, command, name))

    def _agent(self, command: Command) -> MemoryProgram:
        lines = command.argv[2].rstrip("\n") + "\n"
        return MemoryProgram(
            duration_s=0.0 if '"finished"' in lines.splitlines()[-1] else 1e6,
            output=((0.0, lines.encode()),),
            effect=partial(self._write, command, "agent.txt"),
        )

    def _write(self, command: Command, name: str) -> None:
        tree = self.git.worktree(command.cwd)
        tree.files = {**tree.files, name: f"{name}\n"}

    async def open_store(self) -> EventStore:
        return MemoryEventStore(self.store)

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[Services]:
        """An owner's life. What it leaves running is there for the next one."""
        store = await self.open_store()
        epoch = await store.take_ownership()
        git, ids, agents = MemoryGit(self.git), Uuid7Ids(), MemoryAgents(self.agents)
        credentials = Credentials(self.vault, self.clock, services(self.outside))
        oauth = OAuth(credentials, HttpProvider(), self.clock, secrets.token_bytes)
        async with _closing(store), _closing(oauth), MemoryExecutor(self.warden, epoch) as executor:
            documents, turns = ChatDocuments(store, self.clock), ChatTurns(store)
            history = ChatHistory(store, REGISTRY, TurnKind(), documents)
            perform_plan = PlanEffects(git, executor, self.clock, agents, self.logs)
            backend = self.backend
            if self.agent:
                backend = AgentTurns(
                    self.agent,
                    agents,
                    executor,
                    self.logs,
                    self.clock,
                    before=history.before,
                    known_of=KnownInLog(store, REGISTRY),
                    folder=lambda chat_id: f"/chats/{chat_id}",
                    remove=lambda chat_id: None,
                    tools=AgentTools(self.tools, SECRET, ("bridge",), "/owner.sock", self.why_no_tools),
                )
            perform_turn = TurnEffects(backend, self.tools, documents, history, self.clock)
            async with supervising(
                store=store,
                registry=REGISTRY,
                clock=self.clock,
                kinds={
                    PlanKind.name: Driven(PlanKind(), perform_plan),
                    TurnKind.name: Driven(TurnKind(), perform_turn),
                },
                inventory=executor.inventory,
                slots=16,
                epoch=epoch,
            ) as supervisor:
                plans = Plans(
                    supervisor=supervisor,
                    store=store,
                    git=git,
                    executor=executor,
                    logs=self.logs,
                    clock=self.clock,
                    ids=ids,
                    agents=agents,
                    worktree_root="/worktrees",
                )
                repos = Repos(store, git, self.clock)
                workflows = Workflows(store=store, plans=plans, clock=self.clock, ids=ids)
                chats = Chats(
                    supervisor=supervisor,
                    store=store,
                    backend=backend,
                    tools=self.tools,
                    workflows=workflows,
                    repos=repos,
                    clock=self.clock,
                    ids=ids,
                    documents=documents,
                    history=history,
                    turns=turns,
                )
                yield Services(
                    supervisor=supervisor,
                    runs=Runs(supervisor, store, turns),
                    plans=plans,
                    queries=Queries(supervisor, store, supervisor.hub, self.logs, git),
                    repos=repos,
                    clock=self.clock,
                    agents=AgentCatalogue(agents),
                    keys=Keys(store, self.clock, secrets.token_bytes),
                    access=Access(store),
                    workflows=workflows,
                    chats=chats,
                    tools=self.tools,
                    tool_callers=Callers(supervisor, self.tools, chats, backend),
                    agent_tokens=AgentTokens(SECRET, supervisor),
                    backend=backend,
                    credentials=credentials,
                    oauth=oauth,
                )


@asynccontextmanager
async def _closing(part: EventStore | OAuth) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await part.close()


def plan(*work: str, name: str = "test", **more: Any) -> dict[str, Any]:
    """A plan document whose jobs ``job1``, ``job2`` … stand beside each other."""
    jobs = [{"producerId": f"job{n}", "task": "do it", "work": text} for n, text in enumerate(work, 1)]
    return {"name": name, "repoPath": REPO, "jobs": jobs, **more}


async def submit(services: Services, *work: str, **more: Any) -> str:
    spec = plan_from_data(plan(*work, **more))
    return await services.plans.submit(spec, Origin("local", "test"), repo=REPO)


async def ended(services: Services, run_id: str) -> str:
    """Wait until a run's leg is closed and the run is let go of; answers its status."""
    async with asyncio.timeout(PATIENCE_S):
        async for page in services.queries.pages(run_id, 0, 0.005):
            row = await services.queries.run(run_id)
            if not page and row.lifecycle in TERMINAL and run_id not in services.supervisor.live:
                return row.lifecycle.lower()
    raise AssertionError("the stream ended")


async def happened(services: Services, run_id: str, event_type: str) -> None:
    """Wait until a run's log has such an event."""
    async with asyncio.timeout(PATIENCE_S):
        async for batch in services.queries.follow(run_id):
            if any(recorded.event.type_name() == event_type for recorded in batch.recorded):
                return
