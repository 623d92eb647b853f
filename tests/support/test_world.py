"""The world that ``tests/conftest.py`` makes: nothing of the user's is in it, and no skip goes unnoticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.needs import HOW_TO_GET, need

ROOT = Path(__file__).parents[2]


def test_the_home_of_the_tests_is_not_the_users() -> None:
    home = Path.home()
    assert home.name.startswith("pilothouse-tests-")
    assert Path(os.environ["XDG_DATA_HOME"]).is_relative_to(home)
    assert not [name for name in os.environ if name.startswith("PILOTHOUSE_")]


def test_git_commits_as_nobody_real_and_reaches_no_network(tmp_path: Path) -> None:
    need("git")

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)

    git("init")
    git("commit", "--allow-empty", "-m", "first")
    assert git("log", "--format=%ae", "main").stdout == "tests@pilothouse.invalid\n"
    assert "not allowed" in git("ls-remote", "https://127.0.0.1:1/x").stderr


@pytest.mark.parametrize(("ci", "status", "workers"), [("", 0, []), ("true", 1, []), ("true", 1, ["-n", "1"])])
def test_a_skip_is_told_once_with_its_cure_and_fails_in_ci(
    ci: str, status: int, workers: list[str], tmp_path: Path
) -> None:
    (tmp_path / "test_x.py").write_text(
        "import pytest\nfrom tests.support import needs\n"
        "needs.HOW_TO_GET['no-such-program'] = 'apt-get install it'\n"
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_a(n):\n    needs.need('no-such-program')\n"
        "def test_b(): ...\n",
        encoding="utf-8",
    )
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", os.devnull, *workers, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == status, result.stdout
    assert result.stdout.count("skipped 2 tests: needs no-such-program (apt-get install it)") == 1


def test_every_need_says_how_it_is_met() -> None:
    assert all(HOW_TO_GET.values())
