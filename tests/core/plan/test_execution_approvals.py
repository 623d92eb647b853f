"""What an agent may not do unasked: the question, the answer, and what ends both."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.plan.agents import LOST, Agents, agent, canceled, done, tokens
from tests.core.plan.execution import SECOND_LIFE, task

from pilothouse.core.plan.agent_events import AgentAnswered, BudgetReached
from pilothouse.core.plan.approvals import approval, used_on
from pilothouse.core.plan.integration import NoEvidence
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.agents import Asked, Permissions, SessionStarted, Text
from pilothouse.core.run.contract import Ended, Failed, NotStarted
from pilothouse.core.run.events import Event, NeedsApproval, StopDelayed, WaitClosed
from pilothouse.core.run.inputs import Cancel, CancelPart, Input, Outcome, Pause, Progress, Resume, Stop
from pilothouse.core.run.usage import Budget
from pilothouse.core.run.waits import WaitKind
from pilothouse.errors import BadInput, NotFound

DELIVERED = msgspec.defstruct("Delivered", [], frozen=True)()
HOUR = 60 * 60 * 1000


def asking(*others: str, can_remember: bool = False, **options: Any) -> tuple[Agents, str]:
    """Node a, which alone holds the only slot, asks; ``others`` wait for it."""
    plan = {"permissions": Permissions.ASK, "max_parallel": 1, **options}
    run = Agents(agent("a"), *(task(name) for name in others), **plan)
    run.speaking("a")
    return run, run.ask("a", can_remember=can_remember)


def closed(run: Agents) -> list[tuple[str, str, str]]:
    return [(event.wait_id, event.answer, event.by) for event in run.all(WaitClosed)]


def test_a_request_is_a_wait_that_says_all_a_person_needs() -> None:
    run, wait_id = asking()
    wait = run.state.common.waits[wait_id]
    assert (wait.kind, wait.scope, wait.options) == (WaitKind.APPROVAL, run.node("a").node.id, ("approve", "refuse"))
    assert wait.question == "a asks to use bash: rm -rf x"
    assert wait.detail == {
        "node": "a",
        "tool": "bash",
        "title": "rm -rf x",
        "input": '{"command": "rm -rf x"}',
        "phase": "work",
        "attempt": 1,
        "expiresAt": wait.opened_at + HOUR,
    }
    (event,) = run.all(NeedsApproval)
    assert (event.action, event.preview, event.timeout) == (
        "bash",
        {"title": "rm -rf x", "input": '{"command": "rm -rf x"}'},
        HOUR,
    )


@pytest.mark.parametrize(
    ("title", "given", "said"),
    [
        ("Tidy up", "rm -rf ~", "rm -rf ~ (Tidy up)"),
        ("", "rm -rf ~", "rm -rf ~"),
        ("Tidy up", '["rm", "-rf"]', '["rm", "-rf"] (Tidy up)'),
        ("Tidy up", "{ rm -rf ~; }", "{ rm -rf ~; } (Tidy up)"),
        ("make", "bash -lc make", "bash -lc make"),
        ("Create file", '{"fileName":"/w/a/1/src/a.py","diff":"…', "src/a.py (Create file)"),
        ("Write notes", '{"content":"\\"path\\":\\"b\\"","file_path":"/etc/passwd"}', "/etc/passwd (Write notes)"),
        ("/w/a/1/a.py", '{"filepath":"/w/a/1/a.py"}', "a.py"),
        ("Look", '{"query":"x"}', "Look"),
        ("Look", '{"path":"\\ud800"}', "Look"),
        ("Look", "", "Look"),
    ],
)
def test_a_request_says_what_is_done_before_what_the_agent_calls_it(title: str, given: str, said: str) -> None:
    assert used_on(Asked(request_id="1", tool="t", title=title, input=given), "/w/a/1") == said


@pytest.mark.parametrize("request_id", ["toolu_01-x", "a/b c?#%", "", "x" * 500, "é\ud800"])
def test_the_id_of_a_wait_can_stand_in_an_url_and_is_always_the_same(request_id: str) -> None:
    run = Agents(agent("a"))
    run.reach("a")
    asked = Asked(request_id=request_id, tool="bash")
    first, second = (approval(run.work("a"), asked, to).wait.id for to in (1, 2))
    assert first == second and len(first) < 150
    assert set(first) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert approval(run.work("a"), asked, 1).wait.question == "a asks to use bash"


def test_while_it_waits_it_lives_on_and_holds_no_slot() -> None:
    run, wait_id = asking("b")
    assert run.performing == {"a": Phase.WORK, "b": Phase.SETUP}
    run.reply(wait_id, "approve")
    assert run.kind.slots(run.state) == 2, "it goes on at once: it never ended"
    assert run.kind.demand(run.state) == 0


@pytest.mark.parametrize(
    ("answer", "allowed", "remember"),
    [("approve", True, False), ("approve-always", True, True), ("refuse", False, False)],
)
def test_an_answer_is_handed_to_the_agent(answer: str, allowed: bool, remember: bool) -> None:
    run, wait_id = asking(can_remember=True)
    output = run.work("a").output
    run.reply(wait_id, answer)
    (reply,) = run.replies
    assert (reply.allowed, reply.remember, reply.request_id, reply.output) == (allowed, remember, "r1", output)
    assert (reply.plan_id, reply.node_id, reply.gated) == ("run-1", run.node("a").node.id, False)
    assert closed(run) == [(wait_id, answer, "ann")]
    run.give(Outcome(key=reply.key, result=DELIVERED))
    assert run.replies == [] and run.all(AgentAnswered)[-1].error == ""
    run.do("a", done())
    run.finish("a")
    run.clean_up()
    assert run.lifecycle == "SUCCEEDED"


def test_only_an_agent_that_can_remember_takes_an_answer_for_good() -> None:
    run, wait_id = asking()
    with pytest.raises(BadInput, match="no answer"):
        run.reply(wait_id, "approve-always")
    run.reply(wait_id, "refuse")
    with pytest.raises(NotFound):
        run.reply(wait_id, "approve")


def test_an_answer_that_could_not_be_handed_over_is_told() -> None:
    run, wait_id = asking()
    run.reply(wait_id, "approve")
    (reply,) = run.replies
    for broken_off in (Ended(), NotStarted()):
        assert run.give(Outcome(key=reply.key, result=broken_off)) == [] and run.replies == [reply]
    run.give(Outcome(key=reply.key, result=Failed(error="disk full")))
    (told,) = run.all(AgentAnswered)
    assert (told.wait_id, told.request_id, told.error) == (wait_id, "r1", "disk full")
    assert run.replies == []


def test_a_request_nobody_answers_in_time_is_refused() -> None:
    run, wait_id = asking()
    assert run.timers == {f"{wait_id}.timer": run.state.common.waits[wait_id].opened_at + HOUR}
    run.time_passes()
    assert closed(run) == [(wait_id, "refuse", "timeout")]
    assert [reply.allowed for reply in run.replies] == [False] and run.timers == {}


def test_a_plan_may_let_requests_wait_for_ever() -> None:
    run, wait_id = asking(approval_timeout_ms=0)
    assert run.timers == {} and "expiresAt" not in run.state.common.waits[wait_id].detail
    assert run.all(NeedsApproval)[0].timeout is None


def test_what_was_refused_counts_as_not_permitted() -> None:
    run, wait_id = asking()
    run.reply(wait_id, "refuse")
    run.do("a", done())
    run.do("a", NoEvidence())
    assert run.node("a").error.endswith("it was not permitted to use: bash")


def test_several_requests_of_one_agent_are_answered_one_by_one() -> None:
    run, first = asking("b")
    second = run.ask("a", "r2", "write")
    assert run.node("a").waits == {first: WaitKind.APPROVAL, second: WaitKind.APPROVAL}
    run.reply(first, "approve")
    assert run.kind.slots(run.state) == 1, "b's: a still waits"
    run.reply(second, "refuse")
    assert run.kind.slots(run.state) == 2
    assert [(reply.request_id, reply.allowed) for reply in run.replies] == [("r1", True), ("r2", False)]


def test_an_agent_that_ends_while_it_asks_asks_nothing_any_more() -> None:
    run, wait_id = asking()
    run.do("a", done())
    assert closed(run) == [(wait_id, "", "")] and run.timers == {} and run.replies == []
    assert run.performing == {"a": Phase.COMMIT}


def test_an_answer_to_one_that_has_ended_is_not_handed_over() -> None:
    run, wait_id = asking()
    run.reply(wait_id, "approve")
    run.do("a", done())
    assert run.replies == []


# Which requests count


def test_a_request_counts_once_also_when_it_has_been_answered() -> None:
    run, wait_id = asking()
    run.ask("a")
    assert len(run.all(NeedsApproval)) == 1
    run.reply(wait_id, "approve")
    run.restart("a")
    run.ask("a")
    assert len(run.all(NeedsApproval)) == 1 and run.state.common.waits == {}


def test_a_request_that_comes_twice_in_one_batch_counts_once() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    asked = Asked(request_id="r", tool="bash")
    run.tell("a", asked, Text(text="please"), asked)
    assert len(run.all(NeedsApproval)) == 1


@pytest.mark.parametrize("given", [Stop(), Cancel(), CancelPart(scope="a")])
def test_who_is_being_ended_asks_in_vain(given: Input) -> None:
    run = Agents(agent("a"))
    run.reach("a")
    run.give(given)
    run.ask("a")
    assert run.all(NeedsApproval) == [] and run.state.common.waits == {}


def test_who_is_over_its_budget_asks_in_vain() -> None:
    run = Agents(agent("a", budget=Budget(tokens=1)))
    run.reach("a")
    run.tell("a", Asked(request_id="r", tool="bash"), tokens(1))
    assert run.all(BudgetReached) and run.state.common.waits == {}
    run.ask("a")
    assert run.state.common.waits == {}


def test_a_request_of_a_run_that_has_ended_is_dropped_and_its_other_news_kept() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    work = run.work("a")
    event = approval(work, Asked(request_id="r", tool="bash"), 1)
    run.do("a", done())
    assert run.give(Progress(key=work.key, events=(event,))) == []
    other = msgspec.structs.replace(event, wait=msgspec.structs.replace(event.wait, scope="somebody"))
    run.give(Progress(key=run.effect("a").key, events=(other,)))
    assert run.state.common.waits == {}


def test_a_stop_that_takes_long_is_told_only_while_it_does() -> None:
    run = Agents(agent("a"))
    run.reach("a")
    late: tuple[Event, ...] = (StopDelayed(waiting_for=("x",)),)
    assert run.give(Progress(key="", events=late)) == []
    run.give(Stop())
    assert run.give(Progress(key="", events=late)) == list(late)


# What ends a question


@pytest.mark.parametrize("given", [Stop(), Cancel(), CancelPart(scope="a")])
def test_who_is_to_be_ended_asks_nothing_any_more_and_is_ended(given: Input) -> None:
    run, wait_id = asking()
    run.give(given)
    assert run.state.common.waits == {} and run.timers == {} and closed(run) == [(wait_id, "", "")]
    assert run.performing == {} and run.status("a") is NodeStatus.RUNNING, "it has to be ended first"
    with pytest.raises(NotFound):
        run.reply(wait_id, "approve")
    run.do("a", canceled())
    assert run.status("a") is (NodeStatus.READY if isinstance(given, Stop) else NodeStatus.CANCELED)
    run.clean_up()
    assert run.lifecycle in ("STOPPED", "CANCELED")


def test_a_stop_leaves_an_answer_that_is_on_its_way() -> None:
    run, wait_id = asking()
    run.reply(wait_id, "approve")
    run.give(Stop())
    assert run.replies == []
    run.do("a", canceled())
    assert run.lifecycle == "STOPPED" and run.replies == []
    run.clean_up()
    run.give(Resume())
    assert run.work("a").session_id == "s1"


def test_a_budget_ends_one_that_asks_too() -> None:
    run = Agents(agent("a"), agent("b"), budget=Budget(tokens=1))
    run.reach("a", "b")
    run.ask("a")
    run.tell("b", tokens(1))
    assert run.state.common.waits == {} and run.performing == {}


def test_a_pause_waits_for_an_agent_that_asks() -> None:
    run, wait_id = asking()
    run.give(Pause())
    assert run.lifecycle == "PAUSING"
    run.reply(wait_id, "approve")
    run.do("a", done())
    run.finish("a")
    run.clean_up()
    assert run.lifecycle == "SUCCEEDED"


# Crashes


def test_a_question_outlives_its_owner_with_the_agent_that_asked() -> None:
    run, wait_id = asking()
    timers = run.timers
    run.restart("a")
    assert run.wait == wait_id and run.timers == timers
    assert run.work("a").read_to == 200, "what comes before the request has been read"
    run.reply(wait_id, "approve")
    replies = run.replies
    run.restart("a")
    assert run.replies == replies != []


@pytest.mark.parametrize("told", ["by the recovery", "by its outcome"])
def test_the_question_of_an_agent_that_was_lost_falls_away(told: str) -> None:
    run, wait_id = asking()
    if told == "by its outcome":
        run.do("a", LOST)
    else:
        run.restart(instance=SECOND_LIFE)
    assert closed(run) == [(wait_id, "", "")] and run.state.common.waits == {}
    run.clean_up()
    assert run.work("a").session_id == "s1"


def test_the_question_of_an_agent_that_cannot_go_on_makes_room_for_the_review() -> None:
    run = Agents(agent("a", resume_session=False))
    run.reach("a")
    run.tell("a", SessionStarted(session_id="s"))
    run.ask("a")
    run.restart(instance=SECOND_LIFE)
    assert run.state.common.waits[run.wait].kind is WaitKind.REVIEW
