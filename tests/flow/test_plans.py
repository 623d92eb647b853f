"""Plans on real repositories, from the text of a plan file to the merged result."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.flow import engine, finished, make_repo, node, run, run_plan, submit, until

from pilothouse.core.plan.events import NodeMoved, PhaseStarted
from pilothouse.core.plan.states import NodeStatus
from pilothouse.errors import BadInput, Refused

DIAMOND = """
name: diamond
targetBranch: result
jobs:
  - {producerId: top, task: make top, work: "echo top > top"}
  - {producerId: left, task: make left, work: "echo left > left", dependencies: [top]}
  - {producerId: right, task: make right, work: "echo right > right", dependencies: [top], prechecks: "test -f top"}
  - producerId: join
    task: join both
    work: "cat left right > both"
    dependencies: [left, right]
    postchecks: "test -s both"
"""


def test_the_join_of_a_diamond_sees_the_files_of_both_its_parents(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, DIAMOND)
        assert plan["status"] == "succeeded"
        assert repo.show("result", "both") == "left\nright\n"
        assert repo.files("result") == {"README.md", "top", "left", "right", "both"}
        # One squashed commit with one parent, and nothing of it in the user's checkout.
        assert repo.git("rev-list", "--count", "main..result").strip() == "1"
        assert repo.git("status", "--porcelain") == ""
        assert repo.git("worktree", "list").count("\n") == 1
        assert not list((tmp_path / "data" / "worktrees").iterdir())

    run(journey())


CLASH = """
name: clash
targetBranch: result
jobs:
  - {producerId: one, task: say one, work: "echo one > line"}
  - {producerId: two, task: say two, work: "echo two > line"}
"""


def test_two_nodes_that_edit_one_line_leave_the_first_result_and_a_message_with_files_and_nodes(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo", {"line": "zero\n"})
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, CLASH)
        assert plan["status"] == "partial"
        won, lost = sorted(plan["nodes"], key=lambda n: n["status"], reverse=True)
        assert (won["status"], lost["status"]) == ("succeeded", "failed")
        assert lost["phases"]["merge-ri"]["status"] == "failed"
        assert "line" in lost["error"] and won["producerId"] in lost["error"] and lost["producerId"] in lost["error"]
        assert repo.show("result", "line").strip() == won["producerId"]
        for kept in (won, lost):
            assert repo.show(kept["completedCommit"], "line").strip() == kept["producerId"]
            ref = f"refs/pilothouse/plans/{plan['planId']}/{kept['id']}/1"
            assert repo.git("rev-parse", ref).strip() == kept["completedCommit"]

    run(journey())


def test_leaves_that_share_an_ancestor_do_not_conflict_with_themselves(tmp_path: Path) -> None:
    shared = """
name: shared
targetBranch: result
jobs:
  - {producerId: base, task: make it, work: "printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n' > list"}
  - {producerId: first, task: change the top, work: "sed -i 's/^1$/one/' list", dependencies: [base]}
  - {producerId: last, task: change the end, work: "sed -i 's/^7$/seven/' list", dependencies: [base]}
"""

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, shared)
        assert plan["status"] == "succeeded", [n["error"] for n in plan["nodes"]]
        assert repo.show("result", "list") == "one\n2\n3\n4\n5\n6\nseven\n"

    run(journey())


def test_uncommitted_edits_on_a_checked_out_target_stay_and_the_result_is_elsewhere_and_said_so(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        (repo.path / "README.md").write_text("mine, not committed\n")
        (repo.path / "new").write_text("untracked\n")
        before = repo.git("rev-parse", "main"), repo.git("status", "--porcelain")
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, DIAMOND.replace("targetBranch: result", "targetBranch: main"))
        assert plan["status"] == "succeeded"
        assert (repo.git("rev-parse", "main"), repo.git("status", "--porcelain")) == before
        assert (repo.path / "README.md").read_text() == "mine, not committed\n"
        assert plan["targetBranch"] == "pilothouse/diamond"
        assert "main" in plan["note"] and "pilothouse/diamond" in plan["note"]
        assert repo.show("pilothouse/diamond", "both") == "left\nright\n"

    run(journey())


def test_a_clean_checkout_is_fast_forwarded_when_that_is_asked_for(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        plan_text = DIAMOND.replace("targetBranch: result", "targetBranch: main")
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, plan_text, update_checkout=True)
        assert (plan["status"], plan["targetBranch"], plan["note"]) == ("succeeded", "main", "")
        assert (repo.path / "both").read_text() == "left\nright\n"
        assert repo.git("status", "--porcelain") == ""
        assert repo.git("rev-parse", "main").strip() == plan["targetCommit"]

    run(journey())


def test_two_plans_onto_one_target_at_once_are_both_in(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            texts = [
                f"name: plan {n}\ntargetBranch: result\njobs:\n"
                + "".join(f"  - {{producerId: j{j}, task: t, work: 'echo {n} > plan{n}-{j}'}}\n" for j in range(4))
                for n in (1, 2)
            ]
            ids = [await submit(services, repo, text) for text in texts]
            plans = await asyncio.gather(*(finished(services, plan_id) for plan_id in ids))
        assert [plan["status"] for plan in plans] == ["succeeded", "succeeded"]
        expected = {f"plan{n}-{j}" for n in (1, 2) for j in range(4)}
        assert repo.files("result") == expected | {"README.md"}
        assert repo.git("rev-list", "--count", "main..result").strip() == "8"

    run(journey())


def test_never_more_nodes_than_allowed_run_at_once_and_those_with_most_dependents_start_first(tmp_path: Path) -> None:
    wide = "name: wide\nmaxParallel: 8\njobs:\n"
    for n in range(40):
        wide += f"  - {{producerId: n{n}, task: t, work: 'true', expectsNoChanges: true}}\n"
    # The last declared root unlocks most, so it is the first to start.
    for n in range(10):
        wide += f"  - {{producerId: d{n}, task: t, work: 'true', expectsNoChanges: true, dependencies: [n39]}}\n"

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, wide)
            plan = await finished(services, plan_id)
            events = await services.queries.events(plan_id, limit=10_000)
        assert plan["status"] == "succeeded"
        active, most, started = 0, 0, []
        for recorded in events:
            event = recorded.event
            if isinstance(event, NodeMoved):
                if event.new is NodeStatus.SCHEDULED:
                    active += 1
                    started.append(event.node_id)
                elif event.new is NodeStatus.SUCCEEDED:
                    active -= 1
                most = max(most, active)
        assert most == 8
        assert started[0] == node(plan, "n39")["id"]

    run(journey())


def test_a_failed_node_is_retried_from_its_failed_phase_in_its_own_worktree(tmp_path: Path) -> None:
    flaky = """
name: flaky
targetBranch: result
jobs:
  - producerId: build
    task: build it
    work: "echo built > built; echo once >> count"
    postchecks: "test -f ../../../allowed || test -f $ALLOWED"
    env: {ALLOWED: %s}
  - {producerId: ship, task: ship it, work: "cp built shipped", dependencies: [build]}
"""

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        allowed = tmp_path / "allowed"
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, flaky % allowed)
            plan = await finished(services, plan_id)
            assert plan["status"] == "failed"
            assert node(plan, "build")["error"] == "Postchecks failed: Exit code 1"
            assert node(plan, "ship")["status"] == "blocked"
            assert "build" in node(plan, "ship")["error"]
            last = (await services.queries.run(plan_id)).seq
            allowed.touch()
            await services.plans.retry(plan_id)
            plan = await finished(services, plan_id, after=last)
            detail = await services.queries.node(plan_id, "build")
        assert plan["status"] == "succeeded"
        assert [a["triggerType"] for a in detail["attemptHistory"]] == ["initial", "retry"]
        assert detail["attemptHistory"][1]["resumeFromPhase"] == "postchecks"
        assert "work" not in detail["attemptHistory"][1]["phases"]
        assert repo.show("result", "count") == "once\n"  # the work itself ran once
        assert repo.show("result", "shipped") == "built\n"

    run(journey())


def test_a_plan_without_a_failed_node_has_nothing_to_retry(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, DIAMOND)
            with pytest.raises(Refused):
                await services.plans.retry(plan["planId"])

    run(journey())


def test_work_that_changes_nothing_fails_unless_it_is_expected_to(tmp_path: Path) -> None:
    idle = "name: idle\njobs:\n  - {producerId: idle, task: t, work: 'true'%s}\n"

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            failed = await run_plan(services, repo, idle % "")
            assert failed["status"] == "failed"
            assert "No work evidence" in node(failed, "idle")["error"]
            fine = await run_plan(services, repo, idle % ", expectsNoChanges: true")
            assert fine["status"] == "succeeded"

    run(journey())


def test_a_paused_plan_finishes_what_runs_and_starts_nothing_new(tmp_path: Path) -> None:
    slow = """
name: slow
maxParallel: 1
jobs:
  - {producerId: one, task: t, work: "touch %(here)s; while [ ! -f %(go)s ]; do sleep 0.02; done; echo 1 > one"}
  - {producerId: two, task: t, work: "echo 2 > two", dependencies: [one]}
"""

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, slow % {"here": tmp_path / "here", "go": tmp_path / "go"})
            await until(services, plan_id, lambda r: isinstance(r.event, PhaseStarted) and r.event.phase == "work")
            row = await services.runs.control(plan_id, "pause")
            assert row.lifecycle == "PAUSING"
            (tmp_path / "go").touch()
            await until(services, plan_id, lambda r: r.event.type_name() == "PAUSED")
            plan = await services.queries.plan(plan_id)
            assert (plan["status"], node(plan, "one")["status"]) == ("paused", "succeeded")
            assert node(plan, "two")["status"] == "ready"
            await services.runs.control(plan_id, "resume")
            assert (await finished(services, plan_id))["status"] == "succeeded"

    run(journey())


def test_canceling_a_group_blocks_what_depends_on_it_and_nothing_else(tmp_path: Path) -> None:
    grouped = """
name: grouped
jobs:
  - {producerId: a, task: t, group: back/api, work: "touch %(here)s; sleep 600"}
  - {producerId: b, task: t, group: back, work: "echo b > b", dependencies: [a]}
  - {producerId: c, task: t, work: "echo c > c", dependencies: [b]}
  - {producerId: d, task: t, work: "echo d > d"}
"""

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            plan_id = await submit(services, repo, grouped % {"here": tmp_path / "here"})
            await until(services, plan_id, lambda r: isinstance(r.event, PhaseStarted) and r.event.phase == "work")
            await services.plans.cancel_part(plan_id, "back")
            plan = await finished(services, plan_id)
        states = {n["producerId"]: n["status"] for n in plan["nodes"]}
        assert states == {"a": "canceled", "b": "canceled", "c": "blocked", "d": "succeeded"}
        assert plan["status"] == "partial"
        groups = {g["path"]: g["status"] for g in plan["groups"]}
        assert groups == {"back": "canceled", "back/api": "canceled"}

    run(journey())


def test_a_plan_that_is_refused_leaves_no_trace(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        before = repo.git("for-each-ref")
        async with engine(tmp_path / "data") as services:
            for text, field in (
                ("name: x\nbaseBranch: nope\njobs: [{producerId: a, task: t, work: 'true'}]", "baseBranch"),
                ("name: x\ntargetBranch: 'a..b'\njobs: [{producerId: a, task: t, work: 'true'}]", "targetBranch"),
                ("name: x\njobs: [{producerId: a, task: t, work: {type: agent, agent: nobody}}]", "jobs[0].work.agent"),
            ):
                with pytest.raises(BadInput) as refused:
                    await submit(services, repo, text)
                assert refused.value.field == field
            assert await services.queries.plans() == []
        assert repo.git("for-each-ref") == before

    run(journey())


def test_deleting_a_plan_removes_its_refs_and_worktrees_but_not_its_result(tmp_path: Path) -> None:
    broken = "name: broken\ntargetBranch: result\njobs:\n  - {producerId: a, task: t, work: 'echo x > x; exit 3'}\n"

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            good = await run_plan(services, repo, DIAMOND)
            bad = await run_plan(services, repo, broken)
            worktree = node(bad, "a")["worktreePath"]
            assert worktree is not None
            for plan in (good, bad):
                await services.plans.delete(plan["planId"])
            assert await services.queries.plans() == []
        assert "refs/pilothouse/plans" not in repo.git("for-each-ref")
        # What the failed attempt had written is saved, although nobody committed it.
        rescued = repo.git("for-each-ref", "--format=%(refname)", "refs/pilothouse/rescue").split()
        assert [repo.show(ref, "x") for ref in rescued] == ["x\n"]
        assert not Path(worktree).exists()
        assert repo.show("result", "both") == "left\nright\n"

    run(journey())


def test_a_conflict_in_a_file_whose_name_is_no_text_is_told_all_the_same(tmp_path: Path) -> None:
    name = r"$(printf 'f\377\033[31m')"
    text = (
        (
            "name: bytes\ntargetBranch: result\njobs:\n"
            + f'  - {{producerId: one, task: t, work: {{type: shell, command: "echo one > \\"{name}\\""}}}}\n'
            + f'  - {{producerId: two, task: t, work: {{type: shell, command: "echo two > \\"{name}\\""}}}}\n'
        )
        .replace("\\377", "\\\\377")
        .replace("\\033", "\\\\033")
    )

    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        async with engine(tmp_path / "data") as services:
            plan = await run_plan(services, repo, text)
        [failed] = [n for n in plan["nodes"] if n["status"] == "failed"]
        assert failed["phases"]["merge-ri"]["status"] == "failed"
        assert "f\ufffd" in failed["error"] and failed["error"].isprintable()

    run(journey())


def test_a_branch_that_is_in_the_way_of_the_one_to_be_made_is_told_before_anything_is_made(tmp_path: Path) -> None:
    async def journey() -> None:
        repo = make_repo(tmp_path / "repo")
        repo.git("branch", "pilothouse")
        async with engine(tmp_path / "data") as services:
            with pytest.raises(BadInput) as refused:
                await submit(services, repo, DIAMOND.replace("targetBranch: result\n", ""))
            assert refused.value.field == "targetBranch"
            assert await services.queries.plans() == []

    run(journey())
