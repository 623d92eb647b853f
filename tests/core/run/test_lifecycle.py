"""The lifecycle table: every move it allows, every one it does not, and what follows from it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.run.events import RUN_EVENTS
from pilothouse.core.run.lifecycle import (
    FINAL,
    LIFECYCLE_EVENTS,
    MOVES,
    TERMINAL,
    TERMINAL_EVENTS,
    IllegalMove,
    Lifecycle,
    RunState,
    allows,
    mermaid,
    move,
    run_state,
)

L = Lifecycle

# Said again, by hand and by event: the table is read by lifecycle, so that a slip shows in one of the two.
LEGAL: dict[str, dict[Lifecycle, Lifecycle]] = {
    "RUN_STARTED": {L.CREATED: L.RUNNING},
    "RUN_RESUMED": dict.fromkeys((L.PAUSING, L.PAUSED, L.STOPPED, L.PARTIAL, L.FAILED), L.RUNNING),
    "PAUSE_REQUESTED": {L.RUNNING: L.PAUSING},
    "PAUSED": {L.PAUSING: L.PAUSED},
    "STOP_REQUESTED": dict.fromkeys((L.CREATED, L.RUNNING, L.PAUSING, L.PAUSED), L.STOPPING),
    "CANCEL_REQUESTED": dict.fromkeys((L.CREATED, L.RUNNING, L.PAUSING, L.PAUSED, L.STOPPING), L.STOPPING),
    "STOPPED": {L.STOPPING: L.STOPPED},
    "RUN_FINISHED": dict.fromkeys((L.RUNNING, L.PAUSING), L.SUCCEEDED),
    "RUN_FAILED": dict.fromkeys((L.RUNNING, L.PAUSING), L.FAILED),
    "RUN_CANCELED": dict.fromkeys((L.RUNNING, L.PAUSING, L.STOPPING, L.STOPPED, L.PARTIAL, L.FAILED), L.CANCELED),
}
TAGS = sorted({cls.type_name() for cls in RUN_EVENTS} | LIFECYCLE_EVENTS)


@pytest.mark.parametrize(("now", "tag"), list(product(Lifecycle, TAGS)))
def test_a_move_leads_where_the_rules_say_or_is_illegal(now: Lifecycle, tag: str) -> None:
    target = LEGAL.get(tag, {}).get(now)
    assert allows(now, tag) == (target is not None)
    if target is None:
        with pytest.raises(IllegalMove, match=f"{tag} cannot follow in {now}"):
            move(now, tag)
    else:
        assert move(now, tag) is target


def test_the_two_tables_name_the_same_events() -> None:
    assert set(LEGAL) == LIFECYCLE_EVENTS
    assert {cls.type_name() for cls in RUN_EVENTS} >= LIFECYCLE_EVENTS


@pytest.mark.parametrize("now", [L.RUNNING, L.PAUSING])
def test_the_status_of_an_end_says_how_it_ended(now: Lifecycle) -> None:
    assert move(now, "RUN_FINISHED", "SUCCEEDED") is L.SUCCEEDED
    assert move(now, "RUN_FINISHED", "PARTIAL") is L.PARTIAL
    with pytest.raises(IllegalMove):
        move(now, "RUN_FINISHED", "FAILED")


def test_a_status_that_is_no_lifecycle_is_an_illegal_move() -> None:
    with pytest.raises(IllegalMove):
        move(L.RUNNING, "RUN_FINISHED", "SPLENDID")


def test_a_status_where_there_is_no_choice_says_nothing() -> None:
    assert move(L.CREATED, "RUN_STARTED", "whatever") is L.RUNNING


def test_every_lifecycle_has_a_row_and_a_run_state() -> None:
    assert set(MOVES) == set(Lifecycle)
    assert {run_state(now) for now in Lifecycle} == set(RunState)


def test_the_run_state_is_the_runtime_documents() -> None:
    said = {
        RunState.IDLE: {L.CREATED, L.SUCCEEDED},
        RunState.RUNNING: {L.RUNNING, L.PAUSING, L.STOPPING},
        RunState.PAUSED: {L.PAUSED},
        RunState.STOPPED: {L.STOPPED, L.CANCELED},
        RunState.FAILED: {L.PARTIAL, L.FAILED},
    }
    assert {state: {now for now in Lifecycle if run_state(now) is state} for state in RunState} == said


def test_a_terminal_lifecycle_is_entered_by_terminal_events_only() -> None:
    for now, row in MOVES.items():
        for tag, targets in row.items():
            assert all((target in TERMINAL) == (tag in TERMINAL_EVENTS) for target in targets), (now, tag)


def test_final_lifecycles_open_no_leg_and_other_terminal_ones_can() -> None:
    assert FINAL <= TERMINAL
    for now in TERMINAL:
        assert allows(now, "RUN_RESUMED") == (now not in FINAL)
    assert all(not MOVES[now] for now in FINAL)


def test_a_run_can_be_stopped_or_canceled_wherever_a_leg_is_open() -> None:
    for now in set(Lifecycle) - TERMINAL:
        assert allows(now, "CANCEL_REQUESTED")
        assert allows(now, "STOP_REQUESTED") == (now is not L.STOPPING)


@given(st.data())
def test_exactly_one_terminal_event_closes_a_leg(data: st.DataObject) -> None:
    """Any walk through the table: a leg is open between its opening and one terminal event. What closes a run that has
    ended already (a discard) closes no leg."""
    now, open_legs, opened, closed, discarded = L.CREATED, 0, 0, 0, 0
    for _ in range(data.draw(st.integers(0, 25))):
        if not MOVES[now]:
            break
        tag = data.draw(st.sampled_from(sorted(MOVES[now])))
        target = data.draw(st.sampled_from(MOVES[now][tag]))
        reached = move(now, tag, target)
        assert reached is target
        opens = tag == "RUN_STARTED" or (tag == "RUN_RESUMED" and now in TERMINAL)
        if opens:
            opened, open_legs = opened + 1, open_legs + 1
        if tag in TERMINAL_EVENTS:
            if open_legs:
                closed, open_legs = closed + 1, open_legs - 1
            else:
                discarded += 1
        assert open_legs in (0, 1)
        if reached in TERMINAL:
            assert open_legs == 0
        now = reached
    assert opened == closed + open_legs


def test_the_diagram_names_every_lifecycle_and_every_event() -> None:
    diagram = mermaid()
    assert diagram.startswith("stateDiagram-v2\n")
    for now, row in MOVES.items():
        assert f" {now} " in diagram or f"> {now}" in diagram
        for tag, targets in row.items():
            for target in targets:
                (arrow,) = (line for line in diagram.splitlines() if line.strip().startswith(f"{now} --> {target} :"))
                assert tag in arrow.split(" : ")[1].split(", ")
    assert "[*] --> CREATED" in diagram
    assert {line.split()[0] for line in diagram.splitlines() if line.endswith("--> [*]")} == set(FINAL)
