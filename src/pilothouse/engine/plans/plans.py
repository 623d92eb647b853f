"""Submitting plans, and what one may ask of a plan, its nodes and its groups.

Everything that can be checked is checked here, against the real repository, before anything exists: a plan that was
accepted can be executed, and one that was refused has left no trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from pilothouse.core.plan.build import Plan, build_plan
from pilothouse.core.plan.events import PlanBuilt
from pilothouse.core.plan.integration import Repository
from pilothouse.core.plan.intents import made_branch
from pilothouse.core.plan.kind import PlanKind, Submit
from pilothouse.core.plan.spec import AgentSpec, PlanSpec
from pilothouse.core.plan.state import NodeState, PlanState
from pilothouse.core.run.agents import Permissions
from pilothouse.core.run.events import Link, RunCreated
from pilothouse.core.run.inputs import CancelPart, Retry
from pilothouse.core.run.lifecycle import TERMINAL
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.keyed import keyed_id
from pilothouse.engine.ports import Agents, Clock, EventStore, Executor, Git, Ids, LogStore
from pilothouse.errors import BadInput, NotFound, Refused, Unavailable

T = TypeVar("T")

GIT_NEEDED = (2, 38, 0)

BACKOFF_MS = 30_000
"""The pause before a node whose agent failed for a reason that passes is tried again; it doubles with each try."""


class Origin:
    """Who submits a plan, and from where: a conversation, and the run that asked for it."""

    def __init__(self, owner: str, cause: str, session_id: str | None = None, parent_run_id: str | None = None) -> None:
        self.owner = owner
        self.cause = cause
        self.session_id = session_id
        self.parent_run_id = parent_run_id


class Plans:
    """Plans by id."""

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        store: EventStore,
        git: Git,
        executor: Executor,
        logs: LogStore,
        clock: Clock,
        ids: Ids,
        agents: Agents,
        worktree_root: str,
        backoff_ms: int = BACKOFF_MS,
    ) -> None:
        self._supervisor = supervisor
        self._store = store
        self._git = git
        self._executor = executor
        self._logs = logs
        self._clock = clock
        self._ids = ids
        self._agents = agents
        self._worktree_root = worktree_root
        self._backoff_ms = backoff_ms
        self._creating = asyncio.Lock()

    async def submit(
        self, spec: PlanSpec, origin: Origin, *, repo: str, update_checkout: bool = False, key: str | None = None
    ) -> str:
        """Check a plan against the world and enqueue it; answers its id. ``repo`` is an absolute path.

        ``key``: whoever submits again under the same key, because they do not know whether the first time went well,
        gets the id of the plan that exists already, whatever they submit.

        Raises ``BadInput`` naming the field, ``Unavailable`` when git or an agent is missing or too old; then nothing
        was created. ``Gone`` when the plan of this key was deleted."""
        run_id = self._ids.new() if key is None else keyed_id(origin.owner, key)
        if key is not None and await self.submitted(origin.owner, key):
            return run_id
        await self._check_git()
        await self._check_agents(spec)
        repository = await naming("repoPath", self._git.inspect(repo))
        base_branch, base_commit = await self._base(spec, repository)
        root = repository.root
        if not root.isprintable():
            raise BadInput("its path is not plain text", field="repoPath", fix="rename the folder, or use a link to it")
        target = spec.target_branch or made_branch(spec.name)
        await naming("targetBranch", self._git.check_branch_name(target, root))
        plan = build_plan(spec, self._ids.new)
        bases = await self._bases(plan, root)
        created = RunCreated(
            kind=PlanKind.name,
            name=spec.name,
            owner=origin.owner,
            session_id=origin.session_id,
            parent_run_id=origin.parent_run_id,
            root_run_id=run_id,
            link=Link.DETACHED,
            cause=origin.cause,
        )
        built = PlanBuilt(
            plan=plan,
            repo_path=root,
            base_branch=base_branch,
            base_commit=base_commit,
            bases=bases,
            target_branch=spec.target_branch,
            update_checkout=update_checkout,
            worktree_root=self._worktree_root,
            backoff_ms=self._backoff_ms,
        )
        submit = Submit(created=created, built=built)
        if key is None:
            await self._supervisor.create(PlanKind.name, run_id, submit)
        else:
            async with self._creating:  # of two that come at once, the second finds the first
                if not await self.submitted(origin.owner, key):
                    await self._supervisor.create(PlanKind.name, run_id, submit)
        return run_id

    async def submitted(self, owner: str, key: str) -> RunRow | None:
        """The plan that was submitted under a key, if one was. Raises ``Gone`` when it was deleted."""
        try:
            return await self._store.row(keyed_id(owner, key))
        except NotFound:
            return None

    async def _check_git(self) -> None:
        version = await self._git.version()
        if version < GIT_NEEDED:
            have, need = (".".join(map(str, v)) for v in (version, GIT_NEEDED[:2]))
            raise Unavailable(f"git {need} or newer is needed to merge without a checkout; this is {have}")

    async def _check_agents(self, spec: PlanSpec) -> None:
        """All at once, since each may ask a program; what is wrong is told in the order of the plan."""
        checks = [
            self._check_agent(f"jobs[{index}].{field}", work, spec.permissions)
            for index, job in enumerate(spec.jobs)
            for field in ("work", "prechecks", "postchecks")
            if isinstance(work := getattr(job, field), AgentSpec)
        ]
        for found in await asyncio.gather(*checks, return_exceptions=True):
            if isinstance(found, BaseException):
                raise found

    async def _check_agent(self, field: str, spec: AgentSpec, permissions: Permissions) -> None:
        try:
            await self._agents.check(spec, permissions)
        except BadInput as error:
            path = ".".join(part for part in (field, error.field) if part)
            raise BadInput(error.message, field=path, fix=error.fix) from error
        except Unavailable as error:
            raise Unavailable(f"{field}: {error}") from error

    async def _base(self, spec: PlanSpec, repository: Repository) -> tuple[str, str]:
        if repository.bare:
            raise BadInput("is a bare repository", field="repoPath", fix="give one with a working tree")
        name = spec.base_branch or repository.head_branch
        if name is None:
            fix = "say baseBranch, or check a branch out"
            raise BadInput("HEAD is detached, so there is no current branch to start from", field="baseBranch", fix=fix)
        if name == repository.head_branch and repository.head_commit is None:
            raise BadInput(f"{name} has no commit yet", field="baseBranch", fix="commit something first")
        return name, await naming("baseBranch", self._git.resolve(repository.root, name))

    async def _bases(self, plan: Plan, repo: str) -> dict[str, str]:
        bases: dict[str, str] = {}
        for node in plan.nodes.values():
            if node.base_branch is not None:
                field = f"jobs[{node.order}].baseBranch"
                bases[node.id] = await naming(field, self._git.resolve(repo, node.base_branch))
        return bases

    async def retry(self, plan_id: str, nodes: tuple[str, ...] = (), *, fresh: bool = False) -> None:
        """Raises ``NotFound``, ``Refused``."""
        await self._supervisor.tell(plan_id, Retry(scopes=nodes, fresh=fresh))

    async def cancel_part(self, plan_id: str, scope: str) -> None:
        """Cancel a node or a group; what depends on it is blocked. Raises ``NotFound``, ``Refused``."""
        await self._supervisor.tell(plan_id, CancelPart(scope=scope))

    async def delete(self, plan_id: str) -> None:
        """Delete an ended plan: worktrees (what is dirty is saved under a rescue ref, which stays), pins, output, log.

        Raises ``Refused`` while it is live, ``NotFound``, ``Gone``."""
        await self._require_ended(plan_id)
        with self._supervisor.deleting(plan_id):  # from here on nobody can go on with it
            await self._require_ended(plan_id)
            await self._clean_up(plan_id)
            await self._supervisor.delete(plan_id, self._clock.now_ms())

    async def _require_ended(self, plan_id: str) -> None:
        row = await self._store.row(plan_id)
        if row.kind != PlanKind.name:
            raise NotFound(f"{plan_id} is a {row.kind}, not a plan")
        if row.lifecycle not in TERMINAL:
            raise Refused(f"it is {row.lifecycle.lower()}; stop or cancel it first")

    async def _clean_up(self, plan_id: str) -> None:
        state: PlanState = await self._supervisor.read(plan_id, lambda state, _: state)
        for node in state.nodes.values():
            await self._remove_worktrees(state, node)
        repo = state.facts.repo_path
        try:
            await self._git.delete_refs(repo, f"plans/{plan_id}")
        except BadInput:
            pass  # the repository itself is gone, and its refs with it
        for key in (await self._executor.inventory()).ended:
            if key.startswith(f"{plan_id}/"):
                await self._executor.forget(key)
        await self._agents.forget(plan_id)
        await self._logs.delete(plan_id)

    async def _remove_worktrees(self, state: PlanState, node: NodeState) -> None:
        repo = state.facts.repo_path
        for attempt in node.attempts:
            if attempt.worktree_exists:
                try:
                    ref = state.rescue_ref(node.node, attempt.number)
                    await self._git.rescue(repo, attempt.worktree_path, ref, "Left in a worktree of a deleted plan")
                    await self._git.remove_worktree(repo, attempt.worktree_path)
                except BadInput:
                    continue  # worktree or repository are gone already


async def naming(field: str, question: Awaitable[T]) -> T:
    """Await something that may raise ``BadInput``, and name the field it is about."""
    try:
        return await question
    except BadInput as error:
        raise BadInput(error.message, field=field, fix=error.fix) from error
