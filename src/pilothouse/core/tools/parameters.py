"""The parameters of a tool: the JSON Schema that models see, and the value that a call's arguments become.

Both come from one msgspec Struct. What models tend to get slightly wrong is taken as it was meant (null for left out,
snake_case, an object as JSON text); everything else is refused with the field, so that the model can mend it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from pilothouse.errors import BadInput

T = TypeVar("T", bound=msgspec.Struct)


class Parameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base of all. Fields carry their description in ``msgspec.Meta``."""


_NOT_FOR_MODELS = frozenset({"title", "discriminator", "$defs"})
_WRONG = re.compile(r"(?P<message>.*?)(?: - at `\$(?P<at>.*)`)?", re.DOTALL)
_NAMED = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*)`")
_HUMP = re.compile(r"_([a-z])")


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of an object, without references: many models do not follow them."""
    schema = msgspec.json.schema(kind)
    plain: dict[str, Any] = _plain(schema, schema.get("$defs", {}))
    plain.pop("description", None)  # the tool's own says it better
    return plain


def _plain(value: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_plain(inner, definitions) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _plain(definitions[value["$ref"].rpartition("/")[2]], definitions)
    if "properties" in value:  # whose keys are names, not words of the schema
        properties = {name: _plain(inner, definitions) for name, inner in value["properties"].items()}
        rest = {name: inner for name, inner in value.items() if name != "properties"}
        return {**_plain(rest, definitions), "properties": properties}
    if isinstance(text := value.get("description"), str):
        value = {**value, "description": " ".join(text.replace("``", "`").split())}
    return {name: _plain(inner, definitions) for name, inner in value.items() if name not in _NOT_FOR_MODELS}


def read(kind: type[T], arguments: Mapping[str, Any]) -> T:
    """The arguments of a call as a value. Raises ``BadInput`` naming the field."""
    known = _properties(kind)
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        spelt = name if name in known else _HUMP.sub(lambda found: found[1].upper(), name)
        if value is not None:
            given[spelt if spelt in known else name] = _unquoted(value, known.get(spelt, {}))
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(str(error), known) from None


@functools.cache
def _properties(kind: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = schema_of(kind)["properties"]
    return found


def _unquoted(value: Any, schema: Mapping[str, Any]) -> Any:
    """An object or a list where a model gave the text of one."""
    kinds = {one.get("type") for one in schema.get("anyOf", [schema])}
    if isinstance(value, str) and "string" not in kinds and kinds & {"object", "array"}:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _refused(wrong: str, known: Iterable[str]) -> BadInput:
    found = _WRONG.fullmatch(wrong)
    assert found is not None
    message, at = found["message"], (found["at"] or "").removeprefix(".")
    if named := _NAMED.fullmatch(message):
        at = f"{at}.{named['name']}" if at else named["name"]
        if named["what"].startswith("missing"):
            return BadInput("is required", field=at)
        fix = f"there are {', '.join(known)}" if "." not in at else ""
        return BadInput("there is no such parameter", field=at, fix=fix)
    return BadInput(message[:1].lower() + message[1:], field=at)
