"""The replies file of the scripted agent: what it may hold, and which replies are for a node and an attempt.

Pure: text in, values out. The whole file is checked, also what is meant for others, so that a mistake shows at once.
Standard library and PyYAML only, because the agent's process imports it. Scalars are read as text without YAML's
guesses (``no`` stays ``no``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import PurePosixPath
from typing import TypeAlias

import yaml

from pilothouse.errors import BadInput

MAX_CHARACTERS = 1 << 20
MAX_SLEEP_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Say:
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
class Sleep:
    ms: int


@dataclass(frozen=True, slots=True)
class Commit:
    message: str


@dataclass(frozen=True, slots=True)
class Fail:
    message: str


Reply: TypeAlias = Say | Write | Append | Delete | Expect | Run | Sleep | Commit | Fail
Replies: TypeAlias = tuple[Reply, ...]

_OF_TEXT: Mapping[str, Callable[[str], Reply]] = {
    "say": Say, "delete": Delete, "run": Run, "commit": Commit, "fail": Fail
}  # fmt: skip
_OF_FIELDS: Mapping[str, type[Write | Append | Expect]] = {"write": Write, "append": Append, "expect": Expect}
_VERBS = (*_OF_TEXT, *_OF_FIELDS, "sleep")
_MAY_BE_EMPTY = "content"
_DIGITS = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class _Part:
    """A script without nodes: replies by attempt, and those for any other attempt."""

    by_attempt: Mapping[int, Replies]
    otherwise: Replies | None

    def choose(self, attempt: int) -> Replies | None:
        earlier = [number for number in self.by_attempt if number <= attempt]
        return self.by_attempt[max(earlier)] if earlier else self.otherwise


def replies_for(text: str, node: str, attempt: int) -> Replies:
    """What the agent does for the node with this producer id on its ``attempt`` (from 1).

    The node's own entry counts, else what the file says for all. There the entry of the attempt counts, else that of
    the nearest earlier one, else ``replies``. Raises ``BadInput`` for a file that is wrong, or says nothing here.
    """
    data = _read(text)
    nodes: dict[str, _Part] = {}
    if isinstance(data, dict) and "nodes" in data:
        for name, value in _mapping(data.pop("nodes"), "nodes").items():
            nodes[name] = _part(value, f"nodes.{name}")
    everyone = _part(data, "") if data or not nodes else None
    part = nodes.get(node, everyone)
    chosen = part.choose(attempt) if part else None
    if chosen is None:
        raise BadInput(f"no replies for attempt {attempt} of node {node!r}", fix="add them, or 'replies' for all")
    return chosen


class _Loader(yaml.BaseLoader):
    """Plain text for every scalar; a key that is given twice is a mistake, not the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} is given twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _read(text: str) -> object:
    if len(text) > MAX_CHARACTERS:
        raise BadInput(f"is larger than {MAX_CHARACTERS:,} characters")
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BadInput(f"is not valid YAML: {error.problem or error.context}{where}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise BadInput(f"is not valid YAML: {' '.join(str(error).split())[:200]}") from None


def _part(data: object, field: str) -> _Part:
    if isinstance(data, list):
        return _Part({}, _replies(data, field or "replies"))
    prefix = f"{field}." if field else ""
    found = _mapping(data, field)
    unknown = found.keys() - {"replies", "attempts"}
    if unknown or not found:
        known = "'replies' or 'attempts'" if field else "'replies', 'attempts' or 'nodes'"
        raise BadInput(
            f"unknown {min(unknown)!r}" if unknown else "says nothing", field=field, fix=f"use {known}, or a list"
        )
    by_attempt = {
        _number(key, f"{prefix}attempts", least=1): _replies(value, f"{prefix}attempts.{key}")
        for key, value in _mapping(found.get("attempts", {}), f"{prefix}attempts").items()
    }
    return _Part(by_attempt, _replies(found["replies"], f"{prefix}replies") if "replies" in found else None)


def _replies(data: object, field: str) -> Replies:
    if not isinstance(data, list):
        raise BadInput("is not a list of replies", field=field, fix="begin each reply with '- '")
    return tuple(_reply(item, f"{field}[{index}]") for index, item in enumerate(data))


def _reply(data: object, field: str) -> Reply:
    if not isinstance(data, dict) or len(data) != 1:
        raise BadInput(
            "is not one reply", field=field, fix=f"write one of {', '.join(_VERBS)}, a colon and what it needs"
        )
    ((verb, value),) = data.items()
    here = f"{field}.{verb}"
    if verb in _OF_TEXT:
        return _OF_TEXT[verb](_path(value, here) if verb == "delete" else _text(value, here))
    if verb == "sleep":
        return Sleep(_number(value, here, most=MAX_SLEEP_MS))
    if verb not in _OF_FIELDS:
        raise BadInput(f"unknown reply {verb!r}", field=field, fix=f"use one of {', '.join(_VERBS)}")
    kind = _OF_FIELDS[verb]
    wanted = [field.name for field in fields(kind)]
    given = _mapping(value, here)
    if wrong := [name for name in given if name not in wanted]:
        raise BadInput(f"unknown field {wrong[0]!r}", field=here, fix=f"it has {' and '.join(wanted)}")
    if missing := [name for name in wanted if name not in given]:
        raise BadInput("is missing", field=f"{here}.{missing[0]}")
    first, second = wanted
    return kind(_path(given[first], f"{here}.{first}"), _text(given[second], f"{here}.{second}"))


def _mapping(data: object, field: str) -> dict[str, object]:
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise BadInput("is not a mapping" if field else "is neither a list of replies nor a mapping", field=field)
    return data


def _text(data: object, field: str) -> str:
    if not isinstance(data, str):
        raise BadInput("is not text", field=field, fix="put it in quotes, or use '|'")
    if not data and not field.endswith(_MAY_BE_EMPTY):
        raise BadInput("is empty", field=field)
    if "\0" in data:
        raise BadInput("holds a NUL character", field=field)
    return data


def _path(data: object, field: str) -> str:
    path = PurePosixPath(_text(data, field))
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise BadInput(f"{data!r} leads outside the worktree", field=field, fix="give a relative path without '..'")
    if path.parts[0] == ".git":
        raise BadInput("git's own files are not the agent's", field=field)
    return str(path)


def _number(data: object, field: str, *, least: int = 0, most: int = 10**6) -> int:
    if not isinstance(data, str) or not _DIGITS.fullmatch(data) or not least <= int(data) <= most:
        raise BadInput(f"{data!r} is not a whole number from {least} to {most}", field=field)
    return int(data)
