"""The built-in guide: honest about what it is, and its tools are real."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.engine.conversations import THE_LOCAL_USER, World, say

from pilothouse.adapters.backends.guide import GuideBackend
from pilothouse.adapters.backends.opening import BackendConfig, open_backend
from pilothouse.core.chat.backend import BackendEvent, Completed, Said, ToolCalled
from pilothouse.core.chat.calls import CallReason, CallStatus
from pilothouse.core.chat.message import Message, ToolBlock
from pilothouse.core.chat.request import BackendRequest
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.tools.spec import ToolSpec
from pilothouse.engine.own_tools.workflows import workflow_tools
from pilothouse.engine.tools.registry import ToolRegistry

TOOLS = (
    "create_workflow",
    "list_workflows",
    "list_plans",
    "search_patterns",
    "search_documentation",
    "get_workflow_run",
    "run_workflow",
)


def test_it_is_what_answers_when_nothing_is_configured() -> None:
    async def act() -> str:
        async with open_backend(BackendConfig()) as backend:
            return backend.name

    assert asyncio.run(act()) == "guide"


def test_it_says_that_no_model_is_connected_and_how_to_connect_one() -> None:
    found = heard("What is the meaning of life?")
    text = text_of(found)
    assert "No language model is connected" in text
    for way in ("ollama", "OpenAI", "Anthropic", "PILOTHOUSE_AGENT", "PILOTHOUSE_BACKEND_URL"):
        assert way in text
    assert isinstance(found[-1], Completed)


@pytest.mark.parametrize(
    ("message", "tool", "arguments"),
    [
        ("Create a workflow called nightly-build that builds", "create_workflow", {"name": "nightly-build"}),
        ("please make me a new workflow", "create_workflow", {"name": "demo"}),
        ("List workflows", "list_workflows", {}),
        ("Which plans are there? Show plans.", "list_plans", {}),
        ("search patterns for review", "search_patterns", {"query": "review"}),
        ("Search the docs for how to retry a node?", "search_documentation", {"query": "how to retry a node"}),
        ("run it", "run_workflow", {}),
        ("Run the workflow in /srv/repo, please", "run_workflow", {"repoPath": "/srv/repo"}),
    ],
)
def test_phrases_run_tools(message: str, tool: str, arguments: dict[str, Any]) -> None:
    found = heard(message, workflow_id="wf-1")
    (call,) = [one for one in found if isinstance(one, ToolCalled)]
    assert call.name == tool
    assert call.arguments is not None
    assert arguments.items() <= call.arguments.items()


def test_it_looks_at_the_run_of_this_conversation() -> None:
    block = ToolBlock(id="a", name="run_workflow", status=CallStatus.SUCCESS, result={"runId": "run-9"})
    history = (Message(id="m", role="assistant", content="", turn_id="t", at=1, blocks=(block,)),)
    (call,) = [one for one in heard("How is it going?", history=history) if isinstance(one, ToolCalled)]
    assert call.arguments == {"runId": "run-9"}


@pytest.mark.parametrize(
    ("message", "words"),
    [("run it", "no workflow yet"), ("how is it going?", "Nothing was run"), ("list plans", "mode")],
)
def test_what_cannot_be_done_is_said(message: str, words: str) -> None:
    found = heard(message, tools=())
    assert words in text_of(found)
    assert not [one for one in found if isinstance(one, ToolCalled)]


def test_a_refusal_is_told_as_it_is() -> None:
    (call,) = [one for one in heard("list workflows") if isinstance(one, ToolCalled)]
    block = ToolBlock(id=call.id, name=call.name, status=CallStatus.ERROR, error="the disk is full")
    assert "the disk is full" in text_of(heard("list workflows", blocks=(block,), call=2))


def test_a_newcomer_makes_a_workflow_that_is_really_there() -> None:
    async def act() -> tuple[TurnResult, TurnResult]:
        world = World()
        world.backend = GuideBackend()
        world.tools = ToolRegistry()
        async with world.engine() as services:
            for tool in workflow_tools(services.workflows):
                world.tools.add(tool)
            sent = await say(services, "Create a workflow called demo")
            made = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 10)
            sent = await say(services, "list workflows", chat_id=sent.chat_id)
            return made, await services.chats.wait(sent.turn_id, THE_LOCAL_USER, 10)

    made, listed = asyncio.run(act())
    assert made.success
    assert "**demo**" in made.content
    assert made.tool_calls[0].status is CallStatus.SUCCESS, made.tool_calls[0].error
    assert "pilothouse repo add" in made.content, "what has to be done before it can be run"
    assert "**demo**" in listed.content


def heard(message: str, **given: Any) -> list[BackendEvent]:
    defaults: dict[str, Any] = {
        "turn_id": "018f0000-0000-7000-8000-00000000000a",
        "chat_id": "c",
        "message_id": "m",
        "call": 1,
        "reason": CallReason.FIRST,
        "owner": "o",
        "tools": tuple(ToolSpec(name=name, description="", parameters={}) for name in TOOLS),
    }

    async def act() -> list[BackendEvent]:
        request = BackendRequest(message=message, **{**defaults, **given})
        return [one async for chunk in GuideBackend().call(request) for one in chunk]

    return asyncio.run(act())


def text_of(found: Sequence[BackendEvent]) -> str:
    return "".join(one.text for one in found if isinstance(one, Said))
