"""Evidence files: how a node that changes no file says what it did. Pure: bytes in, verdict out.

Knows the document's format (version 1); does not know where the file lies or what follows from it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

KINDS = frozenset({"file_changes", "external_effect", "analysis", "validation"})
MAX_BYTES = 1 << 20


class _Evidence(msgspec.Struct, rename="camel"):
    version: int
    node_id: str
    timestamp: str
    summary: str
    outcome: str | None = None
    type: str | None = None


def summary(data: bytes, evidence_id: str) -> str | None:
    """The summary of a valid evidence file of this node; None when it is invalid, which counts as absent."""
    try:
        found = msgspec.json.decode(data, type=_Evidence)
        datetime.fromisoformat(found.timestamp)
    except (msgspec.DecodeError, ValueError):
        return None
    text = found.summary.strip()
    known_type = found.type is None or found.type in KINDS
    return text if text and known_type and found.version == 1 and found.node_id == evidence_id else None
