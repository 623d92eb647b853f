"""The replies of the scripted agent: what each may say, and how it is read. A table: a new reply is one line in it.

Pure. Standard library only, because the agent's process imports it. Scalars come as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from pilothouse.errors import BadInput

MAX_SLEEP_MS = 24 * 60 * 60 * 1000
_DIGITS = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True)
class Think:
    text: str


@dataclass(frozen=True, slots=True)
class Write:
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Append:
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


@dataclass(frozen=True, slots=True)
class Expect:
    path: str
    contains: str


@dataclass(frozen=True, slots=True)
class Run:
    command: str


@dataclass(frozen=True, slots=True)
class Tool:
    """Only told, not done."""

    name: str
    input: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """Of a tool of the server it was given. ``arguments``: JSON values."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """For permission."""

    tool: str
    input: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """Tokens, as a model would."""

    model: str
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Sleep:
    ms: int


@dataclass(frozen=True, slots=True)
class Commit:
    message: str


@dataclass(frozen=True, slots=True)
class Fail:
    message: str


@dataclass(frozen=True, slots=True)
class Limit:
    """Fail for having asked too much; again not before ``ms``."""

    ms: int


@dataclass(frozen=True, slots=True)
class Print:
    """A line that is none of the agent's own."""

    text: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Linger:
    """Say that all is done, and go on for ``ms``."""

    ms: int


@dataclass(frozen=True, slots=True)
class Exit:
    """At once, without another word."""

    status: int


Reply: TypeAlias = (
    Say
    | Think
    | Write
    | Append
    | Delete
    | Expect
    | Run
    | Tool
    | Call
    | Ask
    | Use
    | Sleep
    | Commit
    | Fail
    | Limit
    | Print
    | Linger
    | Exit
)
Replies: TypeAlias = tuple[Reply, ...]


def read_reply(data: object, field: str) -> Reply:
    """One reply from a file. Raises ``BadInput`` naming the field below ``field``."""
    if not isinstance(data, dict) or len(data) != 1:
        raise BadInput(
            "is not one reply", field=field, fix=f"write one of {', '.join(_VERBS)}, a colon and what it needs"
        )
    ((verb, value),) = data.items()
    if verb not in _VERBS:
        raise BadInput(f"unknown reply {verb!r}", field=field, fix=f"use one of {', '.join(_VERBS)}")
    kind, parts = _VERBS[verb]
    here = f"{field}.{verb}"
    if len(parts) == 1 or (verb in _MAY_BE_SHORT and not isinstance(value, dict)):
        ((name, read), *_) = parts.items()
        found = {name: read(value, here)}
    else:
        found = _fields(value, here, kind, parts)
    return kind(**found)


def _fields(data: object, here: str, kind: type[Reply], parts: Mapping[str, _Read]) -> dict[str, Any]:
    given = mapping(data, here)
    if wrong := [name for name in given if name not in parts]:
        raise BadInput(f"unknown field {wrong[0]!r}", field=here, fix=f"it has {' and '.join(parts)}")
    needed = [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
    if missing := [name for name in needed if name not in given]:
        raise BadInput("is missing", field=f"{here}.{missing[0]}")
    return {_ATTRIBUTES.get(name, name): parts[name](value, f"{here}.{name}") for name, value in given.items()}


def mapping(data: object, field: str) -> dict[str, object]:
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise BadInput("is not a mapping" if field else "is neither a list of replies nor a mapping", field=field)
    return data


def _any_text(data: object, field: str) -> str:
    if not isinstance(data, str):
        raise BadInput("is not text", field=field, fix="put it in quotes, or use '|'")
    if "\0" in data:
        raise BadInput("holds a NUL character", field=field)
    return data


def _text(data: object, field: str) -> str:
    if text := _any_text(data, field):
        return text
    raise BadInput("is empty", field=field)


def _path(data: object, field: str) -> str:
    path = PurePosixPath(_text(data, field))
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise BadInput(f"{data!r} leads outside the worktree", field=field, fix="give a relative path without '..'")
    if path.parts[0] == ".git":
        raise BadInput("git's own files are not the agent's", field=field)
    return str(path)


def number(data: object, field: str, *, least: int = 0, most: int = 10**6) -> int:
    if not isinstance(data, str) or not _DIGITS.fullmatch(data) or not least <= int(data) <= most:
        raise BadInput(f"{data!r} is not a whole number from {least} to {most}", field=field)
    return int(data)


def _ms(data: object, field: str) -> int:
    return number(data, field, most=MAX_SLEEP_MS)


def _count(data: object, field: str) -> int:
    return number(data, field, most=10**9)


def _arguments(data: object, field: str) -> Mapping[str, Any]:
    """A mapping, in which every scalar is text; or JSON as text, in which it is what it is there."""
    if not isinstance(data, str):
        return mapping(data, field)
    try:
        return mapping(json.loads(data), field)
    except (ValueError, RecursionError):
        raise BadInput("is not JSON", field=field, fix="write a mapping, or a JSON object in quotes") from None


def _truth(data: object, field: str) -> bool:
    if data not in ("true", "false"):
        raise BadInput(f"{data!r} is neither true nor false", field=field)
    return data == "true"


def _status(data: object, field: str) -> int:
    return number(data, field, most=255)


_Read: TypeAlias = Callable[[object, str], Any]
_VERBS: Mapping[str, tuple[type[Reply], Mapping[str, _Read]]] = {
    "say": (Say, {"text": _text}),
    "think": (Think, {"text": _text}),
    "write": (Write, {"path": _path, "content": _any_text}),
    "append": (Append, {"path": _path, "content": _any_text}),
    "delete": (Delete, {"path": _path}),
    "expect": (Expect, {"path": _path, "contains": _text}),
    "run": (Run, {"command": _text}),
    "tool": (Tool, {"name": _text, "input": _any_text, "output": _any_text}),
    "call": (Call, {"tool": _text, "arguments": _arguments, "mayFail": _truth}),
    "ask": (Ask, {"tool": _text, "input": _any_text}),
    "use": (Use, {"model": _text, "input": _count, "output": _count, "cached": _count, "reasoning": _count}),
    "sleep": (Sleep, {"ms": _ms}),
    "commit": (Commit, {"message": _text}),
    "fail": (Fail, {"message": _text}),
    "limit": (Limit, {"ms": _ms}),
    "print": (Print, {"text": _any_text, "times": _count}),
    "linger": (Linger, {"ms": _ms}),
    "exit": (Exit, {"status": _status}),
}
"""By verb: what it makes, and how its fields are read. One with a single field is written without its name."""
_ATTRIBUTES = {"mayFail": "may_fail"}
"""Fields that are called something else here."""
_MAY_BE_SHORT = frozenset({"print", "ask", "call"})
"""Verbs that may be given their first field alone."""
