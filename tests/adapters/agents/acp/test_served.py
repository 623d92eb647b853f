"""Whose tool a call is, by what agents say of it."""

from __future__ import annotations

from typing import Any

import pytest
from acp.schema import ToolCallUpdate

from pilothouse.adapters.agents.acp.served import Served

OURS = Served("ours_tools")


def call(**fields: Any) -> ToolCallUpdate:
    return ToolCallUpdate.model_validate({"toolCallId": "c1", **fields})


CLAUDE_SAYS = {"title": "x", "_meta": {"claudeCode": {"toolName": "mcp__ours_tools__make"}}}
CODEX_SAYS = {"title": "Tool: ours_tools/make", "rawInput": {"server": "ours_tools", "tool": "make", "arguments": {}}}
GEMINI_SAYS = {"title": "make (ours_tools MCP Server)", "kind": "other", "toolCallId": "mcp_ours_tools_make__1"}


@pytest.mark.parametrize(
    ("titles", "fields"),
    [
        ("", CLAUDE_SAYS),
        ("", CODEX_SAYS),
        ("", {"title": "ours_tools_make_it_2", "kind": "other", "rawInput": {}}),
        ("", {"title": "mcp__ours_tools__make"}),
        ("copilot", {"title": "ours_tools-run", "kind": "execute", "rawInput": {}}),
        ("copilot", {"title": "ours_tools-make", "kind": "edit", "rawInput": {"name": "run"}}),
        ("gemini", GEMINI_SAYS),
    ],
)
def test_a_call_is_known_by_what_the_agents_program_says_of_it(titles: str, fields: dict[str, Any]) -> None:
    assert Served("ours_tools", titles).is_call(call(**fields))
    assert not Served("tools", titles).is_call(call(**fields))
    assert not Served("", titles).is_call(call(**fields))


@pytest.mark.parametrize(
    ("titles", "fields"),
    [
        ("", {}),
        ("", {"title": ""}),
        ("", {"title": "ours_tools_make", "kind": "execute"}),
        ("", {"title": "ours_tools_make the coffee"}),
        ("", {"title": "run ours_tools_make"}),
        ("", {"title": "ours_tools"}),
        ("", {"title": "ours_make"}),
        ("", {"title": "other_ours_tools_make"}),
        ("", {"title": "ours_tools_make\n"}),
        ("", {"title": "mcp__theirs__ours_tools__make"}),
        ("", {"title": "make (ours_tools MCP Server)"}),
        ("", {"title": "mcp__ours_tools__make", "_meta": {"claudeCode": {"toolName": "Bash"}}}),
        ("", {"title": "Tool: theirs/make", "rawInput": {"server": "ours_tools", "tool": "make"}}),
        ("", {"title": "ours_tools_make", "rawInput": {"cmd": "ours_tools_make"}}),
        ("copilot", {"title": "ours_tools-2-make", "rawInput": {}}),
        ("copilot", {"title": "ours_tools_2-make", "rawInput": {}}),
        ("copilot", {"title": "ours_tools-run", "kind": "execute", "rawInput": {"description": "ours_tools-run"}}),
        ("gemini", {**GEMINI_SAYS, "toolCallId": "run_shell_command__1"}),
        ("gemini", {**GEMINI_SAYS, "kind": "execute"}),
        ("gemini", {**GEMINI_SAYS, "title": "other (ours_tools MCP Server)"}),
        ("gemini", {**GEMINI_SAYS, "title": "make (ours_tools MCP Server) and more"}),
    ],
)
def test_a_call_that_only_resembles_is_another(titles: str, fields: dict[str, Any]) -> None:
    assert not Served("ours_tools", titles).is_call(call(**fields))


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
