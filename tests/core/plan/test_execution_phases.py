"""One node on its way: which phases it is in, which it skips and why, what each answer means."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.plan.execution import BAD, BASE, Execution, task, with_every_phase

from pilothouse.core.plan.effects import (
    AddWorktree,
    CommitWork,
    MergeForward,
    MergeIntoTarget,
    MergeRefused,
    PhaseEffect,
    RunWork,
    TargetReady,
)
from pilothouse.core.plan.events import (
    AttemptEnded,
    AttemptStarted,
    LogAppended,
    PhaseEnded,
    PhaseSkipped,
    PhaseStarted,
)
from pilothouse.core.plan.flow import NO_EVIDENCE
from pilothouse.core.plan.integration import Committed, Conflict, Merged, NoEvidence
from pilothouse.core.plan.phases import ORDER, Phase, PhaseStatus
from pilothouse.core.plan.spec import ShellSpec
from pilothouse.core.plan.states import NodeStatus
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.contract import Failed
from pilothouse.core.run.inputs import Outcome, Progress


def skipped(run: Execution, name: str) -> dict[Phase, str]:
    return {e.phase: e.reason for e in run.all(PhaseSkipped) if e.node_id == run.node(name).node.id}


# Order and skipping


def test_the_phases_of_a_node_run_one_after_the_other_in_their_order() -> None:
    run = with_every_phase()
    for phase in ORDER:
        assert run.performing == {"end": phase}
        run.do("end")
    assert run.status("end") is NodeStatus.SUCCEEDED
    started = [event.phase for event in run.all(PhaseStarted) if event.node_id == run.node("end").node.id]
    assert started == list(ORDER)
    assert skipped(run, "end") == {}


def test_what_became_of_every_phase_of_an_attempt_is_kept() -> None:
    run = Execution(task("a"))
    run.until("a", Phase.COMMIT)
    assert {phase: state.status for phase, state in run.node("a").attempt.phases.items()} == {
        Phase.MERGE_FI: PhaseStatus.SKIPPED,
        Phase.SETUP: PhaseStatus.SUCCEEDED,
        Phase.PRECHECKS: PhaseStatus.SKIPPED,
        Phase.WORK: PhaseStatus.SUCCEEDED,
        Phase.COMMIT: PhaseStatus.RUNNING,
    }
    work = run.node("a").attempt.phases[Phase.WORK]
    assert (work.exit_code, work.tries) == (0, 1)
    assert work.started_at is not None and work.ended_at is not None and work.started_at < work.ended_at


def test_a_phase_without_anything_to_do_is_skipped_with_the_reason() -> None:
    run = Execution(task("root"), task("leaf", "root"))
    run.finish("root", "leaf")
    assert skipped(run, "root") == {
        Phase.MERGE_FI: "nothing to merge",
        Phase.PRECHECKS: "nothing to run",
        Phase.POSTCHECKS: "nothing to run",
        Phase.MERGE_RI: "only leaves are merged",
    }
    assert skipped(run, "leaf") == {
        Phase.MERGE_FI: "nothing to merge",
        Phase.PRECHECKS: "nothing to run",
        Phase.POSTCHECKS: "nothing to run",
    }


def test_a_leaf_that_changed_nothing_is_not_merged() -> None:
    run = Execution(task("a", expects_no_changes=True))
    run.until("a", Phase.COMMIT)
    run.do("a", Committed(commit=BASE, changed=False))
    assert run.status("a") is NodeStatus.SUCCEEDED
    assert skipped(run, "a")[Phase.MERGE_RI] == "nothing changed"
    assert run.node("a").attempt.phases[Phase.COMMIT].note == "no changes"
    assert run.node("a").completed_commit == BASE


def test_a_node_that_only_joins_has_no_worktree_and_goes_on_from_one_parent_without_any_effect() -> None:
    run = Execution(task("a"), task("join", "a", work=None), task("end", "join"))
    run.until("a", Phase.COMMIT)
    run.do("a")
    assert run.moves("join") == [NodeStatus.READY, NodeStatus.SCHEDULED, NodeStatus.RUNNING, NodeStatus.SUCCEEDED]
    assert skipped(run, "join")[Phase.SETUP] == skipped(run, "join")[Phase.COMMIT] == "only joins its dependencies"
    assert run.node("join").completed_commit == "a-commit-1"
    assert run.performing == {"end": Phase.SETUP}
    assert ("join", 1, "remove") not in run.owed


def test_a_node_that_only_joins_merges_several_parents_and_keeps_the_result_under_a_ref_of_its_own() -> None:
    run = Execution(task("a"), task("b"), task("join", "a", "b", work=None), task("end", "join"))
    run.finish("a", "b")
    merge = run.effect("join")
    assert isinstance(merge, MergeForward)
    assert (merge.commits, merge.names) == (("a-commit-1", "b-commit-1"), ("a", "b"))
    assert merge.pin == f"refs/pilothouse/plans/run-1/{merge.node_id}/1"
    run.do("join")
    assert run.node("join").completed_commit == "join-base"
    setup = run.effect("end")
    assert isinstance(setup, AddWorktree)
    assert setup.commit == "join-base"


def test_a_leaf_that_only_joins_is_merged_into_the_target() -> None:
    run = Execution(task("a"), task("b"), task("join", "a", "b", work=None))
    run.finish("a", "b", "join")
    run.clean_up()
    assert run.lifecycle == "SUCCEEDED"
    assert run.state.merged == [("join", "join-base")]


def test_a_node_is_scheduled_until_its_worktree_stands_and_running_from_its_first_command() -> None:
    run = with_every_phase()
    for expected in (NodeStatus.SCHEDULED, NodeStatus.SCHEDULED, NodeStatus.RUNNING):
        assert run.status("end") is expected
        run.do("end")


def test_a_node_whose_worktree_cannot_be_made_fails_from_scheduled() -> None:
    run = Execution(task("a"))
    run.do("a", Failed(error="no space left"))
    assert run.moves("a") == [NodeStatus.SCHEDULED, NodeStatus.FAILED]
    assert run.node("a").error == "no space left"


# Where a node starts from


def test_a_root_starts_at_the_base_or_at_the_base_branch_of_its_own() -> None:
    run = Execution(task("a"), task("b"), bases={"b": "other"})
    assert [event.base_commit for event in run.all(AttemptStarted)] == [BASE, "other"]


def test_a_node_starts_at_the_commit_of_its_one_dependency_and_merges_several_that_differ() -> None:
    run = Execution(task("a"), task("b"), task("one", "a"), task("two", "a", "b"))
    run.finish("a", "b")
    assert run.performing == {"one": Phase.SETUP, "two": Phase.MERGE_FI}
    run.do("two")
    setup = run.effect("two")
    assert isinstance(setup, AddWorktree)
    assert setup.commit == "two-base"


def test_dependencies_with_one_and_the_same_result_need_no_merge() -> None:
    run = Execution(task("a"), task("x", "a", work=None), task("y", "a", work=None), task("end", "x", "y"))
    run.finish("a")
    assert run.performing == {"end": Phase.SETUP}


# What effects carry


def test_a_command_is_given_the_environment_of_its_plan_and_of_its_job_on_top() -> None:
    run = Execution(task("a", env={"A": "job", "B": "job"}), env={"A": "plan", "C": "plan"}, inherit_env=("MY_TOKEN",))
    run.until("a", Phase.WORK)
    work = run.effect("a")
    assert isinstance(work, RunWork)
    assert work.plan_env == {"A": "job", "B": "job", "C": "plan"}
    assert work.inherit_env == ("MY_TOKEN",)
    assert work.path == "/trees/run-1/a/1"
    assert (work.key, work.output) == (f"{work.node_id}/1/work", f"run-1/{work.node_id}/1/work")
    assert not work.adopted


def test_every_command_phase_runs_its_own_spec() -> None:
    job = msgspec.structs.replace(
        task("a"), prechecks=ShellSpec(command="before"), postchecks=ShellSpec(command="after")
    )
    run = Execution(job)
    seen = {}
    for phase in (Phase.PRECHECKS, Phase.WORK, Phase.POSTCHECKS):
        run.until("a", phase)
        effect = run.effect("a")
        assert isinstance(effect, RunWork)
        seen[phase] = effect.spec
    assert [spec.command for spec in seen.values() if isinstance(spec, ShellSpec)] == ["before", "work", "after"]


def test_a_commit_says_the_task_and_is_judged_against_the_base() -> None:
    run = Execution(task("a", text="  Add search\nwith a box\n"), bases={"a": "other"})
    run.until("a", Phase.COMMIT)
    commit = run.effect("a")
    assert isinstance(commit, CommitWork)
    assert commit.message == "[Plan] Add search\n\nwith a box"
    assert commit.baseline == "other"
    assert not commit.expects_no_changes
    assert commit.pin == f"refs/pilothouse/plans/run-1/{commit.node_id}/1"


def test_a_node_that_only_checks_need_not_change_anything() -> None:
    run = Execution(task("a", work=None, checks=True))
    run.until("a", Phase.COMMIT)
    commit = run.effect("a")
    assert isinstance(commit, CommitWork)
    assert commit.expects_no_changes


def test_a_merge_into_the_target_knows_what_went_in_before_it() -> None:
    run = Execution(task("a"), task("b"), update_checkout=True)
    run.finish("a")
    run.until("b", Phase.MERGE_RI)
    merge = run.effect("b")
    assert isinstance(merge, MergeIntoTarget)
    assert (merge.branch, merge.base, merge.source) == ("result", BASE, "b-commit-1")
    assert merge.merged == (("a", "a-commit-1"),)
    assert merge.pin.endswith("/merged/b-commit-1/result")  # of what, into what
    assert merge.update_checkout
    assert (
        merge.message.startswith("Plan Test it!: merge b (commit b-commit")
        and "Pilothouse-Plan: run-1" in merge.message
    )


def test_a_node_whose_name_is_no_path_has_its_id_in_the_path_of_its_worktree() -> None:
    run = Execution(task("front end/web"))
    setup = run.effect("front end/web")
    assert isinstance(setup, AddWorktree)
    assert setup.path == f"/trees/run-1/{setup.node_id}/1"


# What answers mean


@pytest.mark.parametrize(
    ("phase", "result", "error"),
    [
        (Phase.MERGE_FI, Conflict(files=("x.py", "y.py")), "Conflict in x.py, y.py"),
        (Phase.MERGE_FI, MergeRefused(error="a and b both changed x.py"), "a and b both changed x.py"),
        (Phase.SETUP, Failed(error="git says no"), "git says no"),
        (Phase.PRECHECKS, BAD, "Prechecks failed: Exit code 7"),
        (Phase.WORK, BAD, "Exit code 7"),
        (Phase.WORK, Exit(reason=ExitReason.EXITED, signal=9), "Killed by signal 9"),
        (Phase.WORK, Exit(reason=ExitReason.TIMEOUT), "Timed out"),
        (Phase.WORK, Exit(reason=ExitReason.TIMEOUT, error="Timed out after 5 s"), "Timed out after 5 s"),
        (Phase.WORK, Exit(reason=ExitReason.NOT_STARTED), "Could not be started"),
        (Phase.WORK, Exit(reason=ExitReason.NOT_STARTED, error="no such file: x"), "no such file: x"),
        (Phase.COMMIT, NoEvidence(), NO_EVIDENCE),
        (Phase.POSTCHECKS, Exit(reason=ExitReason.TIMEOUT), "Postchecks failed: Timed out"),
        (Phase.MERGE_RI, Conflict(files=("x.py",)), "Conflict in x.py"),
    ],
)
def test_a_phase_that_fails_fails_its_node_with_the_reason(phase: Phase, result: msgspec.Struct, error: str) -> None:
    run = with_every_phase()
    run.until("end", phase)
    run.do("end", result)
    assert run.status("end") is NodeStatus.FAILED
    assert run.node("end").error == error
    attempt = run.node("end").attempt
    assert (attempt.status, attempt.failed_phase, attempt.error) == (PhaseStatus.FAILED, phase, error)
    assert attempt.phases[phase].status is PhaseStatus.FAILED
    assert run.owed == [("a", 1, "remove"), ("b", 1, "remove")], "the worktree of what failed stays as it is"


def test_work_is_not_started_when_prechecks_fail() -> None:
    run = Execution(task("a", checks=True))
    run.until("a", Phase.PRECHECKS)
    run.do("a", BAD)
    assert run.performing == {}
    assert Phase.WORK not in run.node("a").attempt.phases


def test_a_commit_that_its_postchecks_reject_is_kept_and_not_merged() -> None:
    run = Execution(task("a", checks=True))
    run.until("a", Phase.POSTCHECKS)
    run.do("a", BAD)
    assert run.status("a") is NodeStatus.FAILED
    assert run.node("a").attempt.completed_commit == "a-commit-1"
    assert run.node("a").completed_commit is None
    assert run.state.merged == []


@pytest.mark.parametrize(
    ("result", "note"),
    [
        (Committed(commit="c"), ""),
        (Committed(commit="c", evidence="looked at it"), "looked at it"),
        (Committed(commit="c", changed=False), "no changes"),
        (Committed(commit="c", changed=False, evidence="all fine already"), "all fine already"),
    ],
)
def test_evidence_for_work_is_noted_at_its_commit(result: Committed, note: str) -> None:
    run = Execution(task("a"))
    run.until("a", Phase.COMMIT)
    run.do("a", result)
    assert run.node("a").attempt.phases[Phase.COMMIT].note == note
    assert run.performing == {"a": Phase.MERGE_RI}


def test_a_finished_commit_is_the_nodes_and_the_targets_head_is_followed() -> None:
    run = Execution(task("a"))
    run.until("a", Phase.MERGE_RI)
    assert run.node("a").completed_commit is None, "not before it has succeeded"
    run.do("a", Merged(commit="head", moved=False))
    assert run.node("a").completed_commit == "a-commit-1"
    assert run.node("a").attempt.target_commit == "head"
    assert run.node("a").attempt.phases[Phase.MERGE_RI].note == "nothing new to merge"
    assert run.state.target is not None and run.state.target.commit == "head"


def test_the_worktree_of_a_success_is_removed_unless_it_is_to_be_kept() -> None:
    run = Execution(task("a"))
    run.finish("a")
    assert run.owed == [("a", 1, "remove")]
    assert run.lifecycle == "RUNNING", "not over while something is owed"
    run.clean_up()
    assert run.owed == [] and not run.node("a").attempt.worktree_exists
    assert run.lifecycle == "SUCCEEDED"

    kept = Execution(task("a"), clean_up_successful_work=False)
    kept.finish("a")
    assert kept.owed == [] and kept.node("a").attempt.worktree_exists
    assert kept.lifecycle == "SUCCEEDED"


def test_a_worktree_that_cannot_be_removed_is_told_and_fails_nobody() -> None:
    run = Execution(task("a"))
    run.finish("a")
    run.clean_up(Failed(error="it is a mount point"))
    assert run.lifecycle == "SUCCEEDED"
    assert run.node("a").attempt.worktree_exists


def test_an_answer_that_comes_twice_is_heard_once() -> None:
    run = Execution(task("a"))
    key = run.effect("a").key
    run.do("a")
    assert run.give(Outcome(key=key, result=Failed(error="late"))) == []
    assert run.performing == {"a": Phase.WORK}


def test_an_answer_that_makes_no_sense_is_a_bug() -> None:
    run = Execution(task("a"))
    with pytest.raises(TypeError, match="TargetReady"):
        run.do("a", TargetReady(branch="x", commit="y"))


def test_how_far_the_output_of_a_phase_has_grown_is_kept_and_changes_nothing_else() -> None:
    run = Execution(task("a"))
    run.until("a", Phase.WORK)
    effect = run.effect("a")
    spot: dict[str, Any] = {"node_id": effect.node_id, "attempt": 1}
    grown = [
        LogAppended(**spot, phase=Phase.WORK, start=0, end=40),
        LogAppended(**spot, phase=Phase.WORK, start=0, end=10),
        LogAppended(**spot, phase=Phase.POSTCHECKS, start=0, end=10),
    ]
    assert run.give(Progress(key=effect.key, events=tuple(grown))) == grown
    assert run.node("a").attempt.phases[Phase.WORK].output_to == 40
    assert run.effect("a") == effect


def test_every_attempt_ends_exactly_once_and_its_phases_too() -> None:
    run = with_every_phase()
    run.finish("end")
    assert [(e.node_id, e.attempt) for e in run.all(AttemptStarted)] == [
        (e.node_id, e.attempt) for e in run.all(AttemptEnded)
    ]
    assert sorted((e.node_id, e.phase) for e in run.all(PhaseStarted)) == sorted(
        (e.node_id, e.phase) for e in run.all(PhaseEnded)
    )
    assert not any(isinstance(effect, PhaseEffect) for effect in run.state.open.values())
