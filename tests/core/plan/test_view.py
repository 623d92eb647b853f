"""What clients see of agents: usage in all places, whose conversation it was, what was denied."""

from __future__ import annotations

from tests.core.plan.agents import Agents, agent, done, failing, tokens
from tests.core.plan.execution import task

from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.view import node_detail, node_view, plan_view
from pilothouse.core.run.agents import SessionStarted
from pilothouse.core.run.events import Recorded
from pilothouse.core.run.inputs import Retry
from pilothouse.core.run.rows import RunRow, project


def row_of(run: Agents) -> RunRow:
    row = None
    for seq, event in enumerate(run.log, 1):
        row = project(row, Recorded("run-1", seq, 1000 + seq, event))
    assert row is not None
    return row


def two_attempts() -> Agents:
    """Node a was tried twice, with another conversation; b is a command."""
    run = Agents(agent("a"), task("b"))
    run.speaking("a", "s1")
    run.tell("a", tokens(10, "opus", output_tokens=1, cost=0.25), tokens(3, "haiku", unpriced_tokens=3))
    run.denied("a", "bash")
    run.do("a", failing())
    run.give(Retry(scopes=("a",)))
    run.tell("a", SessionStarted(session_id="s2"))
    run.do("a", done(tokens(100, "opus")))
    return run


def test_usage_is_summed_per_phase_attempt_node_and_plan() -> None:
    run = two_attempts()
    detail = node_detail(run.state, run.node("a"))
    assert [attempt["usage"]["totalTokens"] for attempt in detail["attemptHistory"]] == [14, 100]
    assert detail["attemptHistory"][0]["phases"]["work"]["usage"]["models"][1]["model"] == "opus"
    assert "usage" not in detail["attemptHistory"][0]["phases"]["setup"]
    assert detail["usage"]["totalTokens"] == 114 and detail["usage"]["cost"] == 0.25
    view = plan_view(run.state, row_of(run))
    assert view["usage"] == detail["usage"] == view["nodes"][0]["usage"]
    assert view["nodes"][1]["usage"] == {}


def test_a_list_of_plans_shows_totals_from_the_row_alone() -> None:
    assert row_of(two_attempts()).detail["usage"] == {"totalTokens": 114, "cost": 0.25, "unpricedTokens": 3}
    assert "usage" not in row_of(Agents(agent("a"))).detail


def test_a_node_names_its_agent_model_conversation_and_what_was_denied() -> None:
    run = two_attempts()
    keys = ("agent", "model", "sessionId", "denied")
    node = node_view(run.state, run.node("a"))
    assert [node[key] for key in keys] == ["claude", "opus", "s2", []]
    first = node_detail(run.state, run.node("a"))["attemptHistory"][0]
    assert [first[key] for key in keys] == ["claude", "opus", "s1", ["bash"]]
    assert [first["phases"]["work"][key] for key in keys] == ["claude", "opus", "s1", ["bash"]]
    command = node_view(run.state, run.node("b"))
    assert [command[key] for key in keys] == [None, None, None, []]


def test_a_node_that_has_not_begun_names_the_agent_it_is_for() -> None:
    run = Agents(task("b"), agent("a", "b"))
    node = node_view(run.state, run.node("a"))
    assert (node["agent"], node["sessionId"], node["usage"]) == ("claude", None, {})
    assert node_detail(run.state, run.node("a"))["attemptHistory"] == []


def test_a_node_shows_every_question_of_its_agent() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    waits = [run.ask("a", "r1"), run.ask("a", "r2")]
    assert [wait["id"] for wait in node_view(run.state, run.node("a"))["waits"]] == waits
    assert run.effect("a").phase is Phase.WORK
