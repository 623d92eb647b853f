"""Whose tool a call is, by what agents say of it."""

from __future__ import annotations

from typing import Any

import pytest
from acp.schema import ToolCallUpdate

from pilothouse.adapters.agents.acp.served import Served

OURS = Served("ours_tools")


def call(**fields: Any) -> ToolCallUpdate:
    return ToolCallUpdate.model_validate({"toolCallId": "c1", **fields})


@pytest.mark.parametrize(
    "title",
    [
        "mcp__ours_tools__make",
        "ours_tools-make",
        "ours_tools_make.it-2",
        "make (ours_tools MCP Server)",
        "Tool: ours_tools/make",
    ],
)
def test_a_call_is_known_by_the_title_that_the_agents_program_gives_it(title: str) -> None:
    assert OURS.is_call(call(title=title, kind="other"))
    assert OURS.is_call(call(title=title))
    assert not Served("").is_call(call(title=title))
    assert not Served("tools").is_call(call(title=title))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"title": ""},
        {"title": "ours_tools-make", "kind": "execute"},
        {"title": "ours_tools-make the coffee"},
        {"title": "run ours_tools-make"},
        {"title": "ours_tools"},
        {"title": "ours-make"},
        {"title": "other_ours_tools_make"},
        {"title": "ours_tools-make\n"},
        {"title": "mcp__theirs__ours_tools__make"},
        {"title": "make (ours_tools MCP Server) and more"},
        {"title": "make", "rawInput": {"server": "ours_tools"}},
    ],
)
def test_a_call_that_only_resembles_is_another(fields: dict[str, Any]) -> None:
    assert not OURS.is_call(call(**fields))


CLAUDE = {"_meta": {"claudeCode": {"toolName": "mcp__ours_tools__make", "mcpServer": {"name": "ours_tools"}}}}
CODEX = {"rawInput": {"server_name": "ours_tools", "request": {"_meta": {"codex_approval_kind": "mcp_tool_call"}}}}


@pytest.mark.parametrize("fields", [CLAUDE, CODEX])
def test_a_request_is_known_by_a_field_that_names_the_server(fields: dict[str, Any]) -> None:
    assert OURS.is_asked(call(title="Approve?", **fields))
    assert not Served("ours").is_asked(call(**fields))
    assert not Served("").is_asked(call(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "mcp__ours_tools__make", "kind": "other"},
        {"title": "ours_tools-make", "kind": "other", "rawInput": {"server": "ours_tools", "tool": "make"}},
        {"_meta": {"claudeCode": {"toolName": "mcp__ours_tools__make"}}},
        {"_meta": {"claudeCode": {"mcpServer": "ours_tools"}}},
        {"_meta": None, "rawInput": None},
        {"rawInput": {"server_name": "ours_tools", "command": "rm"}},
        {"rawInput": {"server_name": "ours_tools", "request": {"_meta": {"codex_approval_kind": "exec"}}}},
    ],
)
def test_no_title_is_enough_for_permission(fields: dict[str, Any]) -> None:
    assert not OURS.is_asked(call(**fields))
