"""Workflows as they are kept: whose they are, versions that are never lost, and running one as a plan.

Every change is a new version with its author and reason. Whoever changes says which version they saw, and is refused
when another stands by now. What a workflow is, and whether it is right, is the core's to say.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.core.auth.policy import Action, reaches
from pilothouse.core.auth.principals import Principal
from pilothouse.core.plan.spec import PlanSpec
from pilothouse.core.run.segments import Document
from pilothouse.core.workflow.changes import Changes, changes_between
from pilothouse.core.workflow.document import Workflow
from pilothouse.core.workflow.edit import edit
from pilothouse.core.workflow.history import Kept, Kind, Note, Revision, decode, decode_outline, encode
from pilothouse.core.workflow.operations import Operation
from pilothouse.core.workflow.to_plan import check_workflow, compile_workflow, plan_file
from pilothouse.engine.plans.plans import Origin, Plans
from pilothouse.engine.ports import Clock, EventStore, Ids
from pilothouse.errors import BadInput, NotFound, WrongSequence

KIND = "workflow"

NO_NOTE = Note()


class Version(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One version of a workflow. Times are milliseconds since the epoch: ``created_at`` of the first version,
    ``updated_at`` of this one."""

    id: str
    version: int
    owner: str
    created_at: int
    updated_at: int
    revision: Revision


class StoredWorkflow(Version, frozen=True, kw_only=True, rename="camel"):
    """One version with its content."""

    workflow: Workflow


class Glance(Version, frozen=True, kw_only=True, rename="camel"):
    """One version without its content: how many blocks and edges it has."""

    name: str
    blocks: int
    edges: int


class Compiled(msgspec.Struct, frozen=True):
    """The plan that one version of a workflow stands for."""

    id: str
    version: int
    spec: PlanSpec


class Begun(msgspec.Struct, frozen=True):
    """A plan that was made of a version of a workflow."""

    plan_id: str
    id: str
    version: int


class Workflows:
    """Workflows by id. One that a principal may not see is not there for it."""

    def __init__(self, *, store: EventStore, plans: Plans, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._plans = plans
        self._clock = clock
        self._ids = ids

    async def create(self, workflow: Workflow, principal: Principal, note: Note = NO_NOTE) -> StoredWorkflow:
        """The first version; it belongs to ``principal``. Raises ``BadInput``."""
        await asyncio.to_thread(check_workflow, workflow)
        changes = changes_between(Workflow(name=workflow.name), workflow)
        now = self._clock.now_ms()
        kept = Kept(created_at=now, revision=_revision(Kind.CREATED, principal, note, changes), workflow=workflow)
        return await self._put(self._ids.new(), 0, principal.name, now, kept)

    async def list(self, principal: Principal) -> builtins.list[Glance]:
        """What a principal sees, the last changed first."""
        found = await self._store.documents(KIND)
        seen = [_glance(one) for one in found if reaches(principal, Action.READ_WORKFLOWS, one.owner)]
        return sorted(seen, key=lambda one: (one.updated_at, one.id), reverse=True)

    async def get(self, id: str, principal: Principal, version: int | None = None) -> StoredWorkflow:
        """As it stands, or as it was. Raises ``NotFound``."""
        return _stored(await self._document(id, principal, Action.READ_WORKFLOWS, version))

    async def versions(
        self, id: str, principal: Principal, *, before: int | None = None, limit: int = 100
    ) -> builtins.list[Glance]:
        """Newest first; with ``before`` only versions below it. Raises ``NotFound``."""
        await self._document(id, principal, Action.READ_WORKFLOWS)
        return [_glance(one) for one in await self._store.document_versions(KIND, id, before=before, limit=limit)]

    async def edit(
        self, id: str, principal: Principal, version: int, operations: Sequence[Operation], note: Note = NO_NOTE
    ) -> StoredWorkflow:
        """All operations, or none; the answer's revision says what they changed. Where that is nothing, no version is
        made.

        Raises ``NotFound``, ``WrongSequence`` when another version stands than ``version``, ``BadInput``."""
        standing = await self._standing(id, principal, version)
        workflow, changes = await asyncio.to_thread(edit, standing.workflow, operations)
        return await self._next(standing, workflow, _revision(Kind.EDITED, principal, note, changes))

    async def replace(
        self, id: str, principal: Principal, version: int, workflow: Workflow, note: Note = NO_NOTE
    ) -> StoredWorkflow:
        """Another content, whatever was there before. Raises as ``edit`` does."""
        standing = await self._standing(id, principal, version)
        await asyncio.to_thread(check_workflow, workflow)
        changes = changes_between(standing.workflow, workflow)
        return await self._next(standing, workflow, _revision(Kind.REPLACED, principal, note, changes))

    async def revert(
        self, id: str, principal: Principal, version: int, to: int, note: Note = NO_NOTE
    ) -> StoredWorkflow:
        """A new version with the content of version ``to``. Raises as ``edit`` does."""
        standing = await self._standing(id, principal, version)
        if not 1 <= to <= standing.version:
            raise BadInput(f"there is no version {to}", field="to", fix=f"give one from 1 to {standing.version}")
        workflow = (await self.get(id, principal, to)).workflow
        await asyncio.to_thread(check_workflow, workflow)  # what was right then need not be right today
        changes = changes_between(standing.workflow, workflow)
        return await self._next(standing, workflow, _revision(Kind.REVERTED, principal, note, changes, to))

    async def delete(self, id: str, principal: Principal) -> None:
        """With all its versions. Plans that were made of it go on. Raises ``NotFound``."""
        await self._document(id, principal, Action.CHANGE_WORKFLOWS)
        await self._store.delete_document(KIND, id)

    async def plan_file(self, id: str, principal: Principal, version: int | None = None) -> dict[str, Any]:
        """The plan file, as data, that says the same. Raises ``NotFound``, ``BadInput``."""
        found = await self.get(id, principal, version)
        return await asyncio.to_thread(plan_file, found.workflow)

    async def compiled(self, id: str, principal: Principal, version: int | None = None) -> Compiled:
        """What ``run`` would run. Raises ``NotFound``, ``BadInput``."""
        found = await self.get(id, principal, version)
        return Compiled(id, found.version, await asyncio.to_thread(compile_workflow, found.workflow))

    async def run(
        self,
        compiled: Compiled,
        principal: Principal,
        *,
        repo: str,
        session_id: str | None = None,
        parent_run_id: str | None = None,
        update_checkout: bool = False,
        key: str | None = None,
    ) -> str:
        """Run it as a plan of ``principal``, whose cause names workflow and version; answers the plan's id. ``repo`` is
        one that the caller lets this principal work in. Raises as ``Plans.submit`` does."""
        origin = Origin(principal.name, f"{KIND}:{compiled.id}@{compiled.version}", session_id, parent_run_id)
        return await self._plans.submit(compiled.spec, origin, repo=repo, update_checkout=update_checkout, key=key)

    async def begun(self, principal: Principal, key: str) -> Begun | None:
        """What ``run`` has begun under a key, whatever became of its workflow since. Raises ``Gone`` when that plan was
        deleted."""
        row = await self._plans.submitted(principal.name, key)
        if row is None or not row.cause.startswith(f"{KIND}:"):
            return None
        id, _, version = row.cause.removeprefix(f"{KIND}:").rpartition("@")
        return Begun(row.id, id, int(version))

    async def _document(self, id: str, principal: Principal, action: Action, version: int | None = None) -> Document:
        standing = await self._store.document(KIND, id)
        if not reaches(principal, action, standing.owner):
            raise NotFound(f"there is no {KIND} {id}")
        return standing if version is None else await self._store.document(KIND, id, version)

    async def _standing(self, id: str, principal: Principal, version: int) -> StoredWorkflow:
        standing = _stored(await self._document(id, principal, Action.CHANGE_WORKFLOWS))
        if standing.version != version:
            raise WrongSequence(
                f"{KIND} {id} is at version {standing.version} by now, not {version}; look at it again, then change it"
            )
        return standing

    async def _next(self, standing: StoredWorkflow, workflow: Workflow, revision: Revision) -> StoredWorkflow:
        if revision.changes == Changes():
            return msgspec.structs.replace(
                standing, revision=msgspec.structs.replace(standing.revision, changes=Changes())
            )
        kept = Kept(created_at=standing.created_at, revision=revision, workflow=workflow)
        return await self._put(standing.id, standing.version, standing.owner, self._clock.now_ms(), kept)

    async def _put(self, id: str, version: int, owner: str, at: int, kept: Kept) -> StoredWorkflow:
        document = Document(kind=KIND, id=id, version=version, owner=owner, updated_at=at, body=encode(kept))
        return _stored(await self._store.put_document(document))


def _revision(
    kind: Kind, principal: Principal, note: Note, changes: Changes, reverted_to: int | None = None
) -> Revision:
    return Revision(
        kind=kind,
        by=principal.name,
        why=note.why,
        chat_id=note.chat_id,
        message_id=note.message_id,
        reverted_to=reverted_to,
        changes=changes,
    )


def _stored(document: Document) -> StoredWorkflow:
    kept = decode(document.body)
    return StoredWorkflow(
        id=document.id,
        version=document.version,
        owner=document.owner,
        created_at=kept.created_at,
        updated_at=document.updated_at,
        revision=kept.revision,
        workflow=kept.workflow,
    )


def _glance(document: Document) -> Glance:
    kept = decode_outline(document.body)
    return Glance(
        id=document.id,
        version=document.version,
        owner=document.owner,
        created_at=kept.created_at,
        updated_at=document.updated_at,
        revision=kept.revision,
        name=kept.workflow.name,
        blocks=len(kept.workflow.blocks),
        edges=len(kept.workflow.edges),
    )
