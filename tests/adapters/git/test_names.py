"""The rule for branch names, held against git itself."""

from __future__ import annotations

import subprocess

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.adapters.git.worlds import ENVIRONMENT

from pilothouse.adapters.git.names import LONGEST_BRANCH, branch_problem

ODD = ["-", "_", ".", "..", "/", "@", "{", "~", "^", ":", "?", "*", "[", "\\", " ", "\t", "\x7f", "\u00fc"]
PIECES = st.sampled_from(["a", "B", ".lock", "HEAD", "refs", "heads", *ODD])


@settings(max_examples=150)
@example("@")
@example("a/HEAD")
@example("refs/heads/a")
@given(st.lists(PIECES, min_size=1, max_size=6).map("".join))
def test_what_the_rule_allows_git_allows_and_the_other_way_round(name: str) -> None:
    asked = subprocess.run(
        ["git", "check-ref-format", "--branch", name], capture_output=True, env=ENVIRONMENT, check=False, cwd="/"
    )
    # Stricter than git in two things: what reads as a full ref, or as HEAD, only confuses.
    allowed = asked.returncode == 0 and not name.startswith("refs/") and name != "@"
    assert (branch_problem(name) is None) == allowed


def test_a_name_no_file_system_would_hold_is_refused() -> None:
    assert branch_problem("x" * LONGEST_BRANCH) is None
    assert branch_problem("x" * (LONGEST_BRANCH + 1)) is not None
