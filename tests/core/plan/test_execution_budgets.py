"""Budgets: who reaches one is ended with a clear reason, keeps its edits, and is the only one."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.plan.agents import CANCELED, LOST, TIMEOUT, Agents, agent, canceled, done, failing, passing, tokens
from tests.core.plan.execution import GOOD, SECOND_LIFE, task

from pilothouse.core.plan.agent_events import BudgetReached
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec, OnInterrupted
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.agents import Used
from pilothouse.core.run.contract import Ended, NotStarted
from pilothouse.core.run.inputs import Cancel, CancelPart, Pause, Resume, Retry, Stop
from pilothouse.core.run.usage import Budget, Usage

WORKING = [NodeStatus.RUNNING]


def reasons(run: Agents) -> dict[str, str]:
    return {run.state.nodes[e.node_id].node.producer_id: e.reason for e in run.all(BudgetReached)}


@pytest.mark.parametrize("ended", [canceled(), canceled(ok=True), done(), CANCELED, GOOD, LOST, Ended(), NotStarted()])
def test_a_node_that_reaches_its_budget_is_ended_and_fails_and_no_other(ended: msgspec.Struct) -> None:
    run = Agents(agent("a", budget=Budget(tokens=1000)), agent("b", budget=Budget(tokens=1001)), agent("c"))
    run.speaking("a")
    run.reach("b", "c")
    for name in "abc":
        run.tell(name, tokens(600), tokens(400))
    assert run.performing == {"b": Phase.WORK, "c": Phase.WORK}, "whoever runs it is to end it"
    assert reasons(run) == {"a": "the node's budget: 1,000 of 1,000 tokens are used"}
    run.do("a", ended)
    assert run.status("a") is NodeStatus.FAILED
    assert run.node("a").error == "Budget reached: the node's budget: 1,000 of 1,000 tokens are used"
    assert run.owed == [("a", 1, "save")], "its edits are saved, and its worktree stays"
    run.clean_up()
    run.finish("b", "c")
    assert run.statuses == {"a": "failed", "b": "succeeded", "c": "succeeded"}


@pytest.mark.parametrize(
    ("budget", "usage", "reason"),
    [
        (Budget(turns=3), Usage(turns=3), "3 of 3 turns are used"),
        (Budget(cost=0.5), Usage(cost=0.5), "0.5000 of 0.5000 USD are used"),
        (Budget(cost=0.5), Usage(input_tokens=1, unpriced_tokens=1), "no price is known of gpt-x"),
        (Budget(time_ms=2000), Usage(wall_ms=2000), "2 of 2 s are used"),
    ],
)
def test_every_limit_of_a_budget_is_kept(budget: Budget, usage: Usage, reason: str) -> None:
    run = Agents(agent("a", budget=budget))
    run.reach("a")
    run.tell("a", Used(usage=usage, model="gpt-x"))
    assert reason in reasons(run)["a"]


def test_a_plans_budget_ends_every_agent_at_work_and_no_command() -> None:
    run = Agents(agent("a"), agent("b"), task("c"), agent("later", "c"), task("last", "c"), budget=Budget(tokens=100))
    run.reach("a", "b", "c")
    run.tell("a", tokens(60))
    run.tell("b", tokens(39))
    assert reasons(run) == {}
    run.tell("a", tokens(1))
    reason = "the plan's budget: 100 of 100 tokens are used"
    assert reasons(run) == {"a": reason, "b": reason}
    run.do("a", canceled())
    run.do("b", canceled())
    run.clean_up()
    run.finish("c", "last")
    run.until("later", Phase.SETUP)
    run.do("later")
    assert run.status("later") is NodeStatus.FAILED and run.node("later").error == f"Budget reached: {reason}"
    assert Phase.WORK not in run.node("later").attempt.phases, "it never began"
    assert run.status("last") is NodeStatus.SUCCEEDED


def test_a_nodes_budget_counts_all_its_attempts_and_a_retry_beyond_it_fails_at_once() -> None:
    run = Agents(agent("a", budget=Budget(tokens=100)))
    run.speaking("a")
    run.tell("a", tokens(60))
    run.do("a", failing())
    run.give(Retry())
    run.tell("a", tokens(40))
    assert "a" in reasons(run)
    run.do("a", canceled())
    run.clean_up()
    for fresh in (False, True):
        run.give(Retry(fresh=fresh))
        if fresh:
            run.do("a")
        assert run.performing == {} and run.lifecycle == "FAILED"
        assert run.node("a").error.startswith("Budget reached: the node's budget")
    assert len(run.all(BudgetReached)) == 1


def test_usage_told_with_the_end_of_good_work_keeps_others_from_beginning() -> None:
    run = Agents(agent("a"), agent("b", "a"), budget=Budget(tokens=100))
    run.reach("a")
    run.do("a", done(tokens(100)))
    assert run.node("a").attempt.phases[Phase.WORK].note == (
        "Budget reached: the plan's budget: 100 of 100 tokens are used"
    )
    run.finish("a")
    run.do("b")
    assert run.statuses == {"a": "succeeded", "b": "failed"}


def test_usage_told_with_an_end_ends_the_others_that_share_the_budget() -> None:
    run = Agents(agent("a"), agent("b"), budget=Budget(tokens=100))
    run.reach("a", "b")
    run.do("a", failing("broken", news=(tokens(100),)))
    assert run.node("a").error == "broken"
    assert list(reasons(run)) == ["b"]


def test_what_is_left_of_time_is_handed_to_the_agent_and_its_end_is_the_budgets() -> None:
    budget = Budget(time_ms=10_000)
    run = Agents(agent("a", budget=budget), agent("b"), agent("c", timeout_ms=5000), budget=Budget(time_ms=60_000))
    run.reach("a", "b", "c")
    assert [run.work(name).time_left_ms for name in "abc"] == [10_000, 60_000, 60_000]
    run.do("a", msgspec.structs.replace(TIMEOUT, news=(Used(usage=Usage(wall_ms=9_999)),)))
    assert run.node("a").error == "Budget reached: the node's budget: 10 s are used"
    assert run.owed == [("a", 1, "save")]
    run.do("c", TIMEOUT)
    assert run.node("c").error == "Timed out", "its own timeout came first"
    run.do("b", msgspec.structs.replace(TIMEOUT, news=(Used(usage=Usage(wall_ms=50_001)),)))
    assert run.node("b").error == "Budget reached: the plan's budget: 60 of 60 s are used"
    run.clean_up()
    run.give(Retry(scopes=("a",)))
    assert run.node("a").error.startswith("Budget reached: the plan's"), "not its own: that has a millisecond left"


def test_a_millisecond_that_is_left_is_a_limit_too() -> None:
    run = Agents(agent("a", budget=Budget(time_ms=10_000)))
    run.reach("a")
    run.do("a", failing(news=(Used(usage=Usage(wall_ms=9_999)),)))
    run.give(Retry())
    assert run.work("a").time_left_ms == 1


def test_the_turns_of_one_run_are_limited_also_where_the_agent_cannot_do_so() -> None:
    run = Agents(agent("a", max_turns=2))
    run.reach("a")
    run.tell("a", tokens(1, turns=2))
    assert reasons(run) == {}, "it may end with its second"
    run.tell("a", tokens(1, turns=1))
    assert reasons(run) == {"a": "maxTurns: 2 turns are used"}
    run.do("a", canceled())
    run.clean_up()
    run.give(Retry())
    run.tell("a", tokens(1, turns=2))
    assert len(run.all(BudgetReached)) == 1, "another run has turns of its own"


def test_an_agent_that_checks_is_bound_by_the_budget_like_one_that_works() -> None:
    check = AgentSpec(agent="claude", on_interrupted=OnInterrupted.RERUN)
    run = Agents(msgspec.structs.replace(agent("a", budget=Budget(tokens=10)), postchecks=check))
    run.reach("a")
    run.tell("a", tokens(9))
    run.until("a", Phase.POSTCHECKS)
    run.tell("a", tokens(1))
    run.do("a", canceled())
    assert run.node("a").attempt.failed_phase is Phase.POSTCHECKS
    run.clean_up()
    run.give(Retry())
    assert run.node("a").attempt.failed_phase is Phase.POSTCHECKS and run.performing == {}


def test_a_check_that_is_lost_does_not_run_again_beyond_the_budget() -> None:
    check = AgentSpec(agent="claude", on_interrupted=OnInterrupted.RERUN)
    run = Agents(msgspec.structs.replace(agent("a"), postchecks=check), budget=Budget(tokens=10))
    run.until("a", Phase.POSTCHECKS)
    run.do("a", msgspec.structs.replace(LOST, news=(tokens(10),)))
    assert run.performing == {} and run.node("a").attempt.over_budget, "noted while its end was recorded"


def test_no_pause_is_made_for_what_may_not_go_on() -> None:
    run = Agents(agent("a", budget=Budget(tokens=10)))
    run.reach("a")
    run.do("a", passing("429", news=(tokens(10),)))
    assert run.status("a") is NodeStatus.FAILED and run.state.common.waits == {}


# What else may happen meanwhile


def test_a_budget_is_kept_while_a_pause_waits() -> None:
    run = Agents(agent("a", budget=Budget(tokens=1)))
    run.reach("a")
    run.give(Pause())
    run.tell("a", tokens(1))
    run.do("a", canceled())
    assert run.status("a") is NodeStatus.FAILED


def test_a_stop_that_came_first_interrupts_and_one_that_comes_later_changes_no_reason() -> None:
    run = Agents(agent("a", budget=Budget(tokens=1)), agent("b", budget=Budget(tokens=1)))
    run.speaking("a")
    run.speaking("b")
    run.tell("b", tokens(1))
    run.give(Stop())
    run.tell("a", tokens(1))
    run.do("a", canceled())
    run.do("b", canceled())
    assert run.statuses == {"a": "ready", "b": "failed"}
    run.clean_up()
    run.give(Resume())
    assert run.node("a").error.startswith("Budget reached: the node's budget")


@pytest.mark.parametrize("verb", [Cancel(), CancelPart(scope="a")])
@pytest.mark.parametrize("first", ["verb", "budget"])
def test_who_is_canceled_is_canceled_whatever_its_budget(verb: Cancel | CancelPart, first: str) -> None:
    run = Agents(agent("a", budget=Budget(tokens=1)))
    run.reach("a")
    for step in ("verb", "budget") if first == "verb" else ("budget", "verb"):
        if step == "verb":
            run.give(verb)
        else:
            run.tell("a", tokens(1))
    run.do("a", canceled())
    assert run.status("a") is NodeStatus.CANCELED


@pytest.mark.parametrize("known", [True, False])
def test_an_agent_over_its_budget_fails_after_a_crash_too(known: bool) -> None:
    run = Agents(agent("a", budget=Budget(tokens=1)))
    run.speaking("a")
    run.tell("a", tokens(1))
    run.restart(*(("a",) if known else ()), instance=SECOND_LIFE)
    if known:
        assert run.performing == {}, "it is to be ended by the next owner"
        run.do("a", canceled())
    assert run.node("a").error.startswith("Budget reached")


# Any story


@given(
    limits=st.lists(st.one_of(st.none(), st.integers(1, 50)), min_size=1, max_size=6),
    plan_limit=st.one_of(st.none(), st.integers(1, 150)),
    told=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=40),
)
def test_exactly_those_over_a_budget_are_ended_in_any_story(
    limits: list[int | None], plan_limit: int | None, told: list[tuple[int, int]]
) -> None:
    names = [f"n{index}" for index in range(len(limits))]
    jobs = [
        agent(name, budget=None if limit is None else Budget(tokens=limit))
        for name, limit in zip(names, limits, strict=True)
    ]
    run = Agents(*jobs, budget=None if plan_limit is None else Budget(tokens=plan_limit), max_parallel=0)
    run.reach(*names)
    used = dict.fromkeys(names, 0)
    expected: set[str] = set()
    for index, amount in told:
        name = names[index % len(names)]
        run.tell(name, tokens(amount, model=f"m{amount % 3}"))  # news of one that is being ended count too
        used[name] += amount
        limit = limits[index % len(names)]
        if limit is not None and used[name] >= limit:
            expected.add(name)
        if plan_limit is not None and sum(used.values()) >= plan_limit:
            expected |= set(names)
        assert set(reasons(run)) == expected
        assert set(run.performing) == set(names) - expected
    for name in names:
        run.do(name, canceled() if name in expected else done())
        assert (run.status(name) is NodeStatus.FAILED) == (name in expected)
        assert run.node(name).used.tokens == run.node(name).usage.total.tokens == used[name]
    assert run.state.used.tokens == run.state.usage.total.tokens == sum(used.values())
    assert run.state.over == {}
