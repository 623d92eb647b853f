"""Parts of what backends tell that both wires have in common, told in their many ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from pilothouse.core.chat.backend import BackendEvent, NotUnderstood, Paused, Said, Spent

T = TypeVar("T")

_SHOWN = 200
"""Bytes of a payload that is not understood which are told."""
Json: TypeAlias = dict[str, Any]

_MOST_TOKENS, _MOST_COST = 1 << 48, 1e9
"""Of one request, in tokens and US dollars: more is no number of anything, nor can every reader of a log hold it."""


def one_a_line(payloads: Sequence[bytes]) -> bytes | None:
    """All payloads as lines, to be decoded in one go, several times as fast as one by one; None when one of them may
    not be one value.

    Decoders mind no line ends. But what begins and ends with a brace cannot go on in the next line, and is no less than
    a value; so as many values as payloads are one each."""
    lines = b"\n".join(payloads)
    between = len(payloads) - 1
    if lines.startswith(b"{") and lines.endswith(b"}") and lines.count(b"\n") == between == lines.count(b"}\n{"):
        return lines
    return None


def decoded(decode_lines: Callable[[bytes], list[T]], lines: bytes, payloads: Sequence[bytes]) -> list[T] | None:
    """What each payload is, of which ``lines`` was made; None when one of them is nothing that is decoded."""
    try:
        events = decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return events if len(events) == len(payloads) else None


def joined(
    events: Sequence[T],
    payloads: Sequence[bytes],
    plain: Callable[[T], str | None],
    tell: Callable[[T, bytes], list[BackendEvent]],
) -> list[BackendEvent]:
    """What several events say, text that follows text in one piece. ``plain``: the text of an event that is nothing
    but a piece of the answer; ``tell``: what any other one says."""
    found: list[BackendEvent] = []
    text: list[str] = []
    for event, payload in zip(events, payloads, strict=True):
        if (said := plain(event)) is not None:
            text.append(said)
            continue
        if text:
            found.append(Said("".join(text)))
            text = []
        found += tell(event, payload)
    if text:
        found.append(Said("".join(text)))
    return found


def paused(told: Json) -> Paused:
    """A checkpoint, as either wire tells it."""
    pending, frames = told.get("pendingToolCallIds"), told.get("frames")
    return Paused(
        checkpoint_id=str(told.get("checkpointId") or ""),
        run_id=str(told.get("runId") or ""),
        pending=tuple(one for one in pending if isinstance(one, str)) if isinstance(pending, list) else (),
        frames=tuple(one for one in frames if isinstance(one, dict)) if isinstance(frames, list) else (),
    )


def spent(usage: Json, cost: object) -> Spent:
    """Usage and cost, as either wire tells them; numbers that cannot be meant are as good as none."""

    def count(*names: str) -> int:
        return sum(value for name in names if type(value := usage.get(name)) is int and 0 < value <= _MOST_TOKENS)

    total = cost.get("total") if isinstance(cost, dict) else cost
    return Spent(
        input_tokens=count("input_tokens"),
        output_tokens=count("output_tokens"),
        cached_tokens=count("cache_read_input_tokens", "cached_tokens", "cache_read_tokens"),
        model=str(usage.get("model") or ""),
        cost=_cost(total),
    )


def _cost(told: object) -> float | None:
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    return float(told) if 0 <= told <= _MOST_COST else None


def json_in(text: str) -> Any:
    """The value of JSON text; None for what is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def first_text(*values: object) -> str:
    """The first that is text and not empty."""
    return next((one for one in values if isinstance(one, str) and one), "")


def message_in(value: object) -> str:
    """An error's text, which may stand in an object."""
    if isinstance(value, dict):
        value = value.get("message")
    return value if isinstance(value, str) else ""


def odd(why: str, payload: bytes) -> NotUnderstood:
    return NotUnderstood(why=why, payload=payload[:_SHOWN].decode("utf-8", "replace"))
