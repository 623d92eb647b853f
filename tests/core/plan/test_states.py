from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.plan.states import (
    ACTIVE,
    MOVES,
    OURS,
    TERMINAL,
    IllegalNodeMove,
    NodeStatus,
    check_move,
    initial_status,
    mermaid,
)
from pilothouse.errors import PilothouseError

PENDING, READY, SCHEDULED, RUNNING, SUCCEEDED, FAILED, BLOCKED, CANCELED = NodeStatus

DOCUMENT = {
    PENDING: {READY, BLOCKED, CANCELED},
    READY: {SCHEDULED, BLOCKED, CANCELED},
    SCHEDULED: {RUNNING, FAILED, CANCELED},
    RUNNING: {SUCCEEDED, FAILED, CANCELED},
    SUCCEEDED: set(),
    FAILED: set(),
    BLOCKED: set(),
    CANCELED: set(),
}


def test_the_table_without_our_moves_is_the_documents_table() -> None:
    assert {old: {new for new in moves if (old, new) not in OURS} for old, moves in MOVES.items()} == DOCUMENT


def test_our_moves_are_retries_and_interruptions_only() -> None:
    assert {(old, new) for old, moves in MOVES.items() for new in moves} >= OURS
    assert {(old, new) for old, new in OURS if new is PENDING} == {(old, PENDING) for old in TERMINAL - {SUCCEEDED}}
    assert {(old, new) for old, new in OURS if new is READY} == {(old, READY) for old in ACTIVE}


@given(st.sampled_from(NodeStatus), st.sampled_from(NodeStatus))
def test_a_move_is_allowed_exactly_when_the_table_has_it(old: NodeStatus, new: NodeStatus) -> None:
    if new in MOVES[old]:
        check_move(old, new)
    else:
        with pytest.raises(IllegalNodeMove, match=f"from {old} to {new}"):
            check_move(old, new)


def test_an_illegal_move_is_a_bug_and_no_expected_failure() -> None:
    assert not issubclass(IllegalNodeMove, PilothouseError)


def test_roots_start_ready_and_all_others_pending() -> None:
    assert initial_status(is_root=True) is READY
    assert initial_status(is_root=False) is PENDING


def test_the_diagram_shows_every_move_of_the_table_once() -> None:
    drawn = [line.strip().partition(" :")[0] for line in mermaid().splitlines()]
    for old, moves in MOVES.items():
        for new in moves:
            assert drawn.count(f"{old} --> {new}") == 1
    assert {line for line in drawn if line.endswith("--> [*]")} == {f"{status} --> [*]" for status in TERMINAL}
