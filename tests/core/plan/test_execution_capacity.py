"""How many nodes of a plan are at work, which they are, and what groups show of it."""

from __future__ import annotations

import pytest
from tests.core.plan.execution import SECOND_LIFE, Execution, task

from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.states import ACTIVE, NodeStatus
from pilothouse.core.run.inputs import CancelPart, Grant, Pause, Resume, Retry, Stop


def many(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def group(run: Execution, path: str) -> str:
    found = run.state.plan.find_group(path)
    assert found is not None and run.state.groups is not None
    return str(run.state.groups[found.id].status)


@pytest.mark.parametrize(("limit", "at_once"), [(1, 1), (3, 3), (4, 4), (0, 9)])
def test_a_plan_never_has_more_nodes_at_work_than_it_allows_itself(limit: int, at_once: int) -> None:
    run = Execution(*(task(name) for name in many(9)), max_parallel=limit)
    most = 0
    while run.performing:
        most = max(most, len(run.names(*ACTIVE)))
        run.do(next(iter(run.performing)))
    assert most == at_once
    assert set(run.statuses.values()) == {"succeeded"}


def test_no_more_start_than_all_plans_together_have_left() -> None:
    run = Execution(*(task(name) for name in many(5)), capacity=2, max_parallel=4)
    assert len(run.performing) == 2
    assert run.kind.demand(run.state) == 2, "it could use what it may have"


def test_a_scheduled_node_takes_a_slot_like_a_running_one() -> None:
    run = Execution(task("a"), task("b"), task("c"), max_parallel=2)
    assert run.statuses == {"a": "scheduled", "b": "scheduled", "c": "ready"}
    assert run.kind.slots(run.state) == 2
    run.until("a", Phase.WORK)
    assert run.kind.slots(run.state) == 2 and run.status("c") is NodeStatus.READY


def test_only_ready_nodes_start() -> None:
    run = Execution(task("a"), task("b", "a"), task("c", "b"))
    assert run.performing == {"a": Phase.SETUP}
    assert run.kind.demand(run.state) == 0
    run.give(Grant(slots=10))
    assert run.performing == {"a": Phase.SETUP}


def test_nodes_that_only_join_take_no_slot_and_wait_for_none() -> None:
    run = Execution(
        task("a"), task("b"), task("join", "a", "b", work=None), task("c", "join"), task("d"), max_parallel=1
    )
    run.finish("a", "b")
    assert run.performing["join"] is Phase.MERGE_FI and run.performing["d"] is Phase.SETUP
    assert run.kind.slots(run.state) == 1


def test_what_unlocks_most_starts_first_then_what_is_tried_again_then_what_was_declared_first() -> None:
    run = Execution(
        task("plain"),
        task("other"),
        task("hub"),
        task("x", "hub"),
        task("y", "hub"),
        max_parallel=1,
    )
    assert list(run.performing) == ["hub"]
    run.until("hub", Phase.COMMIT)
    run.give(Stop())
    run.end_dispatched()
    run.clean_up()
    run.give(Resume())
    run.finish("hub")
    assert list(run.performing) == ["plain"]
    run.fail("plain")
    assert list(run.performing) == ["other"]
    run.give(Retry(scopes=("plain",)))
    run.finish("other")
    assert list(run.performing) == ["plain"], "before x and y, which have no more dependents and were not tried yet"


def test_a_slot_is_free_as_soon_as_its_node_has_ended_however() -> None:
    run = Execution(task("a"), task("b"), task("c"), max_parallel=1)
    run.fail("a")
    assert run.performing == {"b": Phase.SETUP}
    run.give(CancelPart(scope="b"))
    assert run.performing == {}, "not before nothing of it is left"
    run.end_dispatched()
    run.clean_up()
    assert run.performing == {"c": Phase.SETUP}


def test_a_node_that_waits_for_a_person_holds_no_slot_and_one_that_goes_on_needs_one() -> None:
    run = Execution(task("a"), task("b"), max_parallel=1)
    run.until("a", Phase.WORK)
    assert run.kind.slots(run.state) == 1
    run.restart(instance=SECOND_LIFE)
    assert run.kind.slots(run.state) == 1 and run.performing == {"b": Phase.SETUP}


def test_a_plan_that_does_not_run_asks_for_nothing() -> None:
    run = Execution(task("a"), task("b"), max_parallel=1)
    run.give(Pause())
    assert run.kind.demand(run.state) == 0
    run.give(Stop())
    assert run.kind.demand(run.state) == 0
    run.end_dispatched()
    assert (run.kind.demand(run.state), run.kind.slots(run.state)) == (0, 0)


def test_a_group_shows_what_its_nodes_are_doing_and_never_changes_what_they_do() -> None:
    run = Execution(task("a", group="g/deep"), task("b", "a", group="g"), task("c"))
    assert group(run, "g") == group(run, "g/deep") == "running"
    run.fail("a")
    assert (group(run, "g/deep"), group(run, "g")) == ("failed", "failed")
    assert "c" in run.performing
    run.give(Retry())
    assert (group(run, "g/deep"), group(run, "g")) == ("running", "running")
    run.finish("a", "b")
    assert (group(run, "g/deep"), group(run, "g")) == ("succeeded", "succeeded")


def test_the_same_plan_runs_the_same_with_groups_and_without() -> None:
    def order(grouped: bool) -> list[str]:
        jobs = [
            task(name, *(["n0"] if number else []), group=f"g{number % 2}/x" if grouped else None)
            for number, name in enumerate(many(5))
        ]
        run = Execution(*jobs, max_parallel=2)
        seen = []
        while run.performing:
            name = next(iter(run.performing))
            seen.append(f"{name}:{run.performing[name]}")
            run.do(name)
        return seen

    assert order(grouped=True) == order(grouped=False)
