"""The statistics that the Copilot CLI prints for people when it is done, in the three forms it has had. Pure.

Only for versions and ways of starting it that leave nothing better: these figures are rounded, and one form does not
say of which model they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from pilothouse.adapters.agents.reading import UNIT_MS
from pilothouse.core.run.usage import Tally, Usage


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What was found. ``used`` has what is not told by model under ``""``; ``wall_ms`` is the session's time."""

    used: Tally
    wall_ms: int = 0


_Found: TypeAlias = tuple[str, Usage]
_Row: TypeAlias = tuple[re.Pattern[str], Callable[[re.Match[str]], _Found]]

_PREFIX = re.compile(r"^(?:\s*\[[^\]]*\])*\s*")
"""``[copilot]``, ``[12:46 PM] [INFO] [copilot]``."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER = r"([\d,]+(?:\.\d+)?\s*[kKmM]?)"
_SCALE = {"k": 1e3, "m": 1e6}


def parse_stats(text: str) -> Stats | None:
    """None when there are none in ``text``, which may hold anything else beside them."""
    used, wall_ms, found = Tally(), 0, False
    for model, usage in _lines(text):
        found = True
        wall_ms = usage.wall_ms or wall_ms
        used.add(model, msgspec.structs.replace(usage, wall_ms=0))
    if not found:
        return None
    if (rest := used.by_model.get("")) is not None:
        of_models = used.total.premium_requests - rest.premium_requests
        left = max(0, rest.premium_requests - of_models)  # they are told in all, and once more by model
        used.by_model[""] = msgspec.structs.replace(rest, premium_requests=left)
    return Stats(used=used, wall_ms=wall_ms)


def _lines(text: str) -> Iterator[_Found]:
    of_models = False
    for raw in text.splitlines():
        line = _PREFIX.sub("", _COLOUR.sub("", raw)).rstrip()
        if re.fullmatch(r"(?:Breakdown by AI model|Usage by model):", line):
            of_models = True
            continue
        row = next(
            (found for pattern, make in _TOTALS if (match := pattern.match(line)) and (found := make(match))), None
        )
        if row is None and of_models and (match := _MODEL.match(line)):
            row = _of_model(match)
        if row is not None:
            yield row


def _count(text: str) -> int:
    plain = text.replace(",", "").strip().lower()
    return round(float(plain.rstrip("km ")) * _SCALE.get(plain[-1:], 1))


def _milliseconds(text: str) -> int:
    """Of ``1h 2m 3s``, ``4.5s``, ``120ms``."""
    return round(sum(float(value) * UNIT_MS[unit] for value, unit in re.findall(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s)", text)))


def _changes(match: re.Match[str]) -> _Found:
    return "", Usage(lines_added=_count(match[1]), lines_removed=_count(match[2]))


def _api(match: re.Match[str]) -> _Found:
    return "", Usage(api_ms=_milliseconds(match[1]))


def _wall(match: re.Match[str]) -> _Found:
    return "", Usage(wall_ms=_milliseconds(match[1]))


def _premium(match: re.Match[str]) -> _Found:
    return "", Usage(premium_requests=float(match[1]), wall_ms=_milliseconds(match[2] or ""))


def _tokens(match: re.Match[str]) -> _Found:
    """``↑ 4.3k (2.6k cached) • ↓ 180 (40 reasoning)``, or ``↑ 4.3k • ↓ 180 • 2.6k (cached)``."""
    notes = {kind: _count(value) for value, kind in re.findall(_NUMBER + r"\s*\(?(cached|reasoning)\)", match[0])}
    return "", Usage(
        input_tokens=_count(match[1]),
        output_tokens=_count(match[2]),
        cached_tokens=notes.get("cached", 0),
        reasoning_tokens=notes.get("reasoning", 0),
    )


def _of_model(match: re.Match[str]) -> _Found:
    name, counts = match[1], match[2]

    def count(*words: str) -> int:
        found = re.search(_NUMBER + rf"\s*(?:{'|'.join(words)})\b", counts)
        return _count(found[1]) if found else 0

    return name, Usage(
        input_tokens=count("in", "input"),
        output_tokens=count("out", "output"),
        cached_tokens=count("cached", "cache read"),
        cache_write_tokens=count("cache write"),
        reasoning_tokens=count("reasoning"),
        premium_requests=float(estimate[1]) if (estimate := _ESTIMATE.search(counts)) else 0,
    )


_TOTALS: tuple[_Row, ...] = (
    (re.compile(r"Total usage est:\s*([\d.]+) Premium requests?()"), _premium),
    (re.compile(r"Requests\s+([\d.]+) Premium(?: requests?)?(?: \(([^)]*)\))?"), _premium),
    (re.compile(r"(?:API time spent|Total duration \(API\)):\s*(.+)"), _api),
    (re.compile(r"(?:Total session time|Total duration \(wall\)|Duration)\s*:?\s+(\d.*)"), _wall),
    (re.compile(r"(?:Total code changes:|Changes)\s+\+([\d,]+)\s+[-−]([\d,]+)"), _changes),
    (re.compile(r"Total code changes:\s*([\d,]+) lines? added, ([\d,]+) lines? removed"), _changes),
    (re.compile(rf"Tokens\s+↑\s*{_NUMBER}\s*(?:\([^)]*\)\s*)?•\s*↓\s*{_NUMBER}.*"), _tokens),
)
_ESTIMATE = re.compile(r"\(Est\. ([\d.]+) Premium requests?\)")
_MODEL = re.compile(rf"(\S+)\s+({_NUMBER}\s*in(?:put)?\b.*)")
