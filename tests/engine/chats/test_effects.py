"""Each effect of a turn by itself: how long it is tried, what it answers, and that it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.engine.conversations import FakeTool
from tests.engine.server import Clock, run

from pilothouse.adapters.backends.memory import MemoryBackend
from pilothouse.adapters.store.memory import MemoryEventStore, MemoryWorld
from pilothouse.core.chat.effects import (
    AbortBackend,
    AnswerBackend,
    MakeTitle,
    RememberPermit,
    ReportTool,
    RunTool,
    SteerBackend,
    Title,
    TookTooLong,
)
from pilothouse.core.chat.kind import TurnKind
from pilothouse.core.run.contract import Effect, Ended, Failed, Timer, TimeUp
from pilothouse.core.tools.spec import Permit, ToolAnswer
from pilothouse.engine.chats.documents import ChatDocument, ChatDocuments, Titled
from pilothouse.engine.chats.effects import REPORT_GIVE_UP_S, TurnEffects
from pilothouse.engine.chats.history import ChatHistory
from pilothouse.engine.driving.effects import Done, Within
from pilothouse.engine.kinds import REGISTRY
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import BackendFailed

PASSES = BackendFailed("502", transient=True)
WHOSE: dict[str, Any] = {"backend": "memory", "turn_id": "t", "chat_id": "c", "owner": "ann"}
REPORT = ReportTool(
    key="report/c1", tool_call_id="c1", name="look", backend="memory", turn_id="t", status=200, message="", data=1
)
TITLE = MakeTitle(key="title", backend="memory", chat_id="c", owner="ann", message="What is a tree?", model="")
ANSWER = AnswerBackend(
    key="answer/w", backend="memory", turn_id="t", call=1, request_id="r", allowed=True, remember=False
)


class Bench:
    """A performer, its backend and the documents it writes."""

    def __init__(self, *tools: FakeTool) -> None:
        store, clock = MemoryEventStore(MemoryWorld()), Clock()
        self.backend = MemoryBackend()
        self.documents = ChatDocuments(store, clock)
        history = ChatHistory(store, REGISTRY, TurnKind(), self.documents)
        self.perform = TurnEffects(self.backend, ToolRegistry(tools), self.documents, history, clock)
        self.within = Within("t", 1, lambda _: None)

    async def __call__(self, effect: Effect) -> msgspec.Struct:
        return await self.perform(effect, self.within)


def took(journey: Callable[[], Awaitable[Any]]) -> float:
    """Virtual seconds."""

    async def timed() -> float:
        began = asyncio.get_running_loop().time()
        await journey()
        return asyncio.get_running_loop().time() - began

    return run(timed)


def test_a_report_is_made_until_it_arrives_with_pauses_that_grow() -> None:
    async def journey() -> None:
        bench = Bench()
        bench.backend.failing += [PASSES] * 4
        assert await bench(REPORT) == Done()
        assert [report.data for report in bench.backend.reports] == [1]

    assert took(journey) == pytest.approx(0.25 + 0.5 + 1 + 2)


def test_a_report_waits_as_long_as_it_was_told_to() -> None:
    async def journey() -> None:
        bench = Bench()
        bench.backend.failing.append(BackendFailed("429", transient=True, retry_after_ms=7_000))
        await bench(REPORT)

    assert took(journey) == pytest.approx(7)


def test_a_report_that_never_arrives_is_given_up() -> None:
    async def journey() -> None:
        bench = Bench()
        bench.backend.failing += [PASSES] * 1_000
        with pytest.raises(BackendFailed):
            await bench(REPORT)

    assert REPORT_GIVE_UP_S / 2 < took(journey) <= REPORT_GIVE_UP_S


def test_what_a_backend_refuses_for_good_is_not_reported_again() -> None:
    async def journey() -> None:
        bench = Bench()
        bench.backend.failing.append(BackendFailed("404", status=404))
        with pytest.raises(BackendFailed):
            await bench(REPORT)

    assert took(journey) == 0


def test_a_report_that_is_not_answered_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def journey() -> None:
        bench = Bench()
        tries: list[int] = []

        async def first_hangs(_: object) -> None:
            tries.append(1)
            if len(tries) == 1:
                await asyncio.Event().wait()

        monkeypatch.setattr(bench.backend, "report", first_hangs)
        assert await bench(REPORT) == Done()

    assert took(journey) == pytest.approx(30.25)


def test_an_answer_is_handed_over_or_after_some_tries_not() -> None:
    async def journey() -> None:
        bench = Bench()
        bench.backend.failing += [PASSES] * 2
        assert await bench(ANSWER) == Done()
        bench.backend.failing += [PASSES] * 100
        with pytest.raises(BackendFailed):
            await bench(ANSWER)

    assert took(journey) < 10


@pytest.mark.parametrize(
    ("made", "title", "kept"),
    [
        ('  "Of trees\nand leaves" ', "Of trees and leaves", "Of trees and leaves"),
        ("x" * 300, "x" * 60, "x" * 60),
        (" ", "What is a tree?", "first words"),
    ],
)
def test_a_title_is_one_short_line(monkeypatch: pytest.MonkeyPatch, made: str, title: str, kept: str) -> None:
    async def journey() -> None:
        bench = Bench()
        await bench.documents.create("c", "ann", ChatDocument(created_at=0, title="first words"))

        async def makes(_: object) -> str:
            return made

        monkeypatch.setattr(bench.backend, "title", makes)
        assert await bench(TITLE) == Title(title=title)
        assert (await bench.documents.get("c")).chat.title == kept

    run(journey)


def test_a_title_that_a_person_gave_stays() -> None:
    async def journey() -> None:
        bench = Bench()
        await bench.documents.create("c", "ann", ChatDocument(created_at=0, title="Mine", titled=Titled.USER))
        await bench(TITLE)
        assert (await bench.documents.get("c")).chat.title == "Mine"

    run(journey)


def test_a_title_takes_no_longer_than_it_may_and_needs_no_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    async def journey() -> None:
        bench = Bench()
        await bench(TITLE)  # the chat was deleted meanwhile
        monkeypatch.setattr(bench.backend, "title", lambda _: asyncio.Event().wait())
        assert await bench(TITLE) == Title(title="What is a tree?")

    assert took(journey) == pytest.approx(30)


def test_telling_a_backend_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def journey() -> None:
        bench = Bench()
        assert await bench(AbortBackend(key="abort/1", **WHOSE)) == Done()
        monkeypatch.setattr(bench.backend, "abort", lambda _: asyncio.Event().wait())
        failed = await bench(AbortBackend(key="abort/1", **WHOSE))
        assert isinstance(failed, Failed)
        monkeypatch.setattr(bench.backend, "steer", lambda _: asyncio.Event().wait())
        failed = await bench(SteerBackend(key="steer/s", steering_id="s", content="x", **WHOSE))
        assert isinstance(failed, Failed)

    assert took(journey) == pytest.approx(3 + 30)


def test_what_is_remembered_is_kept_for_the_chat_or_for_always() -> None:
    async def journey() -> None:
        bench = Bench()
        given: dict[str, Any] = {"tool_call_id": "c1", "chat_id": "c", "owner": "ann", "tool": "look"}
        await bench.documents.create("c", "ann", ChatDocument(created_at=0))
        assert await bench(RememberPermit(key="remember/c1", scope="chat", **given)) == Done()
        assert (await bench.documents.get("c")).chat.permits == {"look": Permit.ALLOW}
        assert await bench(RememberPermit(key="remember/c1", scope="always", **given)) == Done()
        assert await bench.documents.permits("ann") == {"look": Permit.ALLOW}
        assert await bench.documents.permits("bob") == {}
        given["chat_id"] = "deleted"
        assert await bench(RememberPermit(key="remember/c1", scope="chat", **given)) == Done()

    run(journey)


def running(**more: Any) -> RunTool:
    given: dict[str, Any] = {
        "key": "tool/c1/1", "tool_call_id": "c1", "name": "look", "arguments": {"a": 1}, "timeout_ms": 5_000,
        "turn_id": "t", "chat_id": "c", "message_id": "m", "owner": "ann", "mode": "chat", "workflow_id": "",
        "workspace": "",
    }  # fmt: skip
    return RunTool(**{**given, **more})


def test_a_tool_answers_is_given_up_or_ended() -> None:
    async def hang(*_: Any) -> None:
        await asyncio.Event().wait()

    async def journey() -> None:
        bench = Bench(FakeTool(), FakeTool("hang", does=hang))
        assert await bench(running()) == ToolAnswer(ok=True, result={"a": 1})
        assert await bench(running(name="hang")) == TookTooLong()
        asyncio.get_running_loop().call_later(1, bench.within.unwanted.set)
        assert await bench(running(name="hang")) == Ended()

    assert took(journey) == pytest.approx(5 + 1)


def test_a_timer_is_up_at_its_moment() -> None:
    async def journey() -> None:
        bench = Bench()
        now = int(asyncio.get_running_loop().time() * 1000)
        assert await bench(Timer(key="timeout/1", until=now + 200_000)) == TimeUp()
        asyncio.get_running_loop().call_later(1, bench.within.unwanted.set)
        assert await bench(Timer(key="timeout/1", until=now + 900_000)) == Ended()

    assert took(journey) == pytest.approx(201)


def test_an_effect_nobody_performs_is_a_bug() -> None:
    async def journey() -> None:
        with pytest.raises(TypeError):
            await Bench()(Effect(key="x"))

    run(journey)
