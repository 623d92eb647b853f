"""Values from outside, as the log can hold them: what is folded again later is what was decided on."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_NOTICE_BYTES = 16_384
_SHOWN = 2_000
MOST_LEVELS = 200
"""Of a value within values. Whoever keeps, folds or shows deeper ones runs out of stack, each at another depth."""


def plain(value: Any) -> Any:
    """A value as JSON has it. What JSON cannot say, or is too deep to be handed on, is told as text."""
    if value is None or value is True or value is False:
        return value
    try:
        body = msgspec.json.encode(value)
        if body.count(b"{") + body.count(b"[") > MOST_LEVELS and _is_deep(value):
            return body[:_SHOWN].decode("utf-8", "replace")
        return msgspec.json.decode(body)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return _forced(value)


def _forced(value: Any) -> Any:
    try:
        text = json.dumps(value, default=str, ensure_ascii=False, skipkeys=True)
        return msgspec.json.decode(msgspec.json.encode(json.loads(clean(text))))  # the latter knows no NaN
    except RecursionError:
        return f"({type(value).__name__} of too many levels)"
    except (TypeError, ValueError, msgspec.MsgspecError):
        return clean(repr(value)[:_SHOWN])


def is_deep(body: bytes) -> bool:
    """Whether what JSON text says has more than ``MOST_LEVELS`` levels."""
    if body.count(b"{") + body.count(b"[") <= MOST_LEVELS:
        return False
    try:
        return _is_deep(msgspec.json.decode(body))
    except RecursionError:
        return True


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_LEVELS):
        inner = [
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list | tuple)
        ]
        level = [one for values in inner for one in values]
        if not level:
            return False
    return True


def clean(text: str) -> str:
    """Text that UTF-8 can say: half of a surrogate pair, which some sources cut, is replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def cut(text: str, length: int) -> str:
    return clean(text if len(text) <= length else text[: length - 1] + "…")


def plain_object(data: dict[str, Any]) -> dict[str, Any]:
    """The same of an object, which stays one."""
    told = plain(data)
    return told if isinstance(told, dict) else {"cut": told}


def small(data: dict[str, Any]) -> dict[str, Any]:
    """An object that is not stored as a whole when it is large; the beginning of its text is."""
    told = plain(data)
    body = msgspec.json.encode(told)
    if len(body) <= _NOTICE_BYTES and isinstance(told, dict):
        return told
    return {"cut": body[:_SHOWN].decode("utf-8", "replace")}
