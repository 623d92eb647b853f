"""An agent's work: what its end means, with which conversation it goes on, and what becomes of it after a loss."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.plan.agents import CANCELED, LOST, TIMEOUT, Agents, agent, canceled, done, failing, tokens
from tests.core.plan.execution import BAD, FIRST_LIFE, GOOD, SECOND_LIFE, task
from tests.core.plan.execution import LOST as PLAIN_LOST

from pilothouse.core.plan.agent_events import AgentNoted, AgentSessionStarted, AgentUsed
from pilothouse.core.plan.events import PhaseEnded
from pilothouse.core.plan.integration import NoEvidence
from pilothouse.core.plan.phases import Phase, PhaseStatus, Trigger
from pilothouse.core.plan.recover import LOST_OFTEN
from pilothouse.core.plan.spec import AgentSpec, Network, OnInterrupted, SandboxSpec
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.agents import (
    AgentEnded,
    Asked,
    Noted,
    Permissions,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolStarted,
    ToolStatus,
)
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.contract import Failed, NotStarted
from pilothouse.core.run.inputs import Cancel, CancelPart, Resume, Retry, Stop
from pilothouse.core.run.waits import WaitKind

# How it ends


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (failing("The model is unknown"), "The model is unknown"),
        (failing("", exit=Exit(reason=ExitReason.EXITED, code=3)), "Exit code 3"),
        (failing("", exit=Exit(reason=ExitReason.EXITED, signal=9)), "Killed by signal 9"),
        (failing("It told no result", exit=Exit(reason=ExitReason.EXITED, code=0)), "It told no result"),
        (TIMEOUT, "Timed out"),
        (failing("?", exit=Exit(reason=ExitReason.NOT_STARTED, error="no such file")), "no such file"),
        (BAD, "Exit code 7"),
        (Failed(error="instructionsFile: is missing"), "instructionsFile: is missing"),
    ],
)
def test_a_failure_is_told_in_the_agents_words_where_it_has_some(result: msgspec.Struct, error: str) -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.do("a", result)
    assert (run.status("a"), run.node("a").error) == (NodeStatus.FAILED, error)
    assert run.node("a").attempt.failed_phase is Phase.WORK
    assert run.owed == []


@pytest.mark.parametrize("result", [done(), GOOD, done(exit=CANCELED), done(exit=Exit(reason=ExitReason.TIMEOUT))])
def test_success_is_the_agents_own_also_when_its_process_had_to_be_ended_for_lingering(result: msgspec.Struct) -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.do("a", result)
    assert run.performing == {"a": Phase.COMMIT}
    run.finish("a")
    assert run.status("a") is NodeStatus.SUCCEEDED


def test_what_was_known_only_at_the_end_is_recorded_before_it() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    events = run.do(
        "a", done(SessionStarted(session_id="s"), tokens(5), Asked(request_id="r", tool="t"), Noted(text="x"))
    )
    told = [type(event) for event in events[:4]]
    assert told == [AgentSessionStarted, AgentUsed, AgentNoted, PhaseEnded], "a request nobody can answer is none"
    assert {event.to for event in events if isinstance(event, AgentUsed | AgentNoted)} == {10_000}
    assert run.node("a").used.tokens == 5


@pytest.mark.parametrize("ok", [False, True])
def test_an_end_that_was_asked_for_is_an_interruption_whatever_the_exit_code(ok: bool) -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.give(Stop())
    run.do("a", canceled(ok=ok, news=(tokens(7),)))
    assert run.lifecycle == "STOPPED" and run.status("a") is NodeStatus.READY
    assert run.node("a").attempt.phases[Phase.WORK].status is PhaseStatus.INTERRUPTED
    assert run.node("a").used.tokens == 7, "what it used is counted all the same"


def test_work_that_was_done_when_the_stop_came_is_done() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.give(Stop())
    run.do("a", done())
    assert run.node("a").resume_from is Phase.COMMIT


@pytest.mark.parametrize("result", [canceled(), LOST, PLAIN_LOST, CANCELED])
def test_an_end_nobody_asked_for_is_as_good_as_lost(result: msgspec.Struct) -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.do("a", result)
    assert run.state.common.waits[run.wait].kind is WaitKind.REVIEW


def test_a_canceled_agent_is_canceled_and_its_edits_are_saved() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.give(CancelPart(scope="a"))
    run.do("a", canceled())
    assert run.status("a") is NodeStatus.CANCELED and run.owed == [("a", 1, "save and remove")]


def test_work_without_evidence_names_the_tools_that_were_not_permitted() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.denied("a", "bash", "write", "bash")
    run.tell("a", ToolEnded(call_id="x", tool="fetch", status=ToolStatus.DENIED))
    run.tell("a", ToolEnded(call_id="y", tool="read", status=ToolStatus.FAILED), ToolEnded(call_id="z"))
    run.do("a", done())
    run.do("a", NoEvidence())
    assert run.node("a").error.endswith("declare expectsNoChanges; it was not permitted to use: bash, write, fetch")


def test_an_agent_that_breaks_off_names_the_tools_that_were_not_permitted() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.denied("a", "bash")
    run.do("a", failing("it broke its work off"))
    assert run.node("a").error == "it broke its work off; it was not permitted to use: bash"


# What it is started with


def test_an_agent_is_started_with_what_the_plan_says_of_agents() -> None:
    sandbox = SandboxSpec(network=Network.LIMITED)
    run = Agents(
        agent("a"),
        agent("b", permissions=Permissions.DENY),
        task("c"),
        permissions=Permissions.ASK,
        approval_timeout_ms=5000,
        sandbox=sandbox,
    )
    run.reach("a", "b", "c")
    a, b, c = (run.work(name) for name in "abc")
    assert (a.permissions, a.approval_timeout_ms, a.sandbox) == (Permissions.ASK, 5000, sandbox)
    assert b.permissions is Permissions.DENY
    assert c.sandbox == sandbox, "commands live in it too"
    assert (a.session_id, a.trouble, a.time_left_ms, a.read_to) == ("", "", 0, 0)
    assert a.errors == f"{a.output}.stderr"


# With which conversation it goes on


def resumed(run: Agents, name: str = "a") -> tuple[str, str]:
    work = run.work(name)
    return work.session_id, work.trouble


def test_a_retry_resumes_the_conversation_in_the_same_worktree_and_says_what_went_wrong() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.do("a", failing("Tests fail"))
    run.give(Retry(scopes=("a",)))
    assert resumed(run) == ("s1", "work: Tests fail")
    assert run.work("a").path == "/trees/run-1/a/1"


def test_a_retry_for_want_of_evidence_resumes_the_conversation_too() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.do("a", done())
    run.do("a", NoEvidence())
    run.give(Retry())
    session, trouble = resumed(run)
    assert session == "s1" and trouble.startswith("commit: No work evidence")


def test_a_fresh_retry_begins_a_new_conversation_and_knows_of_nothing() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.do("a", failing())
    run.give(Retry(fresh=True))
    run.reach("a")
    assert resumed(run) == ("", "") and run.work("a").path == "/trees/run-1/a/2"


def test_a_conversation_goes_on_over_any_number_of_retries() -> None:
    run = Agents(agent("a"))
    run.speaking("a", "s1")
    run.do("a", failing("one"))
    run.give(Retry())
    run.tell("a", SessionStarted(session_id="s2"))
    run.do("a", failing("two"))
    run.give(Retry())
    assert resumed(run) == ("s2", "work: two")


def test_a_conversation_that_cannot_be_resumed_is_not_tried_for_ever() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.do("a", failing())
    run.give(Retry())
    assert resumed(run)[0] == "s1"
    run.do("a", failing("No conversation found with session id s1"))
    run.give(Retry())
    assert resumed(run) == ("", "work: No conversation found with session id s1")


def test_who_wants_no_conversation_resumed_gets_a_new_one_and_is_told_the_trouble() -> None:
    run = Agents(agent("a", resume_session=False))
    run.speaking("a")
    run.do("a", failing("bad"))
    run.give(Retry())
    assert resumed(run) == ("", "work: bad")


def test_an_agent_that_checks_has_a_conversation_of_its_own() -> None:
    checked = msgspec.structs.replace(
        agent("a"), postchecks=AgentSpec(agent="claude", on_interrupted=OnInterrupted.RERUN)
    )
    run = Agents(checked)
    run.speaking("a", "work")
    run.do("a", done())
    run.until("a", Phase.POSTCHECKS)
    assert resumed(run) == ("", "")
    run.tell("a", SessionStarted(session_id="check"))
    run.do("a", failing("Not good"))
    assert run.node("a").error == "Postchecks failed: Not good"
    run.give(Retry())
    assert run.performing == {"a": Phase.POSTCHECKS}
    assert resumed(run) == ("check", "postchecks: Postchecks failed: Not good")
    run.do("a", LOST)
    assert resumed(run) == ("check", "postchecks: Outcome unknown: its executor was lost"), "in the same attempt"
    assert run.node("a").attempt.phases[Phase.POSTCHECKS].tries == 2


# After a stop


def test_after_a_stop_an_agent_goes_on_where_its_conversation_was_and_its_edits_are_saved_besides() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.give(Stop())
    run.do("a", canceled())
    assert run.owed == [("a", 1, "save")], "the worktree stays"
    run.clean_up()
    run.give(Resume())
    assert run.performing == {"a": Phase.WORK}
    assert resumed(run) == ("s1", "work: it was interrupted") and run.work("a").path == "/trees/run-1/a/1"
    assert run.node("a").attempt.trigger is Trigger.RESUMED


@pytest.mark.parametrize("spoke", [False, True])
def test_after_a_stop_an_agent_without_a_conversation_starts_in_a_clean_worktree(spoke: bool) -> None:
    run = Agents(agent("a", resume_session=not spoke))
    if spoke:
        run.speaking("a")
    run.reach("a")
    run.give(Stop())
    run.do("a", canceled())
    run.clean_up()
    run.give(Resume())
    run.reach("a")
    assert resumed(run) == ("", "") and run.work("a").path == "/trees/run-1/a/2"


def test_a_resumed_agent_that_a_stop_kept_from_beginning_is_resumed_after_it() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.do("a", failing())
    run.give(Retry())
    run.give(Stop())
    run.do("a", NotStarted())
    run.clean_up()
    run.give(Resume())
    assert resumed(run)[0] == "s1"


def test_a_stop_before_the_agent_has_begun_loses_nothing() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.give(Stop())
    run.do("a", NotStarted())
    run.clean_up()
    run.give(Resume())
    run.finish("a")
    assert run.status("a") is NodeStatus.SUCCEEDED


# After a loss


def test_an_adopted_agent_is_read_from_where_its_news_are_recorded() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.tell("a", Text(text="one"), Reasoning(text="two"), to=350)
    run.tell("a", ToolStarted(call_id="c", tool="bash"), to=300)
    run.restart("a")
    work = run.work("a")
    assert (work.adopted, work.read_to) == (True, 350)
    run.restart("a", instance=SECOND_LIFE)
    run.do("a", done())
    run.finish("a")
    assert run.status("a") is NodeStatus.SUCCEEDED


def test_an_agent_whose_executor_was_lost_goes_on_where_its_conversation_was() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.restart(instance=SECOND_LIFE)
    assert run.state.common.waits == {} and run.owed == [("a", 1, "save")]
    run.clean_up()
    assert resumed(run) == ("s1", "work: it was interrupted")
    attempt = run.node("a").attempt
    assert (attempt.number, attempt.trigger, attempt.resume_from) == (2, Trigger.RERUN, Phase.WORK)
    assert run.work("a").read_to == 0, "it is another process, with another output"


def test_an_agent_that_is_lost_again_and_again_waits_for_a_person() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    for number in range(1, LOST_OFTEN):
        run.do("a", LOST)
        run.clean_up()
        assert len(run.node("a").attempts) == number + 1
    run.do("a", LOST)
    assert run.state.common.waits[run.wait].kind is WaitKind.REVIEW


def test_an_agent_without_a_conversation_that_is_lost_follows_its_on_interrupted() -> None:
    run = Agents(agent("a"), agent("b", rerun=True))
    run.reach("a", "b")
    run.restart(instance=SECOND_LIFE)
    assert run.node("a").wait_id == run.wait
    run.clean_up()
    run.reach("b")
    assert run.work("b").path == "/trees/run-1/b/2"


def test_an_agent_that_was_never_started_is_started_after_a_restart() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.restart(instance=FIRST_LIFE)
    assert not run.work("a").adopted


def test_an_agent_lost_while_its_plan_stops_is_resumed_with_its_conversation() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.give(Stop())
    run.restart(instance=SECOND_LIFE)
    assert run.lifecycle == "STOPPED"
    run.clean_up()
    run.give(Resume())
    assert resumed(run)[0] == "s1"


def test_a_plan_that_is_canceled_ends_its_agents_for_good() -> None:
    run = Agents(agent("a"))
    run.speaking("a")
    run.give(Cancel())
    run.do("a", canceled())
    assert (run.lifecycle, run.status("a")) == ("CANCELED", NodeStatus.CANCELED)
    assert run.owed == [("a", 1, "save and remove")]


def test_what_is_told_of_a_phase_that_never_was_changes_nothing() -> None:
    run = Agents(agent("a"), task("b"))
    run.reach("a", "b")
    run.tell("b", Text(text="a command says nothing, but who knows"), tokens(3))
    assert run.node("b").used.tokens == 3 and run.node("b").attempt.phases[Phase.WORK].agent is None


def test_an_agents_outcome_is_an_agents_outcome_only_for_work() -> None:
    run = Agents(agent("a"))
    with pytest.raises(TypeError, match="was answered with AgentEnded"):
        run.do("a", AgentEnded(exit=GOOD, ok=True))
