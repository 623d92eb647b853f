"""The read model is the fold of the events, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from pilothouse.core.run import events as ev
from pilothouse.core.run.events import Event, Recorded
from pilothouse.core.run.lifecycle import IllegalMove, Lifecycle
from pilothouse.core.run.rows import RunRow, project
from pilothouse.core.run.waits import Wait, WaitKind

CREATED = ev.RunCreated(
    kind="plan",
    name="a plan",
    owner="local",
    session_id="s",
    parent_run_id="p",
    root_run_id="r",
    link=ev.Link.OWNED,
    cause="cli",
)


def fold(*events: Event, row: RunRow | None = None) -> RunRow:
    """The row after ``events``, a second apart; the first is at 1000 ms."""
    start = row.seq if row else 0
    for index, event in enumerate(events, start + 1):
        row = project(row, Recorded("run", index, index * 1000, event))
    assert row is not None
    return row


def test_a_run_begins_with_its_creation() -> None:
    assert fold(CREATED) == RunRow(
        id="run",
        kind="plan",
        name="a plan",
        owner="local",
        session_id="s",
        parent_run_id="p",
        root_run_id="r",
        link="owned",
        cause="cli",
        seq=1,
        created_at=1000,
        updated_at=1000,
    )


def test_nothing_else_can_come_first() -> None:
    with pytest.raises(ValueError, match="RUN_CREATED, not RUN_STARTED"):
        fold(ev.RunStarted())


def test_every_event_moves_the_sequence_number_and_the_time_of_the_last_change() -> None:
    row = fold(CREATED, ev.RunStarted(), ev.StopDelayed(waiting_for=("x",)))
    assert (row.seq, row.created_at, row.updated_at) == (3, 1000, 3000)


def test_a_leg_is_counted_and_timed() -> None:
    row = fold(CREATED, ev.RunStarted())
    assert (row.lifecycle, row.leg, row.started_at, row.ended_at) == (Lifecycle.RUNNING, 1, 2000, None)
    row = fold(ev.RunFailed(error="no luck"), row=row)
    assert (row.lifecycle, row.ended_at, row.error) == (Lifecycle.FAILED, 3000, "no luck")
    row = fold(ev.RunResumed(leg=2), row=row)
    assert (row.lifecycle, row.leg, row.started_at, row.ended_at, row.error) == (Lifecycle.RUNNING, 2, 2000, None, "")
    row = fold(ev.RunFinished(status="PARTIAL"), row=row)
    assert (row.lifecycle, row.ended_at) == (Lifecycle.PARTIAL, 5000)


def test_a_pause_ends_no_leg() -> None:
    row = fold(CREATED, ev.RunStarted(), ev.PauseRequested(), ev.Paused())
    assert (row.lifecycle, row.ended_at) == (Lifecycle.PAUSED, None)
    row = fold(ev.RunResumed(leg=1), row=row)
    assert (row.lifecycle, row.leg) == (Lifecycle.RUNNING, 1)


def test_a_stop_and_a_cancel_end_as_they_were_asked() -> None:
    stopping = fold(CREATED, ev.RunStarted(), ev.StopRequested(), ev.StopAcknowledged())
    assert stopping.lifecycle is Lifecycle.STOPPING
    assert fold(ev.Stopped(), row=stopping).lifecycle is Lifecycle.STOPPED
    canceled = fold(ev.RunCanceled(reason="enough"), row=stopping)
    assert (canceled.lifecycle, canceled.error, canceled.ended_at) == (Lifecycle.CANCELED, "enough", 5000)


def test_a_run_that_never_started_can_be_stopped() -> None:
    row = fold(CREATED, ev.StopRequested(), ev.StopAcknowledged(), ev.Stopped())
    assert (row.lifecycle, row.leg, row.started_at) == (Lifecycle.STOPPED, 0, None)


def test_waits_are_a_set_beside_the_lifecycle() -> None:
    first, second = (Wait(id=id, kind=WaitKind.APPROVAL, scope=id) for id in "xy")
    row = fold(CREATED, ev.RunStarted(), ev.WaitOpened(wait=first), ev.WaitOpened(wait=second))
    assert row.lifecycle is Lifecycle.RUNNING
    assert [(wait.id, wait.opened_at) for wait in row.waits] == [("x", 3000), ("y", 4000)]
    row = fold(ev.WaitClosed(wait_id="x", answer="yes"), row=row)
    assert [wait.id for wait in row.waits] == ["y"]
    assert [wait.id for wait in fold(ev.WaitClosed(wait_id="unknown"), row=row).waits] == ["y"]


def test_an_event_that_cannot_follow_is_a_bug() -> None:
    with pytest.raises(IllegalMove):
        fold(CREATED, ev.Stopped())


class Counted(Event, frozen=True, kw_only=True, tag="COUNTED"):
    """An event of a kind that changes the row in its own way."""

    done: int

    def project(self, row: RunRow) -> RunRow:
        return msgspec.structs.replace(row, counts={"DONE": self.done})


def test_an_event_of_a_kind_adds_what_only_it_knows() -> None:
    row = fold(CREATED, ev.RunStarted(), Counted(done=3))
    assert (row.counts, row.seq, row.updated_at) == ({"DONE": 3}, 3, 3000)


def test_the_row_before_is_left_as_it_was() -> None:
    before = fold(CREATED)
    kept = msgspec.json.encode(before)
    fold(ev.RunStarted(), row=before)
    assert msgspec.json.encode(before) == kept


def test_a_row_survives_being_stored() -> None:
    row = fold(CREATED, ev.RunStarted(), ev.WaitOpened(wait=Wait(id="w", kind=WaitKind.REVIEW)), Counted(done=1))
    assert msgspec.json.decode(msgspec.json.encode(row), type=RunRow) == row
