"""Plans of agents from their submission to their end, with real processes and no model."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.support.flow import closes_leg, engine, eventually, finished, make_repo, node, run, run_plan, submit, until

from pilothouse.core.plan.agent_events import AgentEvent, AgentText, BudgetReached
from pilothouse.core.plan.events import AttemptStarted, NodeRetried, PhaseEnded
from pilothouse.core.run.events import NeedsApproval, Recorded, WaitClosed, WaitOpened
from pilothouse.engine.services import Services


def agents(*jobs: str, more: str = "") -> str:
    """A plan whose jobs each have an agent that follows ``<name>.yaml``."""
    listed = "\n".join(
        f"  - {{producerId: {name}, task: Do {name}, "
        f"work: {{type: agent, agent: scripted, script: {name}.yaml}}{rest and ', ' + rest}}}"
        for name, _, rest in (job.partition(" ") for job in jobs)
    )
    return f"name: agents\n{more}\njobs:\n{listed}\n"


async def events(services: Services, plan_id: str) -> list[Recorded]:
    return await services.queries.events(plan_id, 0, 100_000)


def test_what_an_agent_says_uses_and_edits_is_in_the_log_and_in_the_plan(tmp_path: Path) -> None:
    async def journey() -> None:
        script = """
            - think: hm
            - say: Working on {task}
            - use: { model: m-1, input: 100, output: 20, cached: 40, reasoning: 5 }
            - use: { model: m-2, input: 10, output: 1 }
            - write: { path: made.txt, content: "made\\n" }
        """
        repo = make_repo(tmp_path / "repo", {"one.yaml": script})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, agents("one"))
            assert plan["status"] == "succeeded", node(plan, "one")["error"]
            assert repo.show(plan["targetBranch"], "made.txt") == "made\n"
            usage = plan["usage"]
            assert (usage["inputTokens"], usage["outputTokens"], usage["cachedTokens"]) == (110, 21, 40)
            assert {m["model"]: m["totalTokens"] for m in usage["models"]} == {"m-1": 120, "m-2": 11}
            assert node(plan, "one")["usage"]["totalTokens"] == 131
            assert node(plan, "one")["sessionId"]
            logs = await services.queries.node_logs(plan["planId"], "one")
            assert "(thinks) hm" in logs["text"] and "Working on Do one" in logs["text"] and "made.txt" in logs["text"]
            told = [r.event for r in await events(services, plan["planId"]) if isinstance(r.event, AgentEvent)]
            assert [event.to for event in told] == sorted(event.to for event in told)

    run(journey())


def test_a_budget_ends_the_node_that_passes_it_and_no_other(tmp_path: Path) -> None:
    async def journey() -> None:
        greedy = "[{write: {path: a.txt, content: a}}, {use: {model: m, input: 900, output: 101}}, {sleep: 60000}]"
        modest = "[{write: {path: b.txt, content: b}}, {use: {model: m, input: 900, output: 99}}, {sleep: 300}]"
        repo = make_repo(tmp_path / "repo", {"greedy.yaml": greedy, "modest.yaml": modest})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(
                services, repo, agents("greedy budget: {tokens: 1000}", "modest budget: {tokens: 1000}")
            )
            assert plan["status"] == "partial"
            greedy_node = node(plan, "greedy")
            assert (greedy_node["status"], node(plan, "modest")["status"]) == ("failed", "succeeded")
            assert "Budget reached" in greedy_node["error"] and "1,001 of 1,000 tokens" in greedy_node["error"]
            reached = [r.event for r in await events(services, plan["planId"]) if isinstance(r.event, BudgetReached)]
            assert [event.node_id for event in reached] == [greedy_node["id"]]

            async def rescued() -> str | None:
                found: str | None = node(await services.queries.plan(plan["planId"]), "greedy")["rescueRef"]
                return found

            ref = await eventually(rescued, bool)
            assert ref is not None and repo.show(ref, "a.txt") == "a"

    run(journey())


def test_the_budget_of_a_plan_ends_its_agents_and_lets_commands_go_on(tmp_path: Path) -> None:
    async def journey() -> None:
        spends = "[{use: {model: m, input: 600}}, {sleep: 60000}]"
        plan_text = agents("a", "b", more="budget: {tokens: 1000}") + (
            "  - {producerId: sh, task: t, work: 'sleep 0.5; echo done > done'}\n"
        )
        repo = make_repo(tmp_path / "repo", {"a.yaml": spends, "b.yaml": spends})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, plan_text)
            assert {n["producerId"]: n["status"] for n in plan["nodes"]} == {
                "a": "failed", "b": "failed", "sh": "succeeded"
            }  # fmt: skip
            assert "the plan's budget" in node(plan, "a")["error"] and "the plan's budget" in node(plan, "b")["error"]

    run(journey())


def test_a_cost_that_cannot_be_known_ends_the_node_with_that_reason(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo", {"a.yaml": "[{use: {model: unheard-of, input: 6}}, {sleep: 60000}]"})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, agents("a budget: {cost: 1}"))
            assert "no price is known" in node(plan, "a")["error"]

    run(journey())


def test_cost_is_told_by_the_users_own_prices(tmp_path: Path) -> None:
    async def journey() -> None:
        prices = tmp_path / "prices.toml"
        prices.write_text('[models."known-*"]\ninput = 10.0\noutput = 20.0\ncached = 1.0\n')
        script = """
            - use: { model: known-1, input: 1000, cached: 500, output: 100 }
            - use: { model: other, input: 7 }
            - write: { path: a.txt, content: a }
        """
        repo = make_repo(tmp_path / "repo", {"a.yaml": script})
        async with engine(tmp_path / "data", prices=prices) as services:
            usage = (await run_plan(services, repo, agents("a")))["usage"]
            assert usage["cost"] == pytest.approx((500 * 10 + 500 * 1 + 100 * 20) / 1e6)
            assert usage["unpricedTokens"] == 7

    run(journey())


def test_a_rate_limit_is_waited_out_and_the_conversation_goes_on_in_the_same_worktree(tmp_path: Path) -> None:
    async def journey() -> None:
        script = """
            attempts:
              1: [ { write: { path: half.txt, content: half } }, { limit: 200 } ]
              2: [ { expect: { path: half.txt, contains: half } }, { write: { path: turn.txt, content: "{turn}" } } ]
        """
        repo = make_repo(tmp_path / "repo", {"a.yaml": script})
        async with engine(tmp_path / "data", agent_backoff=0.2) as services:
            plan = await run_plan(services, repo, agents("a"))
            assert plan["status"] == "succeeded", node(plan, "a")["error"]
            assert repo.show(plan["targetBranch"], "turn.txt") == "2"
            found = [r.event for r in await events(services, plan["planId"])]
            assert [e.wait.kind for e in found if isinstance(e, WaitOpened)] == ["backoff"]
            assert [e.trigger for e in found if isinstance(e, AttemptStarted)] == ["initial", "backoff"]

    run(journey())


def test_a_stop_ends_a_backoff_at_once_and_resuming_goes_on(tmp_path: Path) -> None:
    async def journey() -> None:
        script = "{attempts: {1: [limit: 60000], 2: [write: {path: a.txt, content: a}]}}"
        repo = make_repo(tmp_path / "repo", {"a.yaml": script})
        async with engine(tmp_path / "data", agent_backoff=60.0) as services:
            plan_id = await submit(services, repo, agents("a"))
            await until(services, plan_id, lambda r: isinstance(r.event, WaitOpened))
            await services.runs.control(plan_id, "stop")
            stopped = await finished(services, plan_id)
            assert stopped["status"] == "stopped" and not stopped["waits"]
            seq = (await services.queries.run(plan_id)).seq
            await services.runs.control(plan_id, "resume")
            assert (await finished(services, plan_id, seq))["status"] == "succeeded"

    run(journey())


ASKS = "[{ask: {tool: bash, input: rm -r x}}, {write: {path: a.txt, content: a}}]"


@pytest.mark.parametrize(("answer", "status"), [("approve", "succeeded"), ("refuse", "failed")])
def test_a_person_decides_what_an_agent_may_do(tmp_path: Path, answer: str, status: str) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo", {"a.yaml": ASKS})
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, agents("a", more="permissions: ask"))
            asked = (await until(services, plan_id, lambda r: isinstance(r.event, NeedsApproval)))[-1].event
            assert isinstance(asked, NeedsApproval) and asked.action == "bash"
            waits = [wait for row in await services.runs.waits() for wait in row.waits]
            assert [wait.id for wait in waits] == [asked.wait.id]
            await services.runs.answer(asked.wait.id, answer, "somebody")
            plan = await finished(services, plan_id)
            assert node(plan, "a")["status"] == status
            closed = [r.event for r in await events(services, plan_id) if isinstance(r.event, WaitClosed)]
            assert [(e.answer, e.by) for e in closed] == [(answer, "somebody")]

    run(journey())


def test_a_request_nobody_answers_is_refused_in_the_end(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo", {"a.yaml": ASKS})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, agents("a", more="permissions: ask\napprovalTimeout: 200"))
            assert node(plan, "a")["status"] == "failed"
            closed = [r.event for r in await events(services, plan["planId"]) if isinstance(r.event, WaitClosed)]
            assert [(e.answer, e.by) for e in closed] == [("refuse", "timeout")]

    run(journey())


def test_a_request_survives_its_server_and_is_asked_once(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo", {"a.yaml": ASKS})
        async with engine(tmp_path / "data", orphan_grace=30.0) as services:
            plan_id = await submit(services, repo, agents("a", more="permissions: ask"))
            await until(services, plan_id, lambda r: isinstance(r.event, NeedsApproval))
        async with engine(tmp_path / "data") as services:
            [wait] = [wait for row in await services.runs.waits() for wait in row.waits]
            await services.runs.answer(wait.id, "approve", "somebody")
            plan = await finished(services, plan_id)
            assert plan["status"] == "succeeded"
            asked = [r for r in await events(services, plan_id) if isinstance(r.event, NeedsApproval)]
            assert len(asked) == 1

    run(journey())


def test_what_an_agent_told_while_no_server_was_there_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    async def journey() -> None:
        script = "".join(f"- say: 'line {n}. '\n- sleep: 40\n" for n in range(30))
        script += "- write: {path: a.txt, content: a}\n"
        repo = make_repo(tmp_path / "repo", {"a.yaml": script})
        async with engine(tmp_path / "data", orphan_grace=30.0) as services:
            plan_id = await submit(services, repo, agents("a"))
            await until(services, plan_id, lambda r: isinstance(r.event, AgentText))
        async with engine(tmp_path / "data") as services:
            assert (await finished(services, plan_id))["status"] == "succeeded"
            said = "".join(r.event.text for r in await events(services, plan_id) if isinstance(r.event, AgentText))
            assert said.split() == [word for n in range(30) for word in ("line", f"{n}.")]

    run(journey())


@pytest.mark.parametrize(
    ("script", "more", "status", "error"),
    [
        ("[{fail: no idea}]", "", "failed", "no idea"),
        ("[{say: all done}]", "", "failed", "No work evidence"),
        ("[{exit: 0}]", "", "failed", "without saying how its work went"),
        ("[{exit: 3}]", "", "failed", "3"),
        ("[{write: {path: a, content: a}}, {print: {text: '\\u0001\\u00ff junk', times: 2000}}]", "", "succeeded", ""),
        ("[{ask: bash}]", "permissions: deny", "failed", "bash"),
        ("[{say: nothing to change}]", "", "succeeded", ""),
    ],
)
def test_each_end_of_an_agent_is_told_for_what_it_is(
    tmp_path: Path, script: str, more: str, status: str, error: str
) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo", {"a.yaml": script})
        extra = "expectsNoChanges: true" if "nothing to change" in script else ""
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, agents(f"a {extra}".strip(), more=more))
            found = node(plan, "a")
            assert (found["status"], error in (found["error"] or "")) == (status, True), found["error"]

    run(journey())


def test_an_agent_that_lingers_after_its_last_word_has_succeeded_and_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilothouse.engine.agents.work.LINGER_S", 0.2)

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo", {"a.yaml": "[{write: {path: a, content: a}}, {linger: 50000}]"})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, agents("a"))
            assert node(plan, "a")["status"] == "succeeded", node(plan, "a")["error"]

    run(journey())


def test_a_hundred_megabytes_of_junk_neither_fill_the_log_nor_stop_anything(tmp_path: Path) -> None:
    async def journey() -> None:
        script = "[{run: 'head -c 100000000 /dev/urandom'}, {write: {path: a, content: a}}]"
        repo = make_repo(tmp_path / "repo", {"a.yaml": script})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, agents("a"))
            assert node(plan, "a")["status"] == "succeeded", node(plan, "a")["error"]
            found = await events(services, plan["planId"])
            assert len(found) < 5000
            assert sum(len(r.event.text) for r in found if hasattr(r.event, "text")) < 8 << 20

    run(journey())


def test_a_retry_goes_on_with_the_conversation_in_the_worktree_that_was_left(tmp_path: Path) -> None:
    async def journey() -> None:
        script = """
            attempts:
              1: [ { write: { path: half.txt, content: half } }, { fail: not yet } ]
              2: [ { expect: { path: half.txt, contains: half } }, { write: { path: turn.txt, content: "{turn}" } } ]
        """
        repo = make_repo(tmp_path / "repo", {"a.yaml": script})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, agents("a"))
            first = node(plan, "a")
            assert first["status"] == "failed" and "not yet" in first["error"]
            seq = (await services.queries.run(plan["planId"])).seq
            await services.plans.retry(plan["planId"])
            await until(services, plan["planId"], lambda r: isinstance(r.event, NodeRetried), seq)
            again = await finished(services, plan["planId"], seq)
            assert again["status"] == "succeeded", node(again, "a")["error"]
            assert repo.show(again["targetBranch"], "turn.txt") == "2"
            assert node(again, "a")["sessionId"] == first["sessionId"]

    run(journey())


def test_a_planted_secret_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "s3cr3t-planted-0123456789abcdef"
    monkeypatch.setenv("SOME_SERVICE_TOKEN", secret)

    async def journey() -> None:
        script = """
            - run: env > environment.txt; cat /proc/self/environ >> environment.txt
            - run: tr '\\0' '\\n' < /proc/$PPID/environ
            - run: test -z "$SOME_SERVICE_TOKEN"
        """
        repo = make_repo(tmp_path / "repo", {"a.yaml": script})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, agents("a"))
            assert plan["status"] == "succeeded", node(plan, "a")["error"]
            environment = repo.show(plan["targetBranch"], "environment.txt")
            assert "PILOTHOUSE_NODE=a" in environment and secret not in environment
        assert not list(_holding(tmp_path, secret))
        with sqlite3.connect(tmp_path / "data" / "pilothouse.db") as database:
            assert secret not in "\n".join(database.iterdump())

    run(journey())


def _holding(where: Path, secret: str) -> Any:
    for folder, _, files in os.walk(where):
        for name in files:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes():
                yield path


def test_phases_of_an_agent_close_before_its_leg_does(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo", {"a.yaml": "[{write: {path: a, content: a}}]"})
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, agents("a"))
            found = await until(services, plan_id, closes_leg)
            ended = [i for i, r in enumerate(found) if isinstance(r.event, PhaseEnded) and r.event.phase == "work"]
            told = [i for i, r in enumerate(found) if isinstance(r.event, AgentEvent)]
            assert told and max(told) < ended[0]

    run(journey())
