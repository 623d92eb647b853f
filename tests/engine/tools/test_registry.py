"""The registry of tools: what is offered, what comes of a call, and values that nobody sees."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.engine.conversations import FakeTool

from pilothouse.core.tools.spec import Permit, ToolAnswer, ToolContext, Touches
from pilothouse.engine.tools.registry import LARGEST_ANSWER, ToolRegistry
from pilothouse.errors import BadInput, Unavailable

SECRET = "s3cret-value-of-ann"
CONTEXT = ToolContext(owner="ann")


class Values:
    def __init__(self, **values: str) -> None:
        self._values = values

    async def values(self, owner: str) -> Mapping[str, str]:
        return self._values if owner == "ann" else {}


class Locked:
    async def values(self, owner: str) -> Mapping[str, str]:
        raise Unavailable("the vault cannot be opened")


def ran(registry: ToolRegistry, name: str = "look", context: ToolContext = CONTEXT, **arguments: Any) -> ToolAnswer:
    return asyncio.run(registry.run(name, arguments, context))


def test_a_name_stands_for_one_tool() -> None:
    with pytest.raises(ValueError, match="look"):
        ToolRegistry([FakeTool(), FakeTool()])


def test_specs_are_by_name() -> None:
    registry = ToolRegistry([FakeTool("write"), FakeTool("look")])
    assert [spec.name for spec in registry.specs()] == ["look", "write"]
    assert asyncio.run(registry.named(["write", "nope"]))[0].name == "write"


def test_a_turn_is_offered_what_its_mode_allows_as_its_chat_and_user_say() -> None:
    registry = ToolRegistry([FakeTool("look"), FakeTool("write", Touches.FILES, timeout_ms=5)])
    assert [tool.name for tool in registry.offered("research")] == ["look"]
    look, write = registry.offered("chat", {"look": Permit.DENY}, {"write": Permit.ALLOW})
    assert (look.permit, look.repeatable) == (Permit.DENY, True)
    assert (write.permit, write.repeatable, write.timeout_ms) == (Permit.ALLOW, False, 5)
    with pytest.raises(BadInput):
        registry.offered("loud")


def test_a_tool_that_is_not_there_is_an_answer() -> None:
    answer = ran(ToolRegistry(), "nope")
    assert (answer.ok, answer.error) == (False, "Tool not found: nope")


def test_what_fails_is_an_answer_that_says_why(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(*_: Any) -> None:
        raise BadInput("is no path", field="path", fix="give one")

    assert ran(ToolRegistry([FakeTool(does=refuse)])).error == "path: is no path (give one)"
    assert "TypeError" in ran(ToolRegistry([FakeTool(does=lambda *_: object())])).error, "an answer is JSON"
    assert "tool.crashed" in caplog.text


def test_a_reference_is_filled_in_where_the_tool_wants_it_and_taken_out_of_the_answer() -> None:
    tool = FakeTool(does=lambda given, _: {"sent": given["key"], "said": f"Bearer {SECRET}"}, secrets=("key",))
    answer = ran(ToolRegistry([tool], Values(KEY=SECRET)), key="{{KEY}}", text="{{KEY}}")
    assert tool.ran == [{"key": SECRET, "text": "{{KEY}}"}]
    assert answer.result == {"sent": "{{KEY}}", "said": "Bearer {{KEY}}"}


def test_an_error_hides_values_too(caplog: pytest.LogCaptureFixture) -> None:
    def fail(given: Mapping[str, Any], _: ToolContext) -> None:
        raise BadInput(f"{given['key']} is wrong")

    def crash(given: Mapping[str, Any], _: ToolContext) -> None:
        raise ZeroDivisionError(given["key"])

    for does in (fail, crash):
        registry = ToolRegistry([FakeTool(does=does, secrets=("key",))], Values(KEY=SECRET))
        answer = ran(registry, key="{{KEY}}")
        assert SECRET not in answer.error
        assert "{{KEY}}" in answer.error
    assert SECRET not in caplog.text


def test_nobody_gets_the_values_of_others() -> None:
    tool = FakeTool(secrets=("key",))
    registry = ToolRegistry([tool], Values(KEY=SECRET))
    answer = ran(registry, context=ToolContext(owner="bob"), key="{{KEY}}")
    assert (answer.ok, tool.ran) == (False, [])
    assert "{{KEY}}" in answer.error


def test_values_that_cannot_be_read_stop_only_calls_that_refer_to_one(caplog: pytest.LogCaptureFixture) -> None:
    tool = FakeTool(secrets=("key",), does=lambda *_: "fine")
    registry = ToolRegistry([tool], Locked())
    assert ran(registry, key="{{KEY}}") == ToolAnswer(ok=False, error="the vault cannot be opened")
    assert [ran(registry, key="plain").result for _ in range(3)] == ["fine"] * 3
    assert caplog.text.count("tools.nothing-hidden: the vault cannot be opened") == 1


def test_values_that_are_slow_to_come_hold_up_only_calls_that_refer_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilothouse.engine.tools.registry.VALUES_WITHIN_S", 0.01)
    tool = FakeTool(secrets=("key",), does=lambda arguments, _: arguments["key"])

    class Slow:
        def __init__(self) -> None:
            self.open = asyncio.Event()

        async def values(self, owner: str) -> Mapping[str, str]:
            await self.open.wait()
            return {"KEY": SECRET}

    async def story() -> None:
        slow = Slow()
        registry = ToolRegistry([tool], slow)
        needs = asyncio.create_task(registry.run("look", {"key": "{{KEY}}"}, CONTEXT))
        assert (await registry.run("look", {"key": "plain"}, CONTEXT)).result == "plain"
        assert not needs.done()
        slow.open.set()
        assert (await needs).result == "{{KEY}}"
        assert (await registry.run("look", {"key": SECRET}, CONTEXT)).result == "{{KEY}}"

    asyncio.run(story())


def test_an_answer_that_is_too_long_is_cut_and_says_so() -> None:
    answer = ran(ToolRegistry([FakeTool(does=lambda *_: "x" * (LARGEST_ANSWER + 1))]))
    assert answer.ok
    assert answer.result["truncated"] is True
    assert len(answer.result["beginning"]) < LARGEST_ANSWER / 2


def test_who_runs_a_tool_before_all_are_there_waits() -> None:
    async def journey() -> None:
        registry = ToolRegistry(complete=False)
        running = asyncio.create_task(registry.run("look", {}, CONTEXT))
        await asyncio.sleep(0)
        assert not running.done()
        registry.add(FakeTool())
        registry.complete()
        assert (await running).ok

    asyncio.run(journey())
