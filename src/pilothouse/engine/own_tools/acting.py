"""For whom a tool acts: a principal made of the context of its call."""

from __future__ import annotations

from pilothouse.core.auth.principals import LOCAL, Kind, Principal, Scope
from pilothouse.core.tools.spec import ToolContext
from pilothouse.core.workflow.history import Note
from pilothouse.errors import BadInput

_SCOPES = frozenset({Scope.RUN})
"""A tool does what its user could start, and answers for no person: that is no model's to do."""


def acting_for(context: ToolContext) -> Principal:
    return Principal(context.owner, Kind.LOCAL if context.owner == LOCAL else Kind.KEY, _SCOPES)


def note_of(context: ToolContext, why: str) -> Note:
    """What a version that a tool makes says about itself."""
    return Note(why=why, chat_id=context.chat_id or None, message_id=context.message_id or None)


def workflow_meant(given: str, context: ToolContext) -> str:
    """The workflow of a call, by default that of the conversation. Raises ``BadInput``."""
    if found := given or context.workflow_id:
        return found
    raise BadInput("is required", field="workflowId", fix="list_workflows has the ids, create_workflow makes one")
