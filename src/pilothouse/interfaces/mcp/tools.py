"""Tools and what came of their calls, in the words of MCP. Values in, values out; imports the SDK's types."""

from __future__ import annotations

import json
from typing import Any

from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations

from pilothouse.core.tools.spec import ToolSpec, Touches
from pilothouse.engine.tools.callers import ToolOutcome

_ADDS_ONLY = frozenset({Touches.NOTHING, Touches.DOCUMENTS})
"""What was there before is still there afterwards: documents keep every version."""


def tool(spec: ToolSpec) -> Tool:
    return Tool(
        name=spec.name,
        description=spec.description,
        input_schema={"type": "object", **spec.parameters},
        annotations=ToolAnnotations(
            read_only_hint=spec.touches is Touches.NOTHING,
            destructive_hint=spec.touches not in _ADDS_ONLY,
            idempotent_hint=spec.repeatable,
            open_world_hint=spec.touches is Touches.WORLD or bool(spec.service),
        ),
    )


def result(outcome: ToolOutcome) -> CallToolResult:
    """What came of a call. A result that is no JSON object stands in one, as ``result``: older clients take nothing
    else."""
    if outcome.pending:
        # No error: it was begun, and whoever took it for one would begin it again.
        said = {"pending": True, "detail": outcome.error}
        return CallToolResult(content=[_text(outcome.error)], structured_content=said)
    if not outcome.ok:
        return failure(outcome.error, outcome.result)
    structured = _object(outcome.result)
    text = outcome.result if isinstance(outcome.result, str) else structured
    return CallToolResult(content=[_text(text)], structured_content=structured)


def failure(reason: str, result: Any = None) -> CallToolResult:
    """A call that could not do it: its caller's model reads why, with what there is all the same, and may do better."""
    if result is None:
        return CallToolResult(content=[_text(reason)], is_error=True)
    structured = _object(result)
    return CallToolResult(content=[_text(reason), _text(structured)], structured_content=structured, is_error=True)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"result": value}


def _text(value: Any) -> TextContent:
    """Compact: where it is what the structured content is, to the letter, some clients show their model one of them."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return TextContent(text=text)
