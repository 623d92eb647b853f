"""What is kept of each version of a workflow: the workflow, and who made it what it is, how and why.

Every version can be gone back to. Knows the stored form, and not where it is stored.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from pilothouse.core.workflow.changes import Changes
from pilothouse.core.workflow.document import Workflow


class Kind(StrEnum):
    """How a version came about."""

    CREATED = "created"
    EDITED = "edited"
    REPLACED = "replaced"
    REVERTED = "reverted"


class Note(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What whoever makes a version says about it: why, and in which message of which conversation it was asked for."""

    why: str = ""
    chat_id: str | None = None
    message_id: str | None = None


class Revision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What made a version what it is. ``by`` is a principal, ``reverted_to`` the version that was gone back to."""

    kind: Kind
    by: str
    why: str = ""
    chat_id: str | None = None
    message_id: str | None = None
    reverted_to: int | None = None
    changes: Changes = Changes()
    """Against the version before."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One version as it is stored. ``created_at`` is when the first one came about, in milliseconds since the epoch."""

    created_at: int
    revision: Revision
    workflow: Workflow


class Outline(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow without its content: what a list needs, read without looking into blocks."""

    name: str
    blocks: tuple[msgspec.Raw, ...]
    edges: tuple[msgspec.Raw, ...]


class KeptOutline(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The same JSON as ``Kept``."""

    created_at: int
    revision: Revision
    workflow: Outline


def encode(kept: Kept) -> bytes:
    return msgspec.json.encode(kept)


_decode = msgspec.json.Decoder(Kept).decode
_decode_outline = msgspec.json.Decoder(KeptOutline).decode


def decode(body: bytes) -> Kept:
    return _decode(body)


def decode_outline(body: bytes) -> KeptOutline:
    return _decode_outline(body)
