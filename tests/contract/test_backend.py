"""What a backend promises a turn, asked of the real ones and of their in-memory twin alike.

A setting plays the same script of events its own way: in memory, as a file of replies, or over real sockets on either
wire. What it says has to come out the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
import yaml
from tests.support.copilot_backend import Answer, CopilotBackend
from tests.support.model_backend import AsLanguageModel

from pilothouse.adapters.backends.memory import Break, Hold, MemoryBackend, Step, by_call
from pilothouse.adapters.backends.opening import BackendConfig, open_backend
from pilothouse.core.chat.backend import (
    BackendEvent,
    Completed,
    Failed,
    Paused,
    Said,
    Spent,
    Thought,
    Titled,
    ToolCalled,
)
from pilothouse.core.chat.calls import CallReason, CallStatus
from pilothouse.core.chat.effects import AbortBackend, MakeTitle
from pilothouse.core.chat.message import ToolBlock
from pilothouse.core.chat.request import BackendRequest, ToolReport
from pilothouse.engine.chat_ports import Backend
from pilothouse.errors import BackendFailed

T = TypeVar("T")
PATIENCE_S = 10.0
ALL = ("memory", "script", "remote-v0", "remote-v1", "llm-openai", "llm-openai-responses", "llm-anthropic")


OF_COPILOTS = tuple(name for name in ALL if not name.startswith("llm-"))
"""Who says what no language model does: titles in passing, errors as events."""


class Setting(Protocol):
    """Somewhere replies come from, that says what ``legs`` are: one for each request, the last one again."""

    def playing(self, *legs: Sequence[Step]) -> AbstractAsyncContextManager[Backend]: ...


class InMemory:
    @asynccontextmanager
    async def playing(self, *legs: Sequence[Step]) -> AsyncIterator[Backend]:
        yield MemoryBackend(by_call(*legs), title="A title")


class FromScript:
    """Legs one after the other are one list of steps, with a pause between two."""

    def __init__(self, root: Path) -> None:
        self._file = root / "replies.yaml"

    @asynccontextmanager
    async def playing(self, *legs: Sequence[Step]) -> AsyncIterator[Backend]:
        steps = [written for leg in legs for step in leg for written in _written(step)]
        self._file.write_text(yaml.safe_dump(steps, sort_keys=False))
        async with open_backend(BackendConfig(kind="script", script=self._file)) as backend:
            yield backend


class OverSockets:
    def __init__(self, wire: str) -> None:
        self._wire = wire

    @asynccontextmanager
    async def playing(self, *legs: Sequence[Step]) -> AsyncIterator[Backend]:
        server = CopilotBackend(self._wire)
        server.plays(*(_refusing(leg) for leg in legs))
        async with (
            server.serving(),
            open_backend(BackendConfig(kind="remote", url=server.url, api_key="k")) as backend,
        ):
            yield backend


@pytest.fixture(params=ALL)
def setting(request: pytest.FixtureRequest, tmp_path: Path) -> Setting:
    match request.param:
        case "memory":
            return InMemory()
        case "script":
            return FromScript(tmp_path)
        case model if model.startswith("llm-"):
            return AsLanguageModel(model.removeprefix("llm-"))
        case wired:
            return OverSockets(wired.removeprefix("remote-"))


def test_says_its_text_in_order_and_ends_with_its_last_word(setting: Setting) -> None:
    async def act() -> list[BackendEvent]:
        async with setting.playing([Said("Hello "), Said("wörld ✓"), Completed()]) as backend:
            return await heard(backend, asked())

    said = run(act())
    assert text_of(said) == "Hello wörld ✓"
    assert isinstance(said[-1], Completed)


@pytest.mark.parametrize("setting", OF_COPILOTS, indirect=True)
def test_tells_thoughts_titles_and_what_was_used(setting: Setting) -> None:
    async def act() -> list[BackendEvent]:
        used = Spent(input_tokens=9, output_tokens=4, cached_tokens=2, model="m", cost=0.5)
        async with setting.playing([Thought("Hm."), Said("Ah."), Titled("Greeting"), used, Completed()]) as backend:
            return await heard(backend, asked())

    said = run(act())
    assert "".join(one.text for one in said if isinstance(one, Thought)) == "Hm."
    assert Titled("Greeting") in said
    assert [one for one in said if isinstance(one, Spent)] == [
        Spent(input_tokens=9, output_tokens=4, cached_tokens=2, model="m", cost=0.5)
    ]


def test_calls_tools_in_parallel_and_pauses_for_all_their_results(setting: Setting) -> None:
    async def act() -> list[BackendEvent]:
        async with setting.playing([Said("Looking."), [CALL, OTHER], PAUSED], [Said("Done."), Completed()]) as backend:
            return await heard(backend, asked())

    said = run(act())
    calls = [one for one in said if isinstance(one, ToolCalled)]
    assert [(one.id, one.name, one.arguments) for one in calls] == [("a", "search", {"q": [1]}), ("b", "list", {})]
    assert not any(one.partial for one in calls)
    assert isinstance(said[-1], Paused)
    assert said[-1].pending == ("a", "b")


def test_goes_on_with_the_results(setting: Setting) -> None:
    async def act() -> tuple[list[BackendEvent], list[BackendEvent]]:
        async with setting.playing([[CALL], PAUSED_A], [Said("Found it."), Completed()]) as backend:
            first = await heard(backend, asked())
            paused = first[-1]
            assert isinstance(paused, Paused)
            return first, await heard(backend, asked(call=2, checkpoint=paused.checkpoint_id, done=("a",)))

    _, second = run(act())
    assert text_of(second) == "Found it."
    assert isinstance(second[-1], Completed)
    assert not [one for one in second if isinstance(one, ToolCalled)]


@pytest.mark.parametrize("setting", OF_COPILOTS, indirect=True)
def test_what_it_calls_an_error_is_said_and_ends_it(setting: Setting) -> None:
    async def act() -> list[BackendEvent]:
        failed = Failed(message="too long", code="context_limit", shown="That was too much.")
        async with setting.playing([Said("So far"), failed]) as backend:
            return await heard(backend, asked())

    said = run(act())
    assert text_of(said) == "So far"
    assert said[-1] == Failed(message="too long", code="context_limit", shown="That was too much.")


def test_a_stream_that_just_ends_ends_without_a_last_word(setting: Setting) -> None:
    async def act() -> list[BackendEvent]:
        async with setting.playing([Said("So far"), END]) as backend:
            return await heard(backend, asked())

    said = run(act())
    assert text_of(said) == "So far"
    assert not any(isinstance(one, Completed | Failed | Paused) for one in said)


def test_trouble_that_passes_is_told_as_such(setting: Setting) -> None:
    async def act() -> BackendFailed:
        busy = BackendFailed("busy", transient=True, retry_after_ms=2000)
        async with setting.playing([Break(busy)]) as backend:
            with pytest.raises(BackendFailed) as caught:
                await heard(backend, asked())
            return caught.value

    failed = run(act())
    assert failed.transient
    assert failed.retry_after_ms == 2000
    assert "busy" in str(failed)


def test_closing_what_it_says_ends_the_request_at_once(setting: Setting) -> None:
    async def act() -> None:
        async with setting.playing([Said("Wait"), HELD, Said("for me"), Completed()]) as backend:
            chunks = backend.call(asked())
            assert isinstance(chunks, AsyncGenerator)
            assert text_of(await anext(chunks)) == "Wait"
            await chunks.aclose()

    run(act())


def test_cancelling_who_listens_ends_the_request_at_once(setting: Setting) -> None:
    async def act() -> None:
        async with setting.playing([Said("Wait"), HELD, Completed()]) as backend:
            begun = asyncio.Event()
            listening = asyncio.create_task(heard(backend, asked(), begun.set))
            await begun.wait()
            listening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listening

    run(act())


def test_many_requests_go_on_at_once_and_do_not_mix(setting: Setting) -> None:
    async def act() -> list[list[BackendEvent]]:
        async with setting.playing([Said("one "), Said("two"), Completed()]) as backend:
            return await asyncio.gather(*(heard(backend, asked(turn=f"turn-{n:012}")) for n in range(20)))

    assert {text_of(said) for said in run(act())} == {"one two"}


def test_a_report_can_be_repeated_and_an_abort_of_nothing_is_none(setting: Setting) -> None:
    async def act() -> None:
        async with setting.playing([Completed()]) as backend:
            report = ToolReport(turn_id=TURN, tool_call_id="a", name="search", status=200, data={"n": 1})
            await backend.report(report)
            await backend.report(report)
            await backend.abort(
                AbortBackend(key="abort/1", backend=backend.name, turn_id=TURN, chat_id="chat", owner="local")
            )

    run(act())


def test_a_title_is_one_short_line_and_models_can_be_asked_for(setting: Setting) -> None:
    async def act() -> str:
        async with setting.playing([Completed()]) as backend:
            assert isinstance(await backend.models(), list)
            make = MakeTitle(
                key="title",
                backend=backend.name,
                chat_id="chat",
                owner="local",
                message="Make me a thing. " * 9,
                model="",
            )
            return await backend.title(make)

    title = run(act())
    assert 0 < len(title) <= 60
    assert "\n" not in title


TURN = "018f0000-0000-7000-8000-00000000000a"
CALL = ToolCalled(id="a", name="search", arguments={"q": [1]})
OTHER = ToolCalled(id="b", name="list", arguments={})
PAUSED = Paused(checkpoint_id="c1", pending=("a", "b"))
PAUSED_A = Paused(checkpoint_id="c1", pending=("a",))
HELD = Hold("never")
END: Sequence[BackendEvent] = ()
"""Nothing more, and no last word."""


def asked(*, turn: str = TURN, call: int = 1, checkpoint: str = "", done: Sequence[str] = ()) -> BackendRequest:
    return BackendRequest(
        turn_id=turn,
        chat_id="chat",
        message_id="message",
        call=call,
        reason=CallReason.RESULTS if done else CallReason.FIRST,
        owner="local",
        message="Do it",
        checkpoint_id=checkpoint,
        answered=tuple(done),
        blocks=tuple(ToolBlock(id=one, name="search", status=CallStatus.SUCCESS, result={"n": 1}) for one in done),
    )


async def heard(backend: Backend, request: BackendRequest, begun: Callable[[], object] = int) -> list[BackendEvent]:
    said: list[BackendEvent] = []
    async for chunk in backend.call(request):
        said += chunk
        begun()
    return said


def text_of(said: Sequence[BackendEvent]) -> str:
    return "".join(one.text for one in said if isinstance(one, Said))


def run(act: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await act

    return asyncio.run(bounded())


def _refusing(leg: Sequence[Step]) -> Sequence[Any]:
    """Trouble at the very beginning is an answer that says so."""
    first = leg[0]
    if not isinstance(first, Break):
        return leg
    return [Answer(503, {"error": str(first.error)}, {"Retry-After": str(first.error.retry_after_ms // 1000)})]


def _written(step: Step) -> list[dict[str, Any]]:
    """A step of ours as steps of a file of replies."""
    match step:
        case Said(text=text):
            return [{"say": text}]
        case Thought(text=text):
            return [{"think": text}]
        case Titled(title=title):
            return [{"title": title}]
        case Spent():
            use = {"model": step.model, "input": step.input_tokens, "output": step.output_tokens}
            return [{"use": use | {"cached": step.cached_tokens, "cost": "0.5"}}]
        case Failed():
            return [{"fail": {"message": step.message, "code": step.code, "shown": step.shown}}]
        case Break():
            failure = {"transient": True, "retryAfterMs": step.error.retry_after_ms}
            return [{"fail": {"message": str(step.error), **failure}}]
        case Hold():
            return [{"wait": 60_000}]
        case Completed() | Paused():
            return []
        case Sequence():
            calls = [
                {"tool": one.name, "id": one.id, "arguments": one.arguments}
                for one in step
                if isinstance(one, ToolCalled)
            ]
            return [{"call": calls}] if calls else [{"end": True}]
    raise NotImplementedError(step)
