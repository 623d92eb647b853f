"""What models see of a tool's parameters, and what becomes of what they give."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.workflow.operations import Operation
from pilothouse.errors import BadInput


class Given(Parameters, frozen=True, kw_only=True):
    """Not for models."""

    path: Annotated[str, Meta(description="Where.", max_length=10)] = "."
    max_lines: Annotated[int, Meta(ge=1)] | None = None
    body: dict[str, Any] | str = ""
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    operations: tuple[Operation, ...]


def test_a_schema_is_one_object_without_references() -> None:
    schema = schema_of(Given)
    assert schema["type"] == "object"
    assert schema["required"] == ["operations"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["path"] == {
        "type": "string",
        "description": "Where.",
        "maxLength": 10,
        "default": ".",
    }
    text = json.dumps(schema)
    assert "$ref" not in text
    assert "Not for models" not in text
    assert "add_block" in text


def test_parameters_that_are_called_like_words_of_a_schema_are_kept() -> None:
    class Titled(Parameters, frozen=True, kw_only=True):
        title: str = ""
        description: str = ""

    assert set(schema_of(Titled)["properties"]) == {"title", "description"}


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        ({"max_lines": "3"}, "max_lines", 3),
        ({"maxLines": None}, "max_lines", None),
        ({"options": '{"a": 1}'}, "options", {"a": 1}),
        ({"body": '{"a": 1}'}, "body", '{"a": 1}'),
        ({"path": "[a]"}, "path", "[a]"),
    ],
)
def test_what_models_get_slightly_wrong_is_taken_as_it_was_meant(
    arguments: dict[str, Any], field: str, value: Any
) -> None:
    assert getattr(read(Given, {"operations": [], **arguments}), field) == value


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "operations"),
        ({"operations": [], "pth": "."}, "pth"),
        ({"operations": [{"op": "rename"}]}, "operations[0].to"),
        ({"operations": [{"op": "explode"}]}, "operations[0].op"),
        ({"operations": [], "maxLines": 0}, "maxLines"),
        ({"operations": [], "path": "x" * 11}, "path"),
        ({"operations": [], "options": "[1"}, "options"),
        ({"operations": [], "options": "[" * 100_000}, "options"),
        ({"operations": "no"}, "operations"),
    ],
)
def test_everything_else_is_refused_with_its_field(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        read(Given, arguments)
    assert refused.value.field == field


def test_values_are_structs() -> None:
    assert isinstance(read(Given, {"operations": []}), msgspec.Struct)
