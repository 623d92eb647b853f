"""From the bytes of a plan file to plain data: YAML or JSON, read so that nothing hostile gets further.

Knows nothing of plans. What comes out holds only mappings with distinct text keys, lists, text, whole numbers,
booleans and None (JSON may also yield floats), nested at most ``MAX_DEPTH`` deep. Two decisions of its own:

- YAML is read with fewer surprises than YAML has. Only ``null``, ``~``, ``true``, ``false`` and whole numbers in
  their plain form are more than text, so that ``no``, ``1.10``, ``010`` and ``2024-01-01`` stay what was written.
- Aliases and tags are refused rather than bounded: a plan needs neither, and both are how YAML files attack.

The reader walks the parser's events itself. It never recurses, and it stops at the first thing it refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

import yaml

from pilothouse.core.plan.problems import Problem, field_path, quote
from pilothouse.errors import BadInput

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MAX_VALUES = 1_000_000
MAX_PROBLEMS = 1000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")
_PLAIN_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: value for value in (True, False) for word in (str(value).lower(), str(value), str(value).upper())
}
_STR_TAGS = ("!", "tag:yaml.org,2002:str")
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_INT_DIGITS = 19

_Frame: TypeAlias = tuple[dict[str, object] | list[object], list[str]]
"""A container being filled and, for a mapping, the key that waits for its value (none or one)."""


def read_data(text: bytes | str, source: str) -> object:
    """The data of one document. ``source`` names it in messages. Raises ``BadInput``, nothing else."""
    decoded = _decode(text, source)
    if decoded.lstrip().startswith("{"):
        try:
            return read_json(decoded, source)
        except json.JSONDecodeError as error:
            if source.endswith(".json"):
                raise BadInput(
                    f"{source} is not valid JSON: {error.msg}, line {error.lineno}, column {error.colno}"
                ) from None
            # A YAML file may begin with a brace too.
    return _read_yaml(decoded, source)


def read_json(text: str, source: str) -> object:
    """Raises ``json.JSONDecodeError`` for what is no JSON, ``BadInput`` for JSON that is refused."""

    def mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in pairs:
            if key in found:
                raise BadInput(f"{source}: {quote(key)} appears twice in one mapping", fix="remove one of them")
            found[key] = value
        return found

    def constant(name: str) -> object:
        raise BadInput(f"{source}: {name} is not a number a plan can hold", fix="use a whole number")

    def integer(digits: str) -> int:
        return _integer(digits, source)

    try:
        return json.loads(text, object_pairs_hook=mapping, parse_constant=constant, parse_int=integer)
    except RecursionError:
        raise _too_deep(source) from None


def check_values(data: object) -> list[Problem]:
    """What in ``data`` no plan may hold, whatever its fields: foreign types, keys that are not text, control
    characters, numbers out of range, nesting that is too deep. The way to trust data that was not read here."""
    problems: list[Problem] = []
    # Each entry is a value with the chain of keys that leads to it, innermost first.
    stack: list[tuple[object, _Chain]] = [(data, None)]
    seen = 0
    while stack and len(problems) < MAX_PROBLEMS:
        value, chain = stack.pop()
        seen += 1
        if seen > MAX_VALUES:
            return [Problem("", f"the plan holds more than {MAX_VALUES:,} values", "split it")]
        if isinstance(value, dict | list):
            if chain is not None and chain[0] >= MAX_DEPTH:
                return [Problem("", f"the plan is nested more than {MAX_DEPTH} levels deep", "flatten it")]
            depth = chain[0] + 1 if chain else 1
            items = list(value.items() if isinstance(value, dict) else enumerate(value))
            if isinstance(value, dict):
                for key in value:
                    if not isinstance(key, str):
                        problems.append(_at(chain, f"the key {quote(repr(key))} is not text", "put it in quotes"))
                    elif _UNWRITABLE.search(key):
                        problems.append(_at(chain, f"the key {quote(key)} holds a control character"))
            stack.extend((item, (depth, key, chain)) for key, item in reversed(items) if isinstance(key, str | int))
        elif isinstance(value, str):
            found = _UNWRITABLE.search(value)
            if found:
                problems.append(_at(chain, f"holds a control character ({found[0]!r})", "remove it"))
        elif isinstance(value, bool) or value is None:
            pass
        elif isinstance(value, int):
            if abs(value) >= 1 << 63:
                problems.append(_at(chain, "is a number that is too large"))
        elif isinstance(value, float):
            if not -1e300 < value < 1e300:  # also false for NaN
                problems.append(_at(chain, f"is {value}, not a number a plan can hold", "use a whole number"))
        else:
            problems.append(_at(chain, f"is a {type(value).__name__}, not something a plan can hold"))
    return problems


_Chain: TypeAlias = "tuple[int, str | int, _Chain] | None"


def _at(chain: _Chain, message: str, fix: str = "") -> Problem:
    parts: list[str | int] = []
    while chain is not None:
        _, key, chain = chain
        parts.append(key)
    return Problem(field_path(reversed(parts)), message, fix)


def _decode(text: bytes | str, source: str) -> str:
    if len(text) > MAX_BYTES:
        raise BadInput(
            f"{source} is larger than 1 MiB ({len(text):,} bytes)", fix="split it, or move long texts into files"
        )
    try:
        if isinstance(text, str):
            text.encode()  # a lone surrogate would upset the parser
        else:
            text = text.decode("utf-8-sig")
    except UnicodeError as error:
        where = f"offset {error.start}" if isinstance(error, UnicodeDecodeError) else "a lone surrogate"
        raise BadInput(f"{source} is not UTF-8 text ({where})", fix="save the plan as UTF-8") from None
    if "\0" in text:
        raise BadInput(f"{source} is a binary file", fix="give a plan in YAML or JSON")
    return text.removeprefix("\ufeff")


def _read_yaml(text: str, source: str) -> object:
    try:
        return _build(yaml.parse(text, Loader=_LOADER), source)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BadInput(f"{source} is not valid YAML: {error.problem or error.context}{where}") from None
    except yaml.YAMLError as error:
        raise BadInput(f"{source} is not valid YAML: {' '.join(str(error).split())[:200]}") from None


def _build(events: Iterator[yaml.Event], source: str) -> object:
    documents: list[object] = []
    frames: list[_Frame] = [(documents, [])]
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent) and documents:
            raise BadInput(f"{source} holds more than one document", fix="keep one plan per file, remove the '---'")
        if isinstance(event, yaml.AliasEvent):
            raise BadInput(
                f"{source}: aliases are not supported ({quote(f'*{event.anchor}')}, {_line(event)})",
                fix="write the value out",
            )
        if isinstance(event, yaml.ScalarEvent):
            _put(frames[-1], _scalar(event, frames[-1], source), event, source)
        elif isinstance(event, yaml.CollectionStartEvent):
            if event.tag is not None:
                raise _tag(event, source)
            if len(frames) > MAX_DEPTH:
                raise _too_deep(source)
            opened: dict[str, object] | list[object] = {} if isinstance(event, yaml.MappingStartEvent) else []
            _put(frames[-1], opened, event, source)
            frames.append((opened, []))
        elif isinstance(event, yaml.CollectionEndEvent):
            frames.pop()
    return documents[0] if documents else None


def _put(frame: _Frame, value: object, event: yaml.Event, source: str) -> None:
    container, key = frame
    if isinstance(container, list):
        container.append(value)
    elif key:
        container[key.pop()] = value
    elif not isinstance(value, str):
        raise BadInput(f"{source}: a key is a list or a mapping ({_line(event)})", fix="use plain text as key")
    elif value in container:
        raise BadInput(
            f"{source}: {quote(value)} appears twice in one mapping ({_line(event)})", fix="remove one of them"
        )
    else:
        key.append(value)


def _scalar(event: yaml.ScalarEvent, frame: _Frame, source: str) -> object:
    text: str = event.value
    if event.tag is not None:
        if event.tag in _STR_TAGS:
            return text
        raise _tag(event, source)
    is_key = isinstance(frame[0], dict) and not frame[1]
    if is_key or not event.implicit[0]:
        return text
    if text in _PLAIN_WORDS:
        return _PLAIN_WORDS[text]
    return _integer(text, f"{source}, {_line(event)}") if _PLAIN_INT.fullmatch(text) else text


def _integer(digits: str, where: str) -> int:
    if len(digits.lstrip("-")) > _INT_DIGITS:
        raise BadInput(f"{where}: the number {quote(digits, 30)} is too large", fix="put it in quotes if it is text")
    return int(digits)


def _tag(event: yaml.ScalarEvent | yaml.CollectionStartEvent, source: str) -> BadInput:
    return BadInput(f"{source}: tags are not supported ({quote(str(event.tag))}, {_line(event)})", fix="remove the tag")


def _too_deep(source: str) -> BadInput:
    return BadInput(f"{source} is nested more than {MAX_DEPTH} levels deep", fix="flatten it")


def _line(event: yaml.Event) -> str:
    return f"line {event.start_mark.line + 1}" if event.start_mark else "line unknown"
