"""An agent answers conversations: what it tells is heard once, in order, whoever follows it; and how that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.conversations import THE_LOCAL_USER, FakeTool, World, events, happened, run, say
from tests.engine.server import Clock
from tests.support.services import SECRET

from pilothouse.adapters.agents.lines import Finished, encode
from pilothouse.adapters.agents.memory import MemoryAgent, MemoryAgents
from pilothouse.adapters.agents.pricing import Price
from pilothouse.adapters.work.memory import MemoryProgram, MemoryWarden
from pilothouse.core.auth.agent_tokens import make_token
from pilothouse.core.auth.principals import Answering
from pilothouse.core.chat.calls import CallStatus, RunBy
from pilothouse.core.chat.events import TurnNoticed, UsageRecorded
from pilothouse.core.chat.result import TurnResult
from pilothouse.core.chat.tool_events import ToolCalled
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.run.agents import (
    Asked,
    FileEdited,
    News,
    Noted,
    Permissions,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolServer,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.commands import Command
from pilothouse.core.run.events import NeedsApproval
from pilothouse.core.run.usage import Usage
from pilothouse.core.tools.spec import Permit
from pilothouse.engine.services import Services
from pilothouse.errors import StoreFailed

PATIENCE_S = 20.0
DONE = Finished()


class _Clock(Clock):
    """It may be looked at before its loop runs."""

    def now_ms(self) -> int:
        try:
            return super().now_ms()
        except RuntimeError:
            return 0


class Agent(World):
    """A machine where an agent answers. ``does``: by how often it was asked, what it prints and when, in seconds."""

    def __init__(
        self, *does: tuple[float, News | Finished] | News | Finished, more: Callable[..., Any] | None = None
    ) -> None:
        super().__init__()
        self.agent = "scripted"
        self.agents.prices = {"m": Price(input=1.0, output=2.0)}
        self.clock = _Clock()
        self.warden = MemoryWarden(self.clock, self._answers, self.logs)
        self.commands: list[Command] = []
        self.turns: list[list[tuple[float, bytes]]] = [_pieces(does)]

    def then(self, *does: tuple[float, News | Finished] | News | Finished) -> Agent:
        """What it does when it is asked the next time."""
        self.turns.append(_pieces(does))
        return self

    def _answers(self, command: Command, _: str) -> MemoryProgram:
        pieces = self.turns[min(len(self.commands), len(self.turns) - 1)]
        self.commands.append(command)
        ends = any(b'"finished"' in data for _, data in pieces)
        return MemoryProgram(output=tuple(pieces), duration_s=pieces[-1][0] if ends else 1e6)

    @property
    def told(self) -> list[str]:
        """What it was told with each request."""
        return [command.argv[2] for command in self.commands]


def _pieces(does: tuple[Any, ...]) -> list[tuple[float, bytes]]:
    after, pieces = 0.0, []
    for item in does:
        if isinstance(item, tuple):
            after, item = item
        pieces.append((after, encode(item)))
    return pieces


async def answered(services: Services, message: str = "Hi", **more: Any) -> TurnResult:
    sent = await say(services, message, **more)
    return await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)


def test_what_it_says_thinks_does_and_uses_is_heard() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=500_000, cached_tokens=10)
    machine = Agent(
        SessionStarted(session_id="s1"),
        Reasoning(text="hm"),
        Text(text="Hello "),
        ToolStarted(call_id="c1", tool="bash", input='{"command": "ls"}'),
        ToolEnded(call_id="c1", tool="bash", output="README.md"),
        ToolStarted(call_id="c2", tool="write", input="not json"),
        ToolEnded(call_id="c2", tool="write", status=ToolStatus.DENIED, output="denied"),
        FileEdited(path="a.txt", change="created", lines_added=1),
        Text(text="world"),
        Used(usage=usage, model="m"),
        DONE,
    )

    async def test() -> None:
        async with machine.engine() as services:
            result = await answered(services)
            assert (result.success, result.content) == (True, "Hello world")
            first, second = result.tool_calls
            assert (first.name, first.params, first.result) == ("bash", {"command": "ls"}, "README.md")
            assert (second.status, second.params) == (CallStatus.REJECTED, {"input": "not json"})
            told = await events(services, result.turn_id)
            assert {one.run_by for one in told if isinstance(one, ToolCalled)} == {RunBy.BACKEND}
            (used,) = [one for one in told if isinstance(one, UsageRecorded)]
            assert (used.input_tokens, used.output_tokens, used.cached_tokens) == (1_000_000, 500_000, 10)
            assert used.cost == pytest.approx(2.0)
            (edited,) = [one for one in told if isinstance(one, TurnNoticed) and one.kind == "file_edited"]
            assert edited.data == {"path": "a.txt", "change": "created", "added": 1, "removed": 0}

    run(test)


def test_it_remembers_the_conversation_and_is_then_told_the_message_alone() -> None:
    machine = Agent(SessionStarted(session_id="s1"), Text(text="One."), DONE).then(Text(text="Two."), DONE)

    async def test() -> None:
        async with machine.engine() as services:
            first = await answered(services, "Say one")
            second = await answered(services, "Say two", chat_id=first.chat_id)
            assert second.content == "Two."
            assert second.conversation_id == first.conversation_id == "scripted/asks:s1"
            assert machine.told == ["Say one", "Say two"]

    run(test)


def test_an_agent_that_failed_fails_the_turn_with_what_it_said() -> None:
    machine = Agent(Text(text="So far"), Finished(ok=False, error="no luck"))

    async def test() -> None:
        async with machine.engine() as services:
            result = await answered(services)
            assert not result.success
            assert result.content == "So far"
            assert "no luck" in str(result.error)

    run(test)


def test_one_that_is_not_installed_says_how_to_install_it() -> None:
    machine = Agent(DONE)
    machine.agents.agents = {"scripted": MemoryAgent(installed=False)}

    async def test() -> None:
        async with machine.engine() as services:
            result = await answered(services)
            assert "install-scripted" in str(result.error)

    run(test)


def test_a_stop_ends_its_process_before_the_turn_is_stopped() -> None:
    machine = Agent(Text(text="I am"))

    async def test() -> None:
        async with machine.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
            assert result.content == "I am"
            assert not machine.warden.running()

    run(test)


def test_a_stop_does_not_wait_for_a_look_at_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, looking = Agent(DONE), asyncio.Event()

    async def slow(*_: object) -> None:
        looking.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(MemoryAgents, "check", slow)

    async def test() -> None:
        async with machine.engine() as services:
            sent = await say(services)
            await looking.wait()
            await services.chats.abort(sent.turn_id, THE_LOCAL_USER)
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
            assert result.status == "stopped"
            assert not machine.commands

    run(test)


def test_what_it_asks_is_asked_of_a_person_and_it_gets_the_answer() -> None:
    machine = Agent(
        Asked(request_id="r1", tool="bash", title="Run ls", can_remember=True), (5.0, Text(text="Ran.")), DONE
    )

    async def test() -> None:
        async with machine.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "NEEDS_APPROVAL")
            (asked,) = [one for one in await events(services, sent.turn_id) if isinstance(one, NeedsApproval)]
            await services.runs.answer(asked.wait.id, "approve-always", by="me")
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
            assert result.content == "Ran."
            (answer,) = machine.agents.answers.values()
            assert (answer.request_id, answer.allowed, answer.remember) == ("r1", True, True)

    run(test)


def test_an_agent_that_survives_a_restart_is_followed_and_nothing_is_heard_twice() -> None:
    usage = Usage(input_tokens=100, output_tokens=10)
    machine = Agent(
        SessionStarted(session_id="s1"),
        Text(text="Before. "),
        Noted(text="a note"),
        ToolStarted(call_id="c1", tool="bash"),
        Used(usage=usage, model="m"),
        (50.0, ToolEnded(call_id="c1", tool="bash", output="done")),
        Used(usage=usage, model="m"),
        Text(text="After."),
        DONE,
    )

    async def test() -> None:
        async with machine.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "USAGE_RECORDED")
        async with machine.engine() as services:
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S * 10)
            assert (result.success, result.content) == (True, "Before. After.")
            (call,) = result.tool_calls
            assert call.result == "done"
            told = await events(services, sent.turn_id)
            assert sum(one.input_tokens for one in told if isinstance(one, UsageRecorded)) == 200
            assert len([one for one in told if isinstance(one, TurnNoticed) and one.kind == "agent_note"]) == 1
            assert len(machine.commands) == 1

    run(test)


def test_what_is_said_meanwhile_it_hears_when_it_has_answered() -> None:
    machine = Agent(SessionStarted(session_id="s1"), Text(text="One."), (50.0, DONE)).then(Text(text="Two."), DONE)

    async def test() -> None:
        async with machine.engine() as services:
            sent = await say(services, "Count")
            await happened(services, sent.turn_id, "TEXT_DELTA")
            await services.chats.steer(sent.turn_id, THE_LOCAL_USER, "Faster")
            result = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S * 10)
            assert result.content == "One.Two."
            assert machine.told == ["Count", "Faster"]

    run(test)


def test_a_turn_that_takes_too_long_ends_its_agent() -> None:
    machine = Agent(Text(text="Well, "))

    async def test() -> None:
        async with machine.engine() as services:
            result = await answered(services, timeout_ms=5_000)
            assert (result.success, result.code, result.content) == (False, "timeout", "Well, ")
            assert not machine.warden.running()

    run(test)


def test_a_deleted_chat_leaves_nothing_of_its_agent() -> None:
    machine = Agent(Text(text="One."), DONE)

    async def test() -> None:
        async with machine.engine() as services:
            result = await answered(services)
            assert machine.agents.private
            assert result.chat_id is not None
            await services.chats.delete(result.chat_id, THE_LOCAL_USER)
            assert not machine.agents.private
            assert await machine.logs.size(f"{result.turn_id}/agent/1/answer") == 0

    run(test)


def test_a_chat_whose_deletion_broke_off_is_deleted_again_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Agent(Text(text="One."), DONE)

    async def test() -> None:
        async with machine.engine() as services:
            result = await answered(services)
            delete = services.supervisor.delete

            async def deletes_and_breaks(run_id: str, at: int) -> None:
                await delete(run_id, at)
                raise StoreFailed("the power is gone")

            with monkeypatch.context() as broken:
                broken.setattr(services.supervisor, "delete", deletes_and_breaks)
                with pytest.raises(StoreFailed):
                    await services.chats.delete(result.chat_id, THE_LOCAL_USER)
            await services.chats.delete(result.chat_id, THE_LOCAL_USER)
            assert not machine.agents.private
            assert await machine.logs.size(f"{result.turn_id}/agent/1/answer") == 0

    run(test)


@pytest.mark.parametrize(("mode", "looks"), [("ask", True), ("plan", True), ("agent", False)])
def test_where_only_looking_is_asked_for_it_may_change_nothing(
    mode: str, looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, given = Agent(Text(text="Looked."), DONE), list[Permissions | None]()
    command = MemoryAgents.command

    async def noted(agents: MemoryAgents, effect: RunWork) -> Command:
        given.append(effect.permissions)
        return await command(agents, effect)

    monkeypatch.setattr(MemoryAgents, "command", noted)

    async def test() -> None:
        async with machine.engine() as services:
            result = await answered(services, mode=mode)
            assert result.content == "Looked."
            assert len(given) == 1
            assert (given[0] is Permissions.DENY) is looks

    run(test)


def _given(machine: Agent, monkeypatch: pytest.MonkeyPatch) -> list[RunWork]:
    """What the agents of a machine are started for."""
    given, command = list[RunWork](), MemoryAgents.command

    async def noted(agents: MemoryAgents, effect: RunWork) -> Command:
        given.append(effect)
        return await command(agents, effect)

    monkeypatch.setattr(MemoryAgents, "command", noted)
    return given


def test_it_is_given_a_server_of_the_turns_tools_and_told_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Agent(SessionStarted(session_id="s1"), Text(text="One."), DONE)
    machine.tools.add(FakeTool())
    given = _given(machine, monkeypatch)

    async def test() -> None:
        async with machine.engine() as services:
            first = await answered(services)
            second = await answered(services, chat_id=first.chat_id)
            for work, result in zip(given, (first, second), strict=True):
                token = make_token(SECRET, Answering(result.turn_id, 1))
                env = {"PILOTHOUSE_MCP_SOCKET": "/owner.sock", "PILOTHOUSE_MCP_TOKEN": token}
                assert work.tools == ToolServer(name="pilothouse", command=("bridge",), env=env)
                assert token not in str(await events(services, result.turn_id))
                assert token not in str(work)
            assert "the server named `pilothouse`" in given[0].instructions
            assert not [one for one in await events(services, first.turn_id) if isinstance(one, TurnNoticed)]

    run(test)


@pytest.mark.parametrize("tools", [(), (FakeTool(of_workspace=True),), (FakeTool(permit=Permit.DENY),)])
def test_where_nothing_is_offered_it_is_given_no_server(
    tools: tuple[FakeTool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Agent(Text(text="One."), DONE)
    machine.why_no_tools = "they are missing"
    for tool in tools:
        machine.tools.add(tool)
    given = _given(machine, monkeypatch)

    async def test() -> None:
        async with machine.engine() as services:
            result = await answered(services)
            assert given[0].tools is None
            assert "pilothouse" not in given[0].instructions
            assert not [one for one in await events(services, result.turn_id) if isinstance(one, TurnNoticed)]

    run(test)


def test_one_that_cannot_be_given_its_tools_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Agent(Text(text="One."), Noted(text="its own"), (5.0, DONE))
    machine.tools.add(FakeTool())
    machine.why_no_tools = "pip install 'pilothouse[mcp]'"
    given = _given(machine, monkeypatch)

    async def notes(services: Services, turn_id: str) -> list[str]:
        return [one.data["text"] for one in await events(services, turn_id) if isinstance(one, TurnNoticed)]

    async def test() -> None:
        async with machine.engine() as services:
            sent = await say(services)
            await happened(services, sent.turn_id, "TEXT_DELTA")
        async with machine.engine() as services:  # which follows it from its beginning
            first = await services.chats.wait(sent.turn_id, THE_LOCAL_USER, PATIENCE_S)
            assert await notes(services, first.turn_id) == ["pip install 'pilothouse[mcp]'", "its own"]
            second = await answered(services, chat_id=first.chat_id)
            assert await notes(services, second.turn_id) == ["its own"]
            assert [work.tools for work in given] == [None, None]

    run(test)
