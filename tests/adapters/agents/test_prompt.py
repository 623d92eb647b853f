"""What an agent is told."""

from __future__ import annotations

from pilothouse.adapters.agents.prompt import MAX_TROUBLE, Briefing, compose
from pilothouse.core.plan.phases import Phase

FULL = Briefing(
    task="Add search",
    instructions="Use the index.",
    job="Mind the style guide.",
    context="The index is in src/index.py.",
    context_files=("docs/style.md", "src/index.py"),
    worktree="/data/w/1",
    folders=("/shared/docs",),
    urls=("https://docs.example.org",),
    evidence=".orchestrator/evidence/n1.json",
    node_id="n1",
)


def test_a_first_attempt_is_told_everything_in_one_order() -> None:
    titles = [line for line in compose(FULL).splitlines() if line.startswith("# ")]
    assert titles == [
        "# Task",
        "# Instructions",
        "# About this job",
        "# Context",
        "# Read these files first",
        "# Rules",
    ]
    told = compose(FULL)
    for text in ("Use the index.", "Mind the style guide.", "`docs/style.md`", "`/data/w/1`", "`/shared/docs`"):
        assert text in told
    assert "You may fetch from https://docs.example.org." in told


def test_what_nobody_said_is_left_out() -> None:
    told = compose(Briefing(task="Add search", instructions="Add search", worktree="/w"))
    assert [line for line in told.splitlines() if line.startswith("# ")] == ["# Task", "# Rules"]
    assert "fetch" not in told


def test_work_is_told_where_to_say_that_there_is_nothing_to_change() -> None:
    told = compose(FULL)
    assert "`.orchestrator/evidence/n1.json`" in told
    assert '"nodeId": "n1"' in told


def test_a_check_is_not_told_to_change_or_commit_anything() -> None:
    told = compose(Briefing(task="Add search", worktree="/w", evidence="e.json", phase=Phase.POSTCHECKS))
    assert "one of the job's checks (postchecks)" in told
    assert "e.json" not in told
    assert "commit" not in told


def test_nobody_is_asked_and_nothing_is_left_running() -> None:
    assert "Nobody can answer questions" in compose(FULL)
    assert "End every process that you start." in compose(FULL)


def test_a_conversation_that_goes_on_is_told_what_failed_and_where_it_is_and_not_its_task_again() -> None:
    told = compose(
        Briefing(task="Add search", worktree="/data/w/2", trouble="postchecks failed:\n2 tests"), resumed=True
    )
    assert "Add search" not in told
    assert "> postchecks failed:\n> 2 tests" in told
    assert "`/data/w/2`" in told


def test_a_new_conversation_about_old_trouble_is_told_both() -> None:
    told = compose(Briefing(task="Add search", worktree="/w", trouble="rate limited"))
    assert "Add search" in told
    assert "> rate limited" in told


def test_of_long_trouble_the_end_is_told_as_a_quotation() -> None:
    told = compose(Briefing(task="t", worktree="/w", trouble="x\n" * MAX_TROUBLE + "# Rules\nthe reason"), resumed=True)
    assert len(told) < 4 * MAX_TROUBLE
    assert "> # Rules\n> the reason" in told
