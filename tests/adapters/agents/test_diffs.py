"""Lines that a diff adds and removes."""

from __future__ import annotations

from pilothouse.adapters.agents.diffs import Change, changes_of


def test_lines_are_counted_by_file() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n--- a/y\n+++ b/y\n@@ -0,0 +1 @@\n+only\n"

    assert changes_of(diff) == {"x": Change(1, 1), "y": Change(1, 0)}


def test_a_line_that_looks_like_a_header_is_a_line_within_a_hunk() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@\n--- a/z\n--- b\n+++ c\n last\n\\ No newline at end of file\n"

    assert changes_of(diff) == {"x": Change(1, 2)}


def test_a_file_that_is_created_or_deleted_is_called_by_its_own_name() -> None:
    assert changes_of("--- a/dev/null\n+++ b/tmp/new\n@@ -1,0 +1,2 @@\n+a\n+b\n") == {"tmp/new": Change(2, 0)}
    assert changes_of("--- /tmp/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n") == {"tmp/old": Change(0, 1)}


def test_what_is_no_diff_has_no_changes() -> None:
    assert changes_of("") == {}
    assert changes_of("+ a list\n- of things\n@@ oh @@\n") == {}
