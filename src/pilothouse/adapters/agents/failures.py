"""What the failure of a model's API says, where an agent hands it on as text: the message in its JSON, its HTTP status.
Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from pilothouse.adapters.agents.reading import NOT_JSON, retry_after_ms, shown

_STATUS = re.compile(r"\b(?:status|code)\b[\"']?:? *[\"']?([45]\d\d)\b", re.IGNORECASE)
_USED_UP = re.compile(r"usage.?limit|context.?(?:length|window)", re.IGNORECASE)
_QUOTA = re.compile(r"quota|billing", re.IGNORECASE)


def message_of(text: str) -> str:
    """The message within an error that is JSON, however deep; a text that is not JSON as it is."""
    try:
        found: Any = msgspec.json.decode(text)
    except NOT_JSON:
        return text
    while isinstance(found, dict) and (inner := found.get("error") or found.get("message")):
        found = inner
    return shown(found)


def status_of(text: str) -> int | None:
    """The HTTP status a message tells; None when it tells none."""
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def lasts(text: str) -> bool:
    """Whether a failure is the same when tried again soon, although its status may be that of one that passes: an
    account's limit is reached, or a conversation has grown too long. A quota that says when it is back passes."""
    return _USED_UP.search(text) is not None or (_QUOTA.search(text) is not None and not retry_after_ms(text))
