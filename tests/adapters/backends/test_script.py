"""The script backend: rules, steps, and what is filled in. What all backends promise is the contract's."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pilothouse.adapters.backends.opening import BackendConfig, open_backend
from pilothouse.adapters.backends.script import ScriptBackend
from pilothouse.adapters.backends.script_file import read_replies
from pilothouse.core.chat.backend import (
    Asked,
    BackendEvent,
    Completed,
    Failed,
    LaneClosed,
    LaneOpened,
    Paused,
    Said,
    ToolAnswered,
    ToolCalled,
)
from pilothouse.core.chat.calls import CallReason, CallStatus, GivenResult
from pilothouse.core.chat.effects import AnswerBackend, MakeTitle
from pilothouse.core.chat.message import SteeringBlock, ToolBlock
from pilothouse.core.chat.request import BackendRequest
from pilothouse.errors import BackendFailed, BadInput, Unavailable

T = TypeVar("T")
EXAMPLE = Path(__file__).parents[3] / "examples" / "copilot.replies.yaml"
TURN = "018f0000-0000-7000-8000-00000000000a"


def test_the_first_rule_that_fits_counts() -> None:
    text = """
    rules:
      - { when: { contains: [make, it] }, steps: [ say: both ] }
      - { when: { contains: make }, steps: [ say: "{message}" ] }
      - { when: { mode: [research, create_plan] }, steps: [ say: looking ] }
    otherwise: [ say: nothing ]
    """
    assert said(text, message="IT? MAKE it!") == "both"
    assert said(text, message="Make {that}") == "Make {that}"
    assert said(text, message="x", mode="research") == "looking"
    assert said(text, message="x") == "nothing"


def test_what_a_pattern_finds_can_be_filled_in() -> None:
    text = r"{rules: [{when: {matches: 'called (?P<name>\w+)'}, steps: [{say: '{name}: {match.0} {unknown}'}]}]}"
    assert said(text, message="Make one CALLED Demo.") == "Demo: CALLED Demo {unknown}"


def test_results_are_used_in_what_is_said_and_in_arguments() -> None:
    text = """
    - call: { tool: find, arguments: { q: "{message}" } }
    - call: { tool: open, arguments: { id: "{results.find.items.0}", all: "{results.find.items}", note: "no {x}" } }
    - say: "{results.open.title}, {results.find}, {status.find}"
    """
    first = played(text, message="Trees")
    assert called(first) == [("find", {"q": "Trees"})]
    found = over(first, {"items": [7, 8]})
    second = played(text, message="Trees", blocks=found, call=2)
    assert called(second) == [("open", {"id": 7, "all": [7, 8], "note": "no {x}"})]
    third = played(text, message="Trees", blocks=(*found, *over(second, {"title": "Oak"})), call=3)
    assert text_of(third) == 'Oak, {"items": [7, 8]}, success'
    assert isinstance(third[-1], Completed)


def test_calls_of_two_turns_have_different_ids() -> None:
    text = "- call: { tool: look }"
    ids = {one.id for turn in ("a", "b") for one in played(text, turn_id=12 * turn) if isinstance(one, ToolCalled)}
    assert len(ids) == 2


def test_a_call_made_for_later_does_not_hold_up_the_text() -> None:
    text = """
    - call: { tool: slow, later: true }
    - say: Meanwhile.
    - results: true
    - say: Done.
    """
    first = played(text)
    assert [type(one) for one in first] == [ToolCalled, Said, Paused]
    assert text_of(played(text, blocks=over(first, 1), call=2)) == "Done."


def test_what_was_called_for_later_is_waited_for_at_the_end() -> None:
    first = played("- { call: { tool: slow, later: true } }\n- say: Bye.")
    assert isinstance(first[-1], Paused)
    second = played("- { call: { tool: slow, later: true } }\n- say: Bye.", blocks=over(first, 1), call=2)
    assert [type(one) for one in second] == [Completed]


@pytest.mark.parametrize(("status", "words"), [(CallStatus.SUCCESS, "fine"), (CallStatus.REJECTED, "no: they said no")])
def test_steps_can_depend_on_how_the_last_results_were(status: CallStatus, words: str) -> None:
    text = """
    - call: { tool: send }
    - { say: fine, only: succeeded }
    - { say: "no: {errors.send}", only: failed }
    """
    blocks = over(played(text), {}, status, "they said no")
    assert text_of(played(text, blocks=blocks, call=2)) == words


def test_results_that_somebody_else_made_can_be_filled_in() -> None:
    given = (GivenResult(id="a", name="look", result={"n": 3}),)
    assert text_of(played('- say: "{results.look.n}"', results=given)) == "3"


def test_a_failure_can_pass_after_some_tries() -> None:
    text = "- fail: { message: busy, transient: true, times: 2, retryAfterMs: 70 }\n- say: At last."
    for call in (1, 2):
        with pytest.raises(BackendFailed) as caught:
            played(text, call=call)
        assert (caught.value.transient, caught.value.retry_after_ms) == (True, 70)
    assert text_of(played(text, call=3)) == "At last."


def test_a_subagent_works_in_a_lane_of_its_own() -> None:
    found = played("- subagent: { agent: research, steps: [ say: Hm, wait: 0, think: Ah ], result: ok }\n- say: Done.")
    call = found[0]
    assert isinstance(call, ToolCalled)
    assert call.name == "research"
    assert [getattr(one, "lane", "") for one in found[2:4]] == [call.id, call.id]
    assert [type(one) for one in found[1:2] + found[4:7]] == [LaneOpened, LaneClosed, ToolAnswered, Said]


def test_what_is_said_meanwhile_has_rules_of_its_own() -> None:
    text = """
    rules:
      - { when: { steering: true, contains: french }, steps: [ say: "Oui: {steering}" ] }
    otherwise: [ say: "Hello." ]
    """
    steered = {"reason": CallReason.STEERING, "steering": ("In French",)}
    assert text_of(played(text, call=2, **steered)) == "Oui: In French"
    heard = (SteeringBlock(id="s", text="In French", call=2),)
    assert text_of(played(text, call=3, blocks=heard)) == "Oui: In French"
    assert said(text, message="French?") == "Hello."


@pytest.mark.parametrize("allowed", [True, False])
def test_it_asks_as_agents_do_and_fails_when_it_may_not(allowed: bool) -> None:
    async def act() -> list[BackendEvent]:
        backend = ScriptBackend(read_replies("- ask: { tool: shell, input: 'rm {message}' }\n- say: Done.", "x"))
        found: list[BackendEvent] = []
        async for chunk in backend.call(asked()):
            found += chunk
            for one in chunk:
                if isinstance(one, Asked):
                    answer = AnswerBackend(
                        key="answer/1",
                        backend="script",
                        turn_id=TURN,
                        call=1,
                        request_id=one.request_id,
                        allowed=allowed,
                        remember=False,
                    )
                    await backend.answer(answer)
                    await backend.answer(answer)
        return found

    found = run(act())
    assert isinstance(found[0], Asked)
    assert found[0].input == "rm Do it"
    assert isinstance(found[-1], Completed if allowed else Failed)


def test_a_title_can_be_written() -> None:
    backend = ScriptBackend(read_replies("title: 'About {message}'", "x"))
    make = MakeTitle(key="title", backend="script", chat_id="c", owner="o", message="rivers" * 20, model="")
    title = run(backend.title(make))
    assert title.startswith("About rivers")
    assert len(title) <= 60


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("rules: 3", "rules"),
        ("rules: [{when: {contain: x}, steps: []}]", "rules[0].when"),
        ("rules: [{when: {matches: '('}, steps: []}]", "rules[0].when.matches"),
        ("otherwise: [{say: a, think: b}]", "otherwise[0]"),
        ("otherwise: [{}]", "otherwise[0]"),
        ("otherwise: [{shout: a}]", "otherwise[0]"),
        ("otherwise: [{wait: -1}]", "otherwise[0].wait"),
        ("otherwise: [{call: []}]", "otherwise[0].call"),
        ("otherwise: [{call: {tool: x}, only: failed}]", "otherwise[0].only"),
        ("otherwise: [{subagent: {agent: a, steps: [{call: {tool: x}}]}}]", "otherwise[0].subagent.steps[0]"),
        ("say: a", ""),
    ],
)
def test_what_is_wrong_with_a_file_is_named(text: str, field: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_replies(text, "replies.yaml")
    assert caught.value.field == field
    assert str(caught.value)


def test_a_file_that_is_not_there_is_named() -> None:
    async def act() -> None:
        async with open_backend(BackendConfig(kind="script", script=Path("/nowhere/replies.yaml"))):
            pass

    with pytest.raises(Unavailable, match="PILOTHOUSE_SCRIPT: /nowhere/replies"):
        run(act())


def test_the_example_is_right() -> None:
    backend = ScriptBackend.read(EXAMPLE)
    found = run(heard(backend, asked(message="A workflow called demo, please")))
    assert called(found)[0][0] == "create_workflow"
    assert called(found)[0][1]["name"] == "demo"


def asked(**given: Any) -> BackendRequest:
    defaults: dict[str, Any] = {
        "turn_id": TURN,
        "chat_id": "c",
        "message_id": "m",
        "call": 1,
        "reason": CallReason.RESULTS if given.get("blocks") else CallReason.FIRST,
        "owner": "o",
        "message": "Do it",
        "answered": tuple(one.id for one in given.get("blocks", ()) if isinstance(one, ToolBlock)),
    }
    return BackendRequest(**{**defaults, **given})


async def heard(backend: ScriptBackend, request: BackendRequest) -> list[BackendEvent]:
    return [one async for chunk in backend.call(request) for one in chunk]


def played(text: str, **given: Any) -> list[BackendEvent]:
    return run(heard(ScriptBackend(read_replies(text, "replies.yaml")), asked(**given)))


def said(text: str, **given: Any) -> str:
    return text_of(played(text, **given))


def text_of(events: Sequence[BackendEvent]) -> str:
    return "".join(one.text for one in events if isinstance(one, Said))


def called(events: Sequence[BackendEvent]) -> list[tuple[str, Any]]:
    return [(one.name, one.arguments) for one in events if isinstance(one, ToolCalled)]


def over(
    events: Sequence[BackendEvent], result: Any, status: CallStatus = CallStatus.SUCCESS, error: str = ""
) -> tuple[ToolBlock, ...]:
    """The calls among them, ended so."""
    return tuple(
        ToolBlock(id=one.id, name=one.name, status=status, result=result, error=error)
        for one in events
        if isinstance(one, ToolCalled)
    )


def run(act: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(10):
            return await act

    return asyncio.run(bounded())
