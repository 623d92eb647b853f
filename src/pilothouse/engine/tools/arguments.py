"""The arguments of a call that somebody made by themselves, as a log can hold them. What they mean is the tool's."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.chat.plain import plain
from pilothouse.errors import BadInput

LARGEST_ARGUMENTS = 1 << 20
"""Bytes of JSON."""


def checked(arguments: object) -> dict[str, Any]:
    """Raises ``BadInput`` for what is no object, of too many levels, or too large."""
    told = plain(arguments)
    if not isinstance(told, dict):
        raise BadInput("are no JSON object, or one of too many levels", field="arguments", fix="send an object")
    if len(msgspec.json.encode(told)) > LARGEST_ARGUMENTS:
        raise BadInput("are too large", field="arguments", fix=f"at most {LARGEST_ARGUMENTS:,} bytes of JSON")
    return told
