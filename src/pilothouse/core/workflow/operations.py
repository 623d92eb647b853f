"""What can be done to a workflow, one step at a time, and how such steps are read from plain data.

Knows their fields; what they do is in ``edit``. Each value stands for one JSON object, told apart by ``op``, so that
``msgspec.json.schema`` describes them to a model.
"""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

import msgspec

from pilothouse.core.plan.problems import Problem, quote, refuse
from pilothouse.core.workflow.reading import check_json, mapping, near, only, sequence, spelt, text

MAX_OPERATIONS = 1_000
"""In one edit."""


class AddBlock(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="add_block"):
    """Add a block, after those blocks that it depends on."""

    block: dict[str, Any]
    after: tuple[str, ...] = ()


class UpdateBlock(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="update_block"):
    """Replace fields of a block; null removes one. Inside ``config`` fields are replaced and removed one by one, but a
    new ``type`` begins with an empty config."""

    id: str
    set: dict[str, Any]


class RemoveBlock(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="remove_block"):
    """Remove a block and its edges."""

    id: str


class RenameBlock(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="rename_block"):
    """Give a block another id; its edges stay."""

    id: str
    to: str


class Connect(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="connect"):
    """Let ``target`` begin only when ``source`` has succeeded."""

    source: str
    target: str


class Disconnect(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="disconnect"):
    """Take an edge away."""

    source: str
    target: str


class SetOptions(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="set_options"):
    """Replace options of the plan, one by one; null removes one."""

    set: dict[str, Any]


class Rename(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="rename"):
    """Give the workflow another name."""

    to: str


Operation: TypeAlias = AddBlock | UpdateBlock | RemoveBlock | RenameBlock | Connect | Disconnect | SetOptions | Rename

OPERATIONS: dict[str, type[Operation]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Operation)}
"""By what ``op`` says."""


def read_operations(data: object) -> tuple[Operation, ...]:
    """Trusts nothing about ``data``. Raises ``BadInput`` naming the operation and its field."""
    check_json({"operations": data})
    given = sequence(data, "operations")
    if not given:
        raise refuse([Problem("operations", "is empty", "say what to do")])
    if len(given) > MAX_OPERATIONS:
        message = f"must have at most {MAX_OPERATIONS:,} entries, has {len(given):,}"
        raise refuse([Problem("operations", message, "edit in several steps")])
    return tuple(_read(one, f"operations[{index}]") for index, one in enumerate(given))


def _read(data: object, at: str) -> Operation:
    given = spelt(mapping(data, at), at)
    op = text(given, "op", at)
    kind = OPERATIONS.get(op)
    if kind is None:
        raise refuse([Problem(f"{at}.op", f"there is no operation {quote(op)}", near(op, OPERATIONS))])
    only(given, ("op", *kind.__struct_fields__), at)
    values: dict[str, Any] = {}
    for name in kind.__struct_fields__:
        if name in ("block", "set"):
            if name not in given:
                raise refuse([Problem(f"{at}.{name}", "is required")])
            values[name] = mapping(given[name], f"{at}.{name}")
        elif name == "after":
            values[name] = _names(given.get(name, []), f"{at}.{name}")
        else:
            values[name] = text(given, name, at)
    return kind(**values)


def _names(data: object, at: str) -> tuple[str, ...]:
    names = sequence(data, at)
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise refuse([Problem(f"{at}[{index}]", "must be text", "give the id of a block")])
    return tuple(names)
