"""The scripted agent as the process it is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agents.effects import effect, run, scripted

from pilothouse.adapters.agents.commands import CommandFactory
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.errors import BadInput


def play(worktree: Path, replies: str, **changes: Any) -> tuple[int, str]:
    return run(CommandFactory(os.environ)(scripted(worktree, replies, **changes)))


def git(worktree: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=worktree, check=True, capture_output=True, text=True).stdout


def test_it_performs_its_replies_in_order_and_tells_of_them(worktree: Path) -> None:
    assert play(
        worktree,
        """
        - say: Looking around
        - write: { path: notes/a.md, content: "one\\n" }
        - append: { path: notes/a.md, content: "two\\n" }
        - expect: { path: notes/a.md, contains: two }
        - run: wc -l < notes/a.md | tr -d ' '
        - sleep: 1
        - write: { path: gone, content: x }
        - delete: gone
        """,
    ) == (
        0,
        "Looking around\nwrite notes/a.md (4 bytes)\nappend notes/a.md (4 bytes)\n"
        "read notes/a.md: contains 'two'\n$ wc -l < notes/a.md | tr -d ' '\n2\nsleep 1 ms\n"
        "write gone (1 bytes)\ndelete gone\n",
    )
    assert (worktree / "notes/a.md").read_text() == "one\ntwo\n"
    assert not (worktree / "gone").exists()


def test_what_stands_in_braces_is_filled_in_and_other_braces_stay(worktree: Path) -> None:
    replies = """
    - write:
        path: "{node}-{attempt}.txt"
        content: "{task}|{instructions}|{context}|{phase}|{plan}|{unknown}|{}"
    """
    assert play(worktree, replies, attempt=2, instructions="mind the {task}")[0] == 0
    assert (worktree / "api-2.txt").read_text() == (
        "Add the search endpoint|Add the search endpoint|mind the {task}|work|p1|{unknown}|{}"
    )


def test_the_instructions_of_the_plan_reach_it(worktree: Path) -> None:
    (worktree / "r.yaml").write_text("- say: '{instructions}'")
    long = "ä" * 100_000
    spec = AgentSpec(agent="scripted", script="r.yaml", instructions=long)
    assert run(CommandFactory(os.environ)(effect(worktree, spec))) == (0, f"{long}\n")


def test_a_command_of_a_script_is_never_filled_in(worktree: Path) -> None:
    assert play(worktree, "- run: echo '{task}' \"$PILOTHOUSE_NODE\"", task="'; rm -rf .")[1].endswith("{task} api\n")


def test_it_fails_when_told_to_and_stops_there(worktree: Path) -> None:
    assert play(worktree, "[{fail: 'no more {node}'}, {say: never}]") == (1, "failed: no more api\n")


def test_it_fails_when_a_command_does(worktree: Path) -> None:
    assert play(worktree, "[{run: exit 7}, {say: never}]") == (1, "$ exit 7\nfailed: the command exited with 7\n")


def test_it_fails_when_a_file_is_not_as_expected(worktree: Path) -> None:
    assert play(worktree, "- expect: {path: gone, contains: x}") == (
        1,
        f"failed: No such file or directory: {worktree}/gone\n",
    )
    (worktree / "a").write_text("one")
    assert play(worktree, "- expect: {path: a, contains: two}") == (1, "failed: a does not contain 'two'\n")


def test_it_can_fail_first_and_succeed_when_tried_again(worktree: Path) -> None:
    replies = "attempts: {1: [fail: not yet], 2: [say: now]}"
    assert play(worktree, replies) == (1, "failed: not yet\n")
    assert play(worktree, replies, attempt=2) == (0, "now\n")


def test_it_commits_everything_but_what_is_ours(worktree: Path) -> None:
    evidence = worktree / ".orchestrator/evidence/n1.json"
    evidence.parent.mkdir(parents=True)
    evidence.touch()
    status, shown = play(worktree, "[{write: {path: a, content: b}}, {commit: 'Add a for {node}\\n\\nWhy'}]")
    assert status == 0, shown
    assert git(worktree, "log", "-1", "--format=%s").strip() == "Add a for api\\n\\nWhy"
    assert git(worktree, "show", "--name-only", "--format=").split() == ["a", "replies.yaml"]


def test_it_commits_where_nobody_said_who_they_are(worktree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    status, shown = play(worktree, "[{write: {path: a, content: b}}, {commit: one}]")
    assert status == 0, shown
    assert git(worktree, "log", "-1", "--format=%an") == "Pilothouse\n"


def test_a_commit_of_nothing_fails(worktree: Path) -> None:
    status, shown = play(worktree, "[{commit: one}, {commit: two}]")
    assert status == 1
    assert "failed: git commit: " in shown


def test_a_wrong_file_ends_it_with_one_line_before_anything_is_done(worktree: Path) -> None:
    status, shown = play(worktree, "[{write: {path: a, content: b}}, {shout: x}]")
    assert status == 2
    assert shown.startswith("replies.yaml: replies[1]: unknown reply 'shout'")
    assert shown.count("\n") == 1
    assert not (worktree / "a").exists()


def test_a_file_that_is_missing_or_no_text_is_told(worktree: Path) -> None:
    make = CommandFactory(os.environ)
    work = effect(worktree, AgentSpec(agent="scripted", script="gone.yaml"))
    assert run(make(work)) == (2, "gone.yaml: cannot be read: No such file or directory (is it committed?)\n")
    (worktree / "gone.yaml").write_bytes(b"\xff")
    assert run(make(work)) == (2, "gone.yaml: is not UTF-8 text\n")


@pytest.mark.parametrize("script", ["/etc/passwd", "../replies.yaml", "a/../../b", ""])
def test_replies_outside_the_repository_are_refused_before_it_starts(worktree: Path, script: str) -> None:
    with pytest.raises(BadInput, match="script: "):
        CommandFactory(os.environ)(effect(worktree, AgentSpec(agent="scripted", script=script)))


def test_replies_behind_a_link_that_leads_outside_are_refused(worktree: Path) -> None:
    (worktree.parent / "outside.yaml").write_text("- say: secret")
    (worktree / "r.yaml").symlink_to("../outside.yaml")
    status, shown = run(CommandFactory(os.environ)(effect(worktree, AgentSpec(agent="scripted", script="r.yaml"))))
    assert (status, "leads outside the worktree by a symbolic link" in shown) == (2, True)


@pytest.mark.parametrize(
    "reply",
    [
        "write: {path: out/a, content: x}",
        "write: {path: file, content: x}",
        "append: {path: file, content: x}",
        "delete: out/file",
        "expect: {path: file, contains: o}",
        "write: {path: '{task}/a', content: x}",
        "write: {path: '{context}/config', content: x}",
    ],
)
def test_no_reply_reaches_outside_the_worktree(worktree: Path, reply: str) -> None:
    outside = worktree.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("old")
    (worktree / "out").symlink_to(outside)
    (worktree / "file").symlink_to(outside / "file")
    status, shown = play(worktree, f"- {reply}", task="../outside", instructions=".git")
    assert (status, shown[:8]) == (1, "failed: ")
    assert {entry.name: entry.read_text() for entry in outside.iterdir()} == {"file": "old"}


def test_a_link_itself_can_be_deleted(worktree: Path) -> None:
    (worktree.parent / "outside").touch()
    (worktree / "link").symlink_to("../outside")
    assert play(worktree, "- delete: link") == (0, "delete link\n")
    assert (worktree.parent / "outside").exists()


def test_no_module_of_the_worktree_is_imported(worktree: Path) -> None:
    for name in ("json", "yaml", "pilothouse"):
        (worktree / f"{name}.py").write_text("raise SystemExit(9)")
    assert play(worktree, "- say: fine", plan_env={"PYTHONPATH": str(worktree)}) == (0, "fine\n")
