"""What a conversation did to workflows, and taking it back: every version of a workflow says which chat made it."""

from __future__ import annotations

from pilothouse.core.auth.principals import Principal
from pilothouse.core.workflow.history import Kind, Note
from pilothouse.engine.chats.values import Checkpoint
from pilothouse.engine.plans.workflows import Glance, StoredWorkflow, Workflows
from pilothouse.errors import NotFound, Refused

_PAGE = 100


async def checkpoints_of(workflows: Workflows, chat_id: str, principal: Principal) -> list[Checkpoint]:
    """Newest first."""
    found = [
        _checkpoint(version)
        for workflow in await workflows.list(principal)
        for version in await _versions(workflows, workflow.id, principal)
        if version.revision.chat_id == chat_id
    ]
    return sorted(found, key=lambda one: (one.at, one.workflow_id, one.version), reverse=True)


async def revert_to(workflows: Workflows, chat_id: str, principal: Principal, checkpoint: str) -> StoredWorkflow:
    """A new version with what the workflow was before ``checkpoint``. Raises ``NotFound`` for one that this chat did
    not make, ``Refused`` where there was nothing before it."""
    workflow_id, _, number = checkpoint.rpartition("@")
    if not workflow_id or not number.isdecimal() or len(number) > 9:
        raise NotFound(f"there is no checkpoint {checkpoint!r}")
    version = await workflows.get(workflow_id, principal, int(number))
    if version.revision.chat_id != chat_id:
        raise NotFound(f"there is no checkpoint {checkpoint!r}")
    if version.revision.kind is Kind.CREATED or version.version == 1:
        raise Refused("the workflow was created then; delete it instead")
    standing = await workflows.get(workflow_id, principal)
    note = Note(why=f"back to before version {version.version}", chat_id=chat_id)
    return await workflows.revert(workflow_id, principal, standing.version, version.version - 1, note)


async def _versions(workflows: Workflows, workflow_id: str, principal: Principal) -> list[Glance]:
    versions: list[Glance] = []
    before: int | None = None
    while True:
        page = await workflows.versions(workflow_id, principal, before=before, limit=_PAGE)
        versions += page
        if len(page) < _PAGE:
            return versions
        before = page[-1].version


def _checkpoint(version: Glance) -> Checkpoint:
    return Checkpoint(
        id=f"{version.id}@{version.version}",
        workflow_id=version.id,
        workflow_name=version.name,
        version=version.version,
        message_id=version.revision.message_id,
        why=version.revision.why,
        at=version.updated_at,
    )
