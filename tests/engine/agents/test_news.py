"""News on their way into the log: merged, bounded, and such that any log can hold them."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.desk import work
from tests.engine.server import Clock, quiet, run

from pilothouse.core.plan.agent_events import (
    AgentNoted,
    AgentReasoning,
    AgentSessionStarted,
    AgentText,
    AgentToolEnded,
    AgentUsed,
)
from pilothouse.core.run.agents import (
    MAX_TEXT,
    Asked,
    FileEdited,
    News,
    Noted,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolStarted,
    Used,
)
from pilothouse.core.run.events import Event, NeedsApproval
from pilothouse.core.run.usage import Usage
from pilothouse.engine.agents.news import Bounds, Telling, sound
from pilothouse.engine.driving.effects import Within
from pilothouse.engine.kinds import REGISTRY


class Told:
    def __init__(self, *, read_to: int = 0, **bounds: Any) -> None:
        self.events: list[Event] = []
        self.telling = Telling(
            work(read_to=read_to),
            Within("p", 1, self.events.extend),
            Clock(),
            lambda _, usage: usage,
            Bounds(**bounds),
        )

    def line(self, *news: News, to: int = 1) -> None:
        self.telling.line(news, to)

    def all(self) -> list[Any]:
        self.telling.flush()
        return self.events


def test_an_agent_that_names_ever_new_models_is_counted_in_full_and_named_in_part() -> None:
    told = Told(models=2)
    one = Usage(input_tokens=1)
    for number, model in enumerate(("a", "b", "c", "a", "d", "e"), 1):
        told.line(Used(usage=one, model=model), to=number)
    assert [(e.model, e.usage.input_tokens) for e in told.all()] == [("a", 1), ("b", 1), ("", 1), ("a", 1), ("", 2)]
    (last,) = told.telling.at_the_end([Used(usage=one, model="f")])
    assert isinstance(last, Used) and last.model == ""


def test_pieces_of_text_are_one_event_until_something_else_comes() -> None:
    told = Told()
    told.line(Text(text="a"), to=1)
    told.line(Text(text="b"), to=2)
    told.line(Reasoning(text="c"), to=3)
    told.line(Text(text="d"), to=4)
    assert [(type(e), e.text, e.to) for e in told.all()] == [
        (AgentText, "ab", 2),
        (AgentReasoning, "c", 3),
        (AgentText, "d", 4),
    ]


def test_usage_of_one_model_is_added_up_and_that_of_others_kept_apart() -> None:
    told = Told()
    for model, tokens in (("m", 1), ("m", 2), ("n", 4)):
        told.line(Used(usage=Usage(input_tokens=tokens), model=model))
    assert [(e.model, e.usage.input_tokens) for e in told.all()] == [("m", 3), ("n", 4)]


def test_what_a_line_told_is_recorded_together() -> None:
    batches: list[tuple[Event, ...]] = []
    telling = Telling(work(), Within("p", 1, batches.append), Clock(), lambda _, usage: usage)
    telling.line((ToolStarted(call_id="1", tool="t"), Text(text="x"), ToolEnded(call_id="1"), Text(text="y")), 7)
    assert [[event.type_name() for event in batch] for batch in batches] == [
        ["AGENT_TOOL_STARTED", "AGENT_TEXT", "AGENT_TOOL_ENDED", "AGENT_TEXT"]
    ]


def test_what_the_log_holds_already_is_not_recorded_again() -> None:
    told = Told(read_to=10)
    told.line(Text(text="old"), to=10)
    told.line(Text(text="new"), to=11)
    assert [e.text for e in told.all()] == ["new"]


def test_the_same_session_is_told_once() -> None:
    told = Told()
    for session in ("a", "a", "b"):
        told.line(SessionStarted(session_id=session))
    assert [e.session_id for e in told.all() if isinstance(e, AgentSessionStarted)] == ["a", "b"]


def test_much_that_waits_is_recorded_before_its_time() -> None:
    told = Told()
    told.line(Text(text="x" * 70_000))
    assert len(told.events) == 1


def test_it_records_at_once_and_then_at_intervals() -> None:
    async def test() -> None:
        told = Told()
        running = asyncio.create_task(told.telling.run())
        told.line(Text(text="1"))
        await quiet()
        assert len(told.events) == 1
        told.line(Text(text="2"))
        told.line(Text(text="3"))
        await quiet()
        assert len(told.events) == 1
        await asyncio.sleep(0.2)
        assert len(told.events) == 2
        running.cancel()

    run(test)


# Bounds.


def test_beyond_the_bound_of_text_one_note_says_that_there_is_more() -> None:
    told = Told(characters=10)
    for _ in range(5):
        told.line(Text(text="1234"))
    told.line(Noted(text="n"))
    *texts, note = told.all()
    assert "".join(e.text for e in texts) == "1234123412"
    assert isinstance(note, AgentNoted) and "more" in note.text


def test_beyond_the_bounds_sums_conversations_questions_and_ends_of_tools_are_still_told() -> None:
    told = Told(items=1)
    told.line(FileEdited(path="a"))
    told.line(FileEdited(path="b"))
    told.line(Used(usage=Usage(turns=1)))
    told.line(SessionStarted(session_id="s"))
    told.line(Asked(request_id="r", tool="t"))
    told.line(ToolEnded(call_id="1", output="much"))
    kinds = [type(e) for e in told.all()[2:]]
    assert kinds == [AgentUsed, AgentSessionStarted, NeedsApproval, AgentToolEnded]
    assert told.events[-1].output == ""  # type: ignore[attr-defined]  # it is an AgentToolEnded


def test_notes_have_a_bound_of_their_own() -> None:
    told = Told(notes=2)
    for n in range(5):
        told.line(Noted(text=str(n)))
    told.line(FileEdited(path="a"))
    assert [getattr(e, "text", "") for e in told.all()] == ["0", "1", "… more in the raw output", ""]


def test_nothing_goes_on_for_ever_but_sums() -> None:
    told = Told(items=2, items_in_all=4)
    for n in range(10):
        told.line(ToolEnded(call_id=str(n)))
        told.line(Used(usage=Usage(turns=1)))
    ends = [e for e in told.all() if isinstance(e, AgentToolEnded)]
    assert len(ends) == 4
    assert sum(e.usage.turns for e in told.events if isinstance(e, AgentUsed)) == 10


@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.integers(0, 30))
def test_whoever_reads_again_stops_where_the_first_one_did(words: list[str], read_to: int) -> None:
    """What two owners told together is what one would have told."""

    def read(first: int, last: int) -> str:
        told = Told(read_to=first, characters=9)
        for to, word in enumerate(words[:last], 1):
            told.line(Text(text=word), to=to)
        return "".join(getattr(e, "text", "") for e in told.all())

    assert read(0, read_to) + read(read_to, len(words)) == read(0, len(words))


# Sound.


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -1.0, 1e300, 10**40])
def test_numbers_that_are_none_do_not_reach_the_log(number: float) -> None:
    told = Told()
    told.line(Used(usage=Usage(premium_requests=number, input_tokens=number)))  # type: ignore[arg-type]  # as agents do
    (again,) = REGISTRY.decode(REGISTRY.encode(told.all()))
    assert isinstance(again, AgentUsed)
    assert 0 <= again.usage.input_tokens <= 1 << 53


def test_text_that_is_no_text_becomes_some() -> None:
    told = Told()
    told.line(Text(text="a\ud800b"), Noted(text="\udfff"))
    text, note = REGISTRY.decode(REGISTRY.encode(told.all()))
    assert isinstance(text, AgentText) and text.text == "a?b"
    assert isinstance(note, AgentNoted) and note.text == "?"


def test_what_is_told_of_a_tool_is_never_without_end() -> None:
    assert len(sound(ToolEnded(call_id="1", output="x" * 100_000)).output) == MAX_TEXT


@pytest.mark.parametrize(
    "news", [Text(text="ü" * 20), Used(usage=Usage(cost=0.5, turns=3)), Asked(request_id="r", tool="t")]
)
def test_what_is_sound_stays_what_it_is(news: News) -> None:
    assert msgspec.structs.asdict(sound(news)) == msgspec.structs.asdict(news)
