"""The parsers, on bytes as git prints them."""

from __future__ import annotations

import pytest

from pilothouse.adapters.git import parse
from pilothouse.core.plan.integration import FileChange


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("git version 2.39.5", (2, 39, 5)),
        ("git version 2.39.5 (Apple Git-154)", (2, 39, 5)),
        ("git version 2.45.0.windows.1", (2, 45, 0)),
        ("git version 3.0", (3, 0, 0)),
    ],
)
def test_versions_of_vendors_are_read(text: str, numbers: tuple[int, int, int]) -> None:
    assert parse.version(text) == numbers


def test_worktrees_with_odd_paths_and_states() -> None:
    a, zero = b"a" * 40, b"0" * 40
    output = (
        b"worktree /r\0HEAD " + a + b"\0branch refs/heads/main\0\0"
        b"worktree /w\nx\0HEAD " + a + b"\0detached\0prunable gitdir file points to non-existent location\0\0"
        b"worktree /u\0HEAD " + zero + b"\0branch refs/heads/a/b\0locked why\0\0"
        b"worktree /b\0bare\0\0"
    )
    head = a.decode()
    assert parse.worktrees(output) == [
        parse.Worktree("/r", head, "main"),
        parse.Worktree("/w\nx", head, prunable=True),
        parse.Worktree("/u", None, "a/b"),
        parse.Worktree("/b", bare=True),
    ]


def test_a_clean_merge_has_a_tree_only() -> None:
    assert parse.merge_tree(b"a" * 40 + b"\0", clean=True) == parse.MergeOutcome("a" * 40)


def test_conflicts_keep_names_whole_and_tell_why() -> None:
    output = b"\0".join(
        [b"a" * 40, b"x\ny", b"z", b"", b"1", b"z", b"Auto-merging", b"Auto-merging z\n",
         b"2", b"x\ny", b"z", b"CONFLICT (contents)", b"CONFLICT (content): Merge conflict in z\n", b""]
    )  # fmt: skip
    assert parse.merge_tree(output, clean=False) == parse.MergeOutcome(
        "a" * 40, False, ("x\ny", "z"), "CONFLICT (content): Merge conflict in z"
    )


def test_summary_reads_renames_binaries_and_names_with_tabs() -> None:
    blob = b"0" * 7
    raw = b"".join(
        b":100644 100644 " + blob + b" " + blob + b" " + entry + b"\0"
        for entry in (b"M\0a\tb", b"R090\0old\0new", b"A\0:colon", b"D\0gone", b"T\0link")
    )
    numbers = b"1\t2\ta\tb\0" + b"3\t4\t\0old\0new\0" + b"-\t-\t:colon\0" + b"0\t5\tgone\0" + b"1\t1\tlink\0"
    found = parse.summary(7, raw + numbers)
    assert found.changes == (
        FileChange(path="a\tb", status="M", added=1, removed=2),
        FileChange(path="new", status="R", added=3, removed=4),
        FileChange(path=":colon", status="A"),
        FileChange(path="gone", status="D", removed=5),
        FileChange(path="link", status="T", added=1, removed=1),
    )
    assert (found.commits, found.files_added, found.files_modified, found.files_deleted) == (7, 1, 3, 1)
