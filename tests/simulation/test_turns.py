"""Turns in the simulation: hundreds of seeds keep every promise, a seed replays exactly, a broken rule is noticed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.simulation.turns.run import Result, simulate_turns

from pilothouse.core.chat import flow, hear, kind, recover
from pilothouse.core.chat.backend import Said
from pilothouse.core.chat.inputs import Heard
from pilothouse.core.chat.state import TurnState
from pilothouse.core.chat.tool_events import ToolEnded, ToolStarted
from pilothouse.core.run import control
from pilothouse.core.run.events import Event
from pilothouse.core.run.inputs import Recover
from pilothouse.engine.driving.actor import Actor
from pilothouse.engine.driving.patience import Patience

SEEDS = 320
CHUNK = 40
ONCE_FAILED = (242, 531, 843, 1002, 1316, 1333, 1416, 1480)
"""Seeds that found something: see docs/decisions/turn.md."""


@pytest.fixture(autouse=True)
def no_collection_in_between() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()
    gc.collect()


def kept(result: Result) -> None:
    assert result.broken is None, result.story()


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_promise_is_kept(first: int) -> None:
    for seed in range(first, first + CHUNK):
        kept(simulate_turns(seed))


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    kept(simulate_turns(seed))
    gc.collect()


def test_a_seed_replays_exactly() -> None:
    for seed in range(20):
        assert simulate_turns(seed).fingerprint == simulate_turns(seed).fingerprint


def noticed(expected: str, seeds: range = range(200)) -> None:
    for seed in seeds:
        broken = simulate_turns(seed).broken
        if broken is not None:
            assert expected in broken
            return
    raise AssertionError("nobody noticed")


def test_it_notices_a_tool_that_is_begun_again_although_it_must_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(state: TurnState, given: Recover) -> list[Event]:
        return [
            ToolStarted(tool_call_id=event.tool_call_id, attempt=state.calls[event.tool_call_id].attempt + 1)
            if isinstance(event, ToolEnded) and event.reason == "lost"
            else event
            for event in recover.recover(state, given)
        ]

    monkeypatch.setattr(kind, "recover", again)
    noticed("began twice")


def test_it_notices_text_that_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(state: TurnState, given: Heard) -> Any:
        said = tuple(one for told in given.said for one in ([told, told] if isinstance(told, Said) else [told]))
        return hear.hear(state, msgspec.structs.replace(given, said=said))

    monkeypatch.setattr(kind, "hear", twice)
    noticed(" of '")


def test_it_notices_tools_that_are_executed_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "approval", lambda state, call: ToolStarted(tool_call_id=call.id))
    noticed("was not allowed")


def test_it_notices_a_stop_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "settle", lambda run, draining, working: ())
    noticed("it does not come to an end")


def test_it_notices_effects_that_are_begun_before_their_intent_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Actor._commit

    async def early(self: Actor[Any], at: int) -> None:
        if self._batch and self._kind.common(self._state).lifecycle == "RUNNING":
            self._dispatch()
        await commit(self, at)

    monkeypatch.setattr(Actor, "_commit", early)
    noticed("without its intent in the log")


def test_it_notices_a_stop_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    wait: Any = Patience.wait

    async def late(self: Patience, work: Any, unwanted: Any, *given: Any, **more: Any) -> Any:
        answer = await wait(self, work, unwanted, *given, **more)
        if unwanted.is_set():
            await asyncio.sleep(2.0)
        return answer

    monkeypatch.setattr(Patience, "wait", late)
    noticed("stopped after")
