"""From plain data, such as the body of a request, to the values of ``document``: the shape, and nothing beyond it.

Both spellings of a field are taken, null is the same as leaving it out, unknown fields of a block are refused by name.
What the fields hold is not looked at here: that is the plan file's to judge, see ``to_plan``.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from pydantic.alias_generators import to_camel

from pilothouse.core.plan.problems import Problem, listed, quote, refuse
from pilothouse.core.plan.spec_file import AgentFile, JobFile, ProcessFile, ShellFile
from pilothouse.core.plan.spec_text import check_values
from pilothouse.core.workflow.document import Block, Edge, Position, Workflow

T = TypeVar("T")

_LINKS = frozenset({"producerId", "dependencies", "work"})
"""Of a job's fields, those that a workflow says in its own way."""
JOB_FIELDS = frozenset(map(to_camel, JobFile.model_fields)) - _LINKS
"""What a block takes over from a job of a plan file as it is."""
_TAKEN = JOB_FIELDS | JobFile.unbuilt  # the plan file says of what is not built that it is not
BLOCK_FIELDS = JOB_FIELDS | {"id", "type", "config", "position"}
_CONFIG_FIELDS = frozenset(
    to_camel(name) for model in (ProcessFile, ShellFile, AgentFile) for name in model.model_fields
)
_NO_OPTIONS = {"name": "give it beside the options", "jobs": "add blocks", "groups": "name the groups in the blocks"}
_MEANT = {
    "producerId": "call it 'id'",
    "dependencies": "connect the blocks with edges",
    "dependsOn": "connect the blocks with edges",
    "work": "say 'type', and the rest in 'config'",
}
_WORKFLOW_FIELDS = ("name", "blocks", "edges", "options")


def read_workflow(data: object) -> Workflow:
    """Trusts nothing about ``data``. Raises ``BadInput`` naming the field."""
    check_json(data)
    given = only(spelt(mapping(data, "workflow"), ""), _WORKFLOW_FIELDS, "")
    return Workflow(
        name=text(given, "name", ""),
        blocks=tuple(read_block(one, f"blocks[{i}]") for i, one in _items(given, "blocks")),
        edges=tuple(read_edge(one, f"edges[{i}]") for i, one in _items(given, "edges")),
        options=read_options(given.get("options", {}), "options"),
    )


def read_block(data: object, at: str) -> Block:
    given = spelt(mapping(data, at), at)
    for name in given:
        if name not in BLOCK_FIELDS and name not in _TAKEN:
            raise refuse([Problem(below(at, name), "unknown field", _block_fix(name))])
    return Block(
        id=text(given, "id", at),
        type=text(given, "type", at),
        fields={name: value for name, value in given.items() if name in _TAKEN},
        config=read_config(given.get("config", {}), below(at, "config")),
        position=read_position(given["position"], below(at, "position")) if "position" in given else None,
    )


def read_config(data: object, at: str) -> dict[str, Any]:
    config = spelt(mapping(data, at), at)
    if "type" in config:
        raise refuse([Problem(f"{at}.type", "is a field of the block", "give it beside 'config'")])
    return config


def read_options(data: object, at: str) -> dict[str, Any]:
    options = spelt(mapping(data, at), at)
    for name, fix in _NO_OPTIONS.items():
        if name in options:
            raise refuse([Problem(below(at, name), "is no option", fix)])
    return options


def read_edge(data: object, at: str) -> Edge:
    given = only(mapping(data, at), ("source", "target"), at)
    return Edge(text(given, "source", at), text(given, "target", at))


def read_position(data: object, at: str) -> Position:
    given = only(mapping(data, at), ("x", "y"), at)
    for name in ("x", "y"):
        if not isinstance(given.get(name), int | float) or isinstance(given[name], bool):
            raise refuse([Problem(f"{at}.{name}", "must be a number")])
    return Position(float(given["x"]), float(given["y"]))


def check_json(data: object) -> None:
    """Raises ``BadInput`` for what is foreign to JSON, out of range or nested too deep."""
    problems = check_values(data)
    if problems:
        raise refuse(problems)


def spelt(given: Mapping[str, Any], at: str, *, nulls: bool = False) -> dict[str, Any]:
    """Fields in camelCase. Those that are null are left out, unless ``nulls`` says that null means something."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = to_camel(key) if "_" in key else key
        if name in found and found[name] != value:
            fix = "remove one of them"
            raise refuse([Problem(below(at, name), "is given in both spellings with different values", fix)])
        if value is not None or nulls:
            found[name] = value
    return found


def only(given: Mapping[str, Any], known: Collection[str], at: str) -> Mapping[str, Any]:
    for name in given:
        if name not in known:
            raise refuse([Problem(below(at, name), "unknown field", near(name, known))])
    return given


def mapping(data: object, at: str) -> dict[str, Any]:
    return _typed(data, dict, at, "must be a mapping of fields")


def sequence(data: object, at: str) -> list[Any]:
    return _typed(data, list, at, "must be a list")


def text(given: Mapping[str, Any], name: str, at: str) -> str:
    if given.get(name) is None:
        raise refuse([Problem(below(at, name), "is required")])
    return _typed(given[name], str, below(at, name), "must be text")


def near(name: str, known: Collection[str]) -> str:
    """The fix for a name that is not known."""
    found = difflib.get_close_matches(name[:64], known, n=1)
    return f"did you mean {quote(found[0])}?" if found else f"known are {listed(sorted(known), limit=20)}"


def below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _typed(data: object, wanted: type[T], at: str, message: str) -> T:
    if not isinstance(data, wanted):
        raise refuse([Problem(at, message)])
    return data


def _items(given: Mapping[str, Any], name: str) -> enumerate[Any]:
    return enumerate(sequence(given.get(name, []), name))


def _block_fix(name: str) -> str:
    if name in _MEANT:
        return _MEANT[name]
    return "it belongs inside config" if name in _CONFIG_FIELDS else near(name, BLOCK_FIELDS)
