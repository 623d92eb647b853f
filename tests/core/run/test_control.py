"""The verbs every kind of run shares, in every lifecycle; and the fold of what they record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pilothouse.core.run import control
from pilothouse.core.run.events import (
    Event,
    Recorded,
    RunCanceled,
    RunCreated,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    Source,
    StopAcknowledged,
    Stopped,
    StopRequested,
    WaitClosed,
    WaitOpened,
)
from pilothouse.core.run.lifecycle import IllegalMove, Lifecycle
from pilothouse.core.run.state import Common
from pilothouse.core.run.waits import Wait, WaitKind
from pilothouse.errors import Refused

CREATED, RUNNING, PAUSING, PAUSED, STOPPING, STOPPED, SUCCEEDED, PARTIAL, FAILED, CANCELED = Lifecycle


def folded(*events: Event) -> Common:
    run = Common("run-1")
    for seq, event in enumerate(events, 1):
        run.evolve(Recorded("run-1", seq, 100 * seq, event))
    return run


def born() -> list[Event]:
    return [RunCreated(kind="plan", name="n", owner="local", root_run_id="run-1")]


def standing(lifecycle: Lifecycle) -> Common:
    """A run that came there by its own verbs."""
    run = folded(*born())
    if lifecycle is CREATED:
        return run
    follow(run, [RunStarted()])
    match lifecycle:
        case Lifecycle.PAUSING:
            follow(run, control.pause(run))
        case Lifecycle.PAUSED:
            follow(run, control.pause(run))
            follow(run, control.settle(run, draining=False, working=False))
        case Lifecycle.STOPPING:
            follow(run, control.stop(run, Source.USER, ()))
        case Lifecycle.STOPPED:
            follow(run, control.stop(run, Source.USER, ()))
            follow(run, control.settle(run, draining=False, working=False))
        case Lifecycle.CANCELED:
            follow(run, control.cancel(run, Source.USER, "", ()))
            follow(run, control.settle(run, draining=False, working=False))
        case Lifecycle.SUCCEEDED | Lifecycle.PARTIAL:
            follow(run, [RunFinished(status=str(lifecycle))])
        case Lifecycle.FAILED:
            follow(run, [RunFailed(error="e")])
    assert run.lifecycle is lifecycle
    return run


def follow(run: Common, events: Sequence[Event]) -> None:
    for event in events:
        run.evolve(Recorded(run.run_id, run.seq + 1, 100 * (run.seq + 1), event))


VERBS: dict[str, Any] = {
    "stop": lambda run: control.stop(run, Source.USER, ["k1"]),
    "cancel": lambda run: control.cancel(run, Source.USER, "enough", ["k1"]),
    "pause": control.pause,
    "resume": control.resume,
}
ASK_STOP = ["STOP_REQUESTED", "STOP_ACKNOWLEDGED"]
ASK_CANCEL = ["CANCEL_REQUESTED", "STOP_ACKNOWLEDGED"]
REFUSED = None
TABLE: dict[Lifecycle, tuple[list[str] | None, list[str] | None, list[str] | None, list[str] | None]] = {
    #           stop,     cancel,                 pause,               resume
    CREATED: (ASK_STOP, ASK_CANCEL, REFUSED, REFUSED),
    RUNNING: (ASK_STOP, ASK_CANCEL, ["PAUSE_REQUESTED"], []),
    PAUSING: (ASK_STOP, ASK_CANCEL, [], ["RUN_RESUMED"]),
    PAUSED: (ASK_STOP, ASK_CANCEL, [], ["RUN_RESUMED"]),
    STOPPING: ([], ["CANCEL_REQUESTED"], REFUSED, REFUSED),
    STOPPED: ([], ["RUN_CANCELED"], REFUSED, ["RUN_RESUMED"]),
    SUCCEEDED: ([], REFUSED, REFUSED, REFUSED),
    PARTIAL: ([], ["RUN_CANCELED"], REFUSED, REFUSED),
    FAILED: ([], ["RUN_CANCELED"], REFUSED, REFUSED),
    CANCELED: ([], [], REFUSED, REFUSED),
}


@pytest.mark.parametrize("lifecycle", list(Lifecycle))
@pytest.mark.parametrize(("column", "verb"), list(enumerate(VERBS)))
def test_every_verb_does_in_every_lifecycle_what_the_table_says(lifecycle: Lifecycle, column: int, verb: str) -> None:
    run = standing(lifecycle)
    expected = TABLE[lifecycle][column]
    if expected is REFUSED:
        with pytest.raises(Refused):
            VERBS[verb](run)
        return
    events = VERBS[verb](run)
    assert [event.type_name() for event in events] == expected
    follow(run, events)  # and all of it may really follow
    if verb in ("stop", "cancel", "pause"):
        assert VERBS[verb](run) == (), "asking twice is asking once"


def test_a_stop_carries_who_asked_and_what_is_draining() -> None:
    run = standing(RUNNING)
    events = control.stop(run, Source.SYSTEM, ["k1", "k2"])
    assert events == (
        StopRequested(source=Source.SYSTEM),
        StopAcknowledged(source=Source.SYSTEM, draining=("k1", "k2")),
    )
    follow(run, events)
    assert control.settle(run, draining=True, working=True) == ()
    assert control.settle(run, draining=False, working=True) == (Stopped(source=Source.SYSTEM),)


def test_a_cancel_ends_as_canceled_also_when_a_stop_came_first() -> None:
    run = standing(STOPPING)
    follow(run, control.cancel(run, Source.USER, "", ()))
    assert control.cancel(run, Source.USER, "", ()) == ()
    assert control.settle(run, draining=True, working=False) == ()
    assert control.settle(run, draining=False, working=False) == (RunCanceled(reason="canceled"),)


@pytest.mark.parametrize("lifecycle", [STOPPED, PARTIAL, FAILED])
def test_discarding_is_final_at_once_and_keeps_the_reason(lifecycle: Lifecycle) -> None:
    assert control.cancel(standing(lifecycle), Source.USER, "enough", ()) == (RunCanceled(reason="enough"),)


def test_a_pause_comes_about_when_nothing_works_any_more() -> None:
    run = standing(PAUSING)
    assert control.settle(run, draining=False, working=True) == ()
    follow(run, control.settle(run, draining=True, working=False))
    assert run.lifecycle is PAUSED


@pytest.mark.parametrize("lifecycle", sorted(set(Lifecycle) - {PAUSING, STOPPING}))
def test_where_nothing_is_asked_there_is_nothing_to_settle(lifecycle: Lifecycle) -> None:
    assert control.settle(standing(lifecycle), draining=False, working=False) == ()


def test_a_pause_goes_on_in_its_leg_and_a_stop_in_the_next() -> None:
    assert control.resume(standing(PAUSED)) == (RunResumed(leg=1),)
    assert control.resume(standing(STOPPED)) == (RunResumed(leg=2),)


@pytest.mark.parametrize(
    ("lifecycle", "hint"), [(FAILED, True), (PARTIAL, True), (SUCCEEDED, False), (CANCELED, False)]
)
def test_who_cannot_resume_what_failed_is_told_of_retry(lifecycle: Lifecycle, hint: bool) -> None:
    with pytest.raises(Refused, match="only a paused or stopped run can be resumed") as caught:
        control.resume(standing(lifecycle))
    assert ("retry tries again what failed" in str(caught.value)) is hint


# The fold


def test_a_run_knows_its_name_and_when_it_was_made_started_and_ended() -> None:
    run = folded(*born(), RunStarted(), RunFinished())
    assert (run.name, run.created_at, run.started_at, run.ended_at, run.seq) == ("n", 100, 200, 300, 3)
    assert run.terminal


def test_a_new_leg_has_not_ended_and_keeps_the_first_start() -> None:
    run = standing(STOPPED)
    first = run.started_at
    follow(run, control.resume(run))
    assert (run.leg, run.started_at, run.ended_at, run.terminal) == (2, first, None, False)


def test_a_cancel_is_remembered_until_the_leg_is_over() -> None:
    run = standing(RUNNING)
    follow(run, control.cancel(run, Source.ERROR, "", ()))
    assert run.final and run.stop_source is Source.ERROR
    stopped = standing(STOPPING)
    assert not stopped.final


def test_waits_are_kept_by_id_with_the_time_they_were_opened() -> None:
    wait = Wait(id="w1", kind=WaitKind.REVIEW, scope="n1")
    run = folded(*born(), RunStarted(), WaitOpened(wait=wait))
    assert run.waits["w1"].opened_at == 300
    follow(run, [WaitClosed(wait_id="w1"), WaitClosed(wait_id="w1")])
    assert run.waits == {}


def test_what_cannot_follow_is_a_bug() -> None:
    with pytest.raises(IllegalMove):
        folded(*born(), RunFinished())
