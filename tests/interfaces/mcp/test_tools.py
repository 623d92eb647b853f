"""Tools and outcomes in the words of MCP."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import CallToolResult, TextContent

from pilothouse.core.tools.spec import ToolSpec, Touches
from pilothouse.engine.tools.callers import ToolOutcome
from pilothouse.interfaces.mcp.tools import result, tool

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def spec(touches: Touches, **more: Any) -> ToolSpec:
    return ToolSpec(name="t", description="Does.", parameters={"properties": {}}, touches=touches, **more)


def hints(spec: ToolSpec) -> dict[str, Any]:
    shown: dict[str, Any] = tool(spec).model_dump(by_alias=True, exclude_none=True)["annotations"]
    return {name.removesuffix("Hint"): value for name, value in shown.items()}


def text_of(answered: CallToolResult) -> str:
    (block,) = answered.content
    assert isinstance(block, TextContent)
    return block.text


def test_a_tool_is_shown_with_its_parameters_as_an_object() -> None:
    shown = tool(spec(Touches.NOTHING)).model_dump(by_alias=True, exclude_none=True)
    assert (shown["name"], shown["description"]) == ("t", "Does.")
    assert shown["inputSchema"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("touches", "reads", "destroys", "repeats", "outside"),
    [
        (Touches.NOTHING, True, False, True, False),
        (Touches.DOCUMENTS, False, False, False, False),
        (Touches.FILES, False, True, False, False),
        (Touches.RUNS, False, True, False, False),
        (Touches.WORLD, False, True, False, True),
    ],
)
def test_hints_follow_from_what_it_touches(
    touches: Touches, reads: bool, destroys: bool, repeats: bool, outside: bool
) -> None:
    found = hints(spec(touches))
    assert found == {"readOnly": reads, "destructive": destroys, "idempotent": repeats, "openWorld": outside}


def test_what_may_be_repeated_and_who_is_outside_is_said() -> None:
    assert hints(spec(Touches.WORLD, idempotent=True))["idempotent"]
    assert hints(spec(Touches.NOTHING, service="slack"))["openWorld"]


@given(value=JSON)
def test_a_result_is_an_object_and_the_same_as_text(value: Any) -> None:
    answered = result(ToolOutcome(ok=True, result=value))
    assert not answered.is_error
    assert answered.structured_content == (value if isinstance(value, dict) else {"result": value})
    compact = json.dumps(answered.structured_content, ensure_ascii=False, separators=(",", ":"))
    assert text_of(answered) == (value if isinstance(value, str) else compact)


def test_a_failure_says_why_and_is_an_error() -> None:
    answered = result(ToolOutcome(ok=False, error="it is stuck"))
    assert (answered.is_error, text_of(answered), answered.structured_content) == (True, "it is stuck", None)


def test_a_failure_with_a_result_says_both() -> None:
    answered = result(ToolOutcome(ok=False, error="it ended with 2", result={"output": "no such file"}))
    assert answered.is_error
    assert [one.text for one in answered.content if one.type == "text"] == [
        "it ended with 2",
        '{"output":"no such file"}',
    ]
    assert answered.structured_content == {"output": "no such file"}


def test_what_goes_on_is_no_error_and_says_how_to_learn_of_its_end() -> None:
    answered = result(ToolOutcome(ok=True, pending=True, error="look in the conversation"))
    assert not answered.is_error
    assert text_of(answered) == "look in the conversation"
    assert answered.structured_content == {"pending": True, "detail": "look in the conversation"}
