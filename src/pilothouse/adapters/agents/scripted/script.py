"""A file of replies for the scripted agent: which of them are for a node and an attempt.

Pure: text in, values out. The whole file is checked, also what is meant for others, so that a mistake shows at once.
Standard library and PyYAML only, because the agent's process imports it. Scalars are read as text without YAML's
guesses (``no`` stays ``no``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from pilothouse.adapters.agents.scripted.replies import Replies, mapping, number, read_reply
from pilothouse.errors import BadInput

MAX_CHARACTERS = 1 << 20


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
        for name, value in mapping(data.pop("nodes"), "nodes").items():
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
    found = mapping(data, field)
    unknown = found.keys() - {"replies", "attempts"}
    if unknown or not found:
        known = "'replies' or 'attempts'" if field else "'replies', 'attempts' or 'nodes'"
        raise BadInput(
            f"unknown {min(unknown)!r}" if unknown else "says nothing", field=field, fix=f"use {known}, or a list"
        )
    by_attempt = {
        number(key, f"{prefix}attempts", least=1): _replies(value, f"{prefix}attempts.{key}")
        for key, value in mapping(found.get("attempts", {}), f"{prefix}attempts").items()
    }
    return _Part(by_attempt, _replies(found["replies"], f"{prefix}replies") if "replies" in found else None)


def _replies(data: object, field: str) -> Replies:
    if not isinstance(data, list):
        raise BadInput("is not a list of replies", field=field, fix="begin each reply with '- '")
    return tuple(read_reply(item, f"{field}[{index}]") for index, item in enumerate(data))
