"""A file of replies for the scripted backend: its rules and steps, as values.

Pure: text in, values out. The whole file is checked when it is read, so that a mistake shows at once and not in the
middle of a conversation.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from pilothouse.core.plan.spec_text import read_data
from pilothouse.errors import BadInput

MAX_WAIT_MS = 24 * 60 * 60 * 1000
_PATH = re.compile(r" - at `\$(?:\.)?(?P<path>[^`]*)`$")


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call. ``later``: go on without its result until another step needs one."""

    tool: str
    arguments: dict[str, Any] = {}
    id: str = ""
    later: bool = False


class Failure(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """``times``: only the first so many requests fail, those after it go on; 0: all of them. ``transient``: as a
    connection fails, so that it is tried again."""

    message: str
    code: str = ""
    shown: str = ""
    transient: bool = False
    retry_after_ms: int = 0
    times: int = 0


class Tokens(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: str = ""
    input: int = 0
    output: int = 0
    cached: int = 0
    cost: float | None = None


class Slowly(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Text word by word, ``every`` so many milliseconds."""

    text: str
    every: int = 30


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent's own tool that needs permission."""

    tool: str
    title: str = ""
    input: str = ""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of these. With ``only`` it is done if the last results were so, else passed over."""

    only: Literal["succeeded", "failed"] | None = None
    say: str | Slowly | None = None
    think: str | None = None
    call: Call | tuple[Call, ...] | None = None
    results: bool | None = None
    """Wait for those of the calls made ``later``."""
    subagent: Subagent | None = None
    ask: str | Question | None = None
    use: Tokens | None = None
    title: str | None = None
    wait: int | None = None
    fail: str | Failure | None = None
    end: bool | None = None
    """The stream ends here, without a last word."""


class Subagent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A subagent's lane; in it only text, thoughts and waits."""

    agent: str
    steps: tuple[Step, ...] = ()
    result: str = ""


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is given must be so. ``contains`` minds no capitals; ``steering``: this is for what is said while a turn
    goes on."""

    contains: str | tuple[str, ...] = ()
    matches: str = ""
    mode: str | tuple[str, ...] = ()
    steering: bool = False


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    when: When = When()
    steps: tuple[Step, ...]


class Replies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first rule that fits counts, else ``otherwise``."""

    rules: tuple[Rule, ...] = ()
    otherwise: tuple[Step, ...] = (Step(say="The script has no reply to that."),)
    title: str = ""


_IN_LANES = frozenset({"say", "think", "wait"})
_CALLING = frozenset({"call", "results", "subagent"})
_KINDS = Step.__struct_fields__[1:]


def read_replies(text: bytes | str, source: str) -> Replies:
    """Raises ``BadInput`` naming the field."""
    data = read_data(text, source)
    if isinstance(data, list):
        data = {"otherwise": data}
    try:
        replies = msgspec.convert(data, Replies, strict=False)
    except msgspec.ValidationError as error:
        found = _PATH.search(str(error))
        message = str(error)[: found.start()] if found else str(error)
        raise BadInput(f"{message} in {source}", field=found["path"] if found else "") from None
    for index, rule in enumerate(replies.rules):
        _check_pattern(rule.when.matches, f"rules[{index}].when.matches")
        _check(rule.steps, f"rules[{index}].steps")
    _check(replies.otherwise, "otherwise")
    return replies


def _check(steps: tuple[Step, ...], field: str, *, lane: bool = False) -> None:
    for index, step in enumerate(steps):
        here = f"{field}[{index}]"
        given = [name for name in _KINDS if getattr(step, name) is not None]
        if len(given) != 1:
            raise BadInput(
                f"has {' and '.join(given) or 'nothing'}", field=here, fix=f"write one of {', '.join(_KINDS)}"
            )
        if step.only is not None and given[0] in _CALLING:
            raise BadInput(f"{given[0]} cannot depend on results", field=f"{here}.only", fix="say what they were")
        if lane and given[0] not in _IN_LANES:
            raise BadInput(f"{given[0]} cannot be done by a subagent", field=here, fix="use say, think or wait")
        if step.wait is not None and not 0 <= step.wait <= MAX_WAIT_MS:
            raise BadInput(f"is not from 0 to {MAX_WAIT_MS} milliseconds", field=f"{here}.wait")
        if step.call == ():
            raise BadInput("is an empty list", field=f"{here}.call", fix="name a tool")
        if step.subagent is not None:
            _check(step.subagent.steps, f"{here}.subagent.steps", lane=True)


def _check_pattern(pattern: str, field: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise BadInput(f"is not a regular expression: {error}", field=field) from None
