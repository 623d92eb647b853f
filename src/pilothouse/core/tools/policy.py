"""What becomes of a tool's calls: not offered, allowed, asked about, or denied.

The mode of a turn and what a tool touches decide whether it is offered at all, and what holds by default; rules of the
chat and of its user change the latter, never the former. Knows neither where rules are kept nor who answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from pilothouse.core.tools.spec import Permit, ToolSpec, Touches
from pilothouse.errors import BadInput


class Mode(StrEnum):
    """The command that a turn runs in."""

    CHAT = "chat"
    RESEARCH = "research"
    """It only looks."""
    CREATE_PLAN = "create_plan"
    """It looks, and drafts documents."""
    REVISE_PLAN = "revise_plan"
    IMPLEMENT_SIMPLE = "implement_simple"
    IMPLEMENT_COMPLEX = "implement_complex"


_LOOKING = {Touches.NOTHING: Permit.ALLOW}
_DRAFTING = {**_LOOKING, Touches.DOCUMENTS: Permit.ALLOW}
_WORKING = {**_DRAFTING, Touches.RUNS: Permit.ALLOW, Touches.FILES: Permit.ASK, Touches.WORLD: Permit.ASK}

DEFAULTS: Mapping[Mode, Mapping[Touches, Permit]] = MappingProxyType(
    {
        Mode.CHAT: MappingProxyType(_WORKING),
        Mode.RESEARCH: MappingProxyType(_LOOKING),
        Mode.CREATE_PLAN: MappingProxyType(_DRAFTING),
        Mode.REVISE_PLAN: MappingProxyType(_DRAFTING),
        Mode.IMPLEMENT_SIMPLE: MappingProxyType(_WORKING),
        Mode.IMPLEMENT_COMPLEX: MappingProxyType(_WORKING),
    }
)
"""By mode and by what a tool touches; what has no cell is not offered in that mode, whatever any rule says."""

EVERY = "*"
"""At the end of a rule's name: every tool that begins like that. Alone: every tool."""

Rules = Mapping[str, Permit]
"""By a tool's name, or by how names begin."""


def read_mode(name: str) -> Mode:
    """Raises ``BadInput`` for what is no mode."""
    try:
        return Mode(name)
    except ValueError:
        raise BadInput(f"{name!r} is no mode", field="mode", fix=f"one of {', '.join(Mode)}") from None


def leaves_files(mode: str) -> bool:
    """Whether no file is changed in this mode, whatever any rule says: what has tools of its own must be kept from it,
    too. Raises ``BadInput`` for an unknown mode."""
    return Touches.FILES not in DEFAULTS[read_mode(mode)]


def permit_of(spec: ToolSpec, mode: str, chat: Rules, user: Rules) -> Permit | None:
    """What becomes of calls of a tool; None when it is not offered in this mode.

    The most specific rule decides: the tool's name before how it begins, and of two alike the chat's before its user's.
    But whatever a chat denies, no rule of its user allows. Without a rule the tool's own word holds, then the table.
    Raises ``BadInput`` for an unknown mode."""
    default = DEFAULTS[read_mode(mode)].get(spec.touches)
    if default is None:
        return None
    narrow, wide = _rule(spec.name, chat), _rule(spec.name, user)
    if narrow is not None and (wide is None or narrow.permit is Permit.DENY or narrow.fit >= wide.fit):
        return narrow.permit
    return wide.permit if wide is not None else spec.permit or default


class _Rule(NamedTuple):
    fit: int
    """How much of the tool's name it says."""
    permit: Permit


def _rule(name: str, rules: Rules) -> _Rule | None:
    """The most specific one for a tool."""
    if name in rules:
        return _Rule(len(name) + 1, rules[name])  # more than any beginning
    fitting = (rule for rule in rules if rule.endswith(EVERY) and name.startswith(rule.removesuffix(EVERY)))
    longest = max(fitting, key=len, default=None)
    return None if longest is None else _Rule(len(longest) - len(EVERY), rules[longest])
