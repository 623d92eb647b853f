"""The branch results go into: how it is opened, lost and failed, and in which order leaves are merged."""

from __future__ import annotations

import pytest
from tests.core.plan.execution import BASE, Execution, task

from pilothouse.core.plan.effects import TARGET_KEY, MergeIntoTarget, OpenTarget, TargetReady
from pilothouse.core.plan.events import PhaseQueued, PhaseStarted, TargetFailed, TargetLost, TargetOpened
from pilothouse.core.plan.integration import CheckedOut, Merged
from pilothouse.core.plan.intents import slug
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.contract import Ended, Failed, NotStarted
from pilothouse.core.run.events import RunFailed
from pilothouse.core.run.inputs import Cancel, CancelPart, Resume, Retry, Stop


def opening(run: Execution) -> OpenTarget:
    effect = run.kind.todo(run.state)[TARGET_KEY]
    assert isinstance(effect, OpenTarget)
    return effect


def to_merge(run: Execution, *names: str) -> None:
    """Their commits are made; what comes next is the merge."""
    for name in names:
        run.until(name, Phase.COMMIT)
        run.do(name)


def merged(run: Execution) -> list[str]:
    return [name for name, _ in run.state.merged]


# Opening


@pytest.mark.parametrize(
    ("name", "text"),
    [("Add Search!", "add-search"), ("  ", "plan"), ("é", "plan"), ("x" * 80, "x" * 50), ("a" * 49 + " b", "a" * 49)],
)
def test_the_name_of_a_plan_becomes_part_of_a_branch_name(name: str, text: str) -> None:
    assert slug(name) == text


def test_nothing_starts_before_there_is_a_target() -> None:
    run = Execution(task("a"), task("join", work=None), target=False)
    assert run.performing == {}
    effect = opening(run)
    assert (effect.branch, effect.base, effect.name, effect.taken) == (None, BASE, "Test it!", None)
    run.open_target()
    assert set(run.performing) == {"a"}
    assert run.status("join") is NodeStatus.SUCCEEDED


def test_a_target_that_is_asked_for_is_opened_as_asked() -> None:
    run = Execution(task("a"), target=False, target_branch="release", update_checkout=True)
    effect = opening(run)
    assert (effect.branch, effect.update_checkout) == ("release", True)
    run.open_target(TargetReady(branch="pilothouse/x", commit="tip", note="release is checked out"))
    (opened,) = run.all(TargetOpened)
    assert (opened.branch, opened.commit, opened.note) == ("pilothouse/x", "tip", "release is checked out")


def test_a_plan_whose_target_cannot_be_opened_fails_with_the_reason_and_can_be_retried() -> None:
    run = Execution(task("a"), target=False)
    run.open_target(Failed(error="it exists as a directory"))
    (end,) = run.all(RunFailed)
    assert end.error == "the target branch: it exists as a directory"
    assert run.statuses == {"a": "ready"} and run.performing == {}
    run.give(Retry())
    assert run.lifecycle == "RUNNING"
    run.open_target()
    assert run.performing == {"a": Phase.SETUP}


@pytest.mark.parametrize("result", [Ended(), NotStarted(), Failed(error="whatever")])
def test_a_stop_while_the_target_is_opened_waits_for_that_and_the_next_leg_opens_it(
    result: Ended | NotStarted | Failed,
) -> None:
    run = Execution(task("a"), target=False)
    run.give(Stop())
    assert run.lifecycle == "STOPPING"
    run.give_target(result)
    assert run.lifecycle == "STOPPED" and run.all(TargetFailed)[-1].error == ""
    run.give(Resume())
    run.open_target()
    assert run.performing == {"a": Phase.SETUP}


def test_a_target_that_was_opened_all_the_same_is_used_by_the_next_leg() -> None:
    run = Execution(task("a"), target=False)
    run.give(Stop())
    run.give_target(TargetReady(branch="result", commit=BASE))
    assert run.lifecycle == "STOPPED"
    run.give(Resume())
    assert run.performing == {"a": Phase.SETUP}


def test_a_plan_can_be_canceled_while_its_target_is_opened() -> None:
    run = Execution(task("a"), target=False)
    run.give(Cancel())
    run.give_target(Ended())
    assert (run.lifecycle, run.statuses) == ("CANCELED", {"a": "canceled"})


# The order of merges


def test_leaves_are_merged_one_at_a_time_in_the_order_they_got_there() -> None:
    run = Execution(task("a"), task("b"), task("c"))
    to_merge(run, "c", "a", "b")
    assert run.performing == {"c": Phase.MERGE_RI}
    assert [run.state.nodes[e.node_id].node.producer_id for e in run.all(PhaseQueued)] == ["c", "a", "b"]
    run.do("c")
    assert run.performing == {"a": Phase.MERGE_RI}
    run.do("a")
    run.do("b")
    assert merged(run) == ["c", "a", "b"]


def test_a_merge_that_fails_lets_the_next_one_in() -> None:
    run = Execution(task("a"), task("b"))
    to_merge(run, "a", "b")
    run.do("a", Failed(error="refused"))
    assert run.performing == {"b": Phase.MERGE_RI}
    assert run.state.merged == []


def test_a_merge_knows_what_came_before_it_and_a_merge_again_after_a_retry_too() -> None:
    run = Execution(task("a"), task("b"))
    to_merge(run, "a", "b")
    run.do("a", Failed(error="refused"))
    run.do("b")
    run.give(Retry())
    merge = run.effect("a")
    assert isinstance(merge, MergeIntoTarget)
    assert merge.merged == (("b", "b-commit-1"),)


# A target that a person checks out in the middle


def lost() -> Execution:
    run = Execution(task("a"), task("b"), task("c"), target_branch="release")
    to_merge(run, "a", "b")
    run.do("a", Merged(commit="head-1"))
    run.do("b", CheckedOut(path="/home/checkout"))
    return run


def test_a_target_that_is_checked_out_in_the_middle_is_followed_by_another_from_where_it_was_left() -> None:
    run = lost()
    (event,) = run.all(TargetLost)
    assert (event.branch, event.path) == ("result", "/home/checkout")
    effect = opening(run)
    assert (effect.branch, effect.base, effect.taken) == (None, "head-1", "result")
    assert "b" not in run.performing, "its merge is not performed again before there is another target"
    run.open_target(TargetReady(branch="result-2", commit="head-1", note="result is checked out"))
    merge = run.effect("b")
    assert isinstance(merge, MergeIntoTarget) and merge.branch == "result-2"
    assert merge.key.endswith("/merge-ri.2"), "another try is another effect"
    run.do("b")
    assert merged(run) == ["a", "b"]


def test_what_runs_goes_on_while_another_target_is_opened_but_nothing_new_starts() -> None:
    run = Execution(task("a"), task("b"), task("c"), task("d", "c"), max_parallel=3)
    to_merge(run, "a")
    run.do("a", CheckedOut(path="/p"))
    run.finish("c")
    assert run.status("c") is NodeStatus.SUCCEEDED and run.status("d") is NodeStatus.READY
    assert set(run.performing) == {"b"}
    run.open_target()
    assert run.performing == {"a": Phase.MERGE_RI, "b": Phase.SETUP, "d": Phase.SETUP}


def test_a_merge_that_another_target_is_opened_for_waits_behind_those_that_waited_already() -> None:
    run = Execution(task("a"), task("b"))
    to_merge(run, "a", "b")
    run.do("a", CheckedOut(path="/p"))
    run.open_target()
    assert run.performing == {"b": Phase.MERGE_RI}


def test_without_another_target_what_would_be_merged_fails_and_the_rest_goes_on() -> None:
    run = lost()
    run.open_target(Failed(error="no name is free"))
    assert run.statuses == {"a": "succeeded", "b": "failed", "c": "scheduled"}
    assert run.node("b").error == "the target branch: no name is free"
    to_merge(run, "c")
    assert run.status("c") is NodeStatus.FAILED
    run.clean_up()
    assert run.lifecycle == "PARTIAL"


def test_a_retry_asks_for_the_target_once_more_and_merges_what_failed() -> None:
    run = lost()
    run.open_target(Failed(error="no name is free"))
    run.give(Retry(scopes=("b",)))
    assert opening(run).taken == "result"
    run.open_target()
    assert run.performing["b"] is Phase.MERGE_RI
    assert [e.phase for e in run.all(PhaseStarted) if e.node_id == run.node("b").node.id].count(Phase.WORK) == 1


def test_a_stop_while_another_target_is_opened_keeps_what_waits_for_it() -> None:
    run = lost()
    run.give(Stop())
    run.end_dispatched()
    assert run.lifecycle == "STOPPED" and run.status("b") is NodeStatus.READY
    run.clean_up()
    run.give(Resume())
    assert run.performing == {}, "first there is to be a target"
    run.open_target()
    assert run.performing["b"] is Phase.MERGE_RI


def test_what_waits_for_another_target_can_be_canceled() -> None:
    run = lost()
    run.give(CancelPart(scope="b"))
    assert run.status("b") is NodeStatus.CANCELED
    run.open_target()
    assert "b" not in run.performing


def test_a_merge_that_finds_its_target_checked_out_after_a_stop_is_interrupted() -> None:
    run = Execution(task("a"))
    to_merge(run, "a")
    run.give(Stop())
    run.do("a", CheckedOut(path="/p"))
    run.end_dispatched()
    run.clean_up()
    assert run.lifecycle == "STOPPED" and run.status("a") is NodeStatus.READY
    run.give(Resume())
    run.open_target(TargetReady(branch="result-2", commit=BASE))
    assert run.performing == {"a": Phase.MERGE_RI}
