"""What every test stands on: a home, a git identity and an environment of its own.

Nothing here starts a service. A test that needs one asks for it through ``tests/support/needs.py``, which skips
with the way to get it; under ``CI=true`` a skip is a failure, so that nothing is ever silently left out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

GIT_CONFIG = """\
[user]
    name = Pilothouse Tests
    email = tests@pilothouse.invalid
[init]
    defaultBranch = main
[commit]
    gpgSign = false
[core]
    fsync = none
[protocol]
    allow = never
[protocol "file"]
    allow = always
[gc]
    auto = 0
[maintenance]
    auto = false
"""

IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

hypothesis.settings.register_profile(
    "pilothouse",
    deadline=None,
    derandomize=IN_CI,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)

home_key = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Move into a world of our own before any test module is imported."""
    home = Path(tempfile.mkdtemp(prefix="pilothouse-tests-"))
    config.stash[home_key] = home
    for name in list(os.environ):
        if name.startswith(("PILOTHOUSE_", "COPILOT_", "GIT_", "XDG_")):
            del os.environ[name]
    (home / "gitconfig").write_text(GIT_CONFIG, encoding="utf-8")
    os.environ.update(
        HOME=str(home),
        XDG_CONFIG_HOME=str(home / "config"),
        XDG_DATA_HOME=str(home / "data"),
        XDG_STATE_HOME=str(home / "state"),
        XDG_CACHE_HOME=str(home / "cache"),
        PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring",
        GIT_CONFIG_GLOBAL=str(home / "gitconfig"),
        GIT_CONFIG_NOSYSTEM="1",
        GIT_TERMINAL_PROMPT="0",
    )
    hypothesis.settings.load_profile("pilothouse")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[home_key], ignore_errors=True)


def skip_reasons(reporter: pytest.TerminalReporter) -> Counter[str]:
    """Why tests were skipped, each reason once, with how many tests it kept from running."""
    reports = reporter.stats.get("skipped", [])
    return Counter(
        report.longrepr[2].removeprefix("Skipped: ") for report in reports if isinstance(report.longrepr, tuple)
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter: pytest.TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    if IN_CI and reporter and session.exitstatus == pytest.ExitCode.OK and skip_reasons(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason, count in sorted(skip_reasons(terminalreporter).items()):
        terminalreporter.write_line(f"skipped {count} test{'s' if count > 1 else ''}: {reason}", yellow=True)
    if IN_CI and skip_reasons(terminalreporter):
        terminalreporter.write_line("a skipped test is a failure under CI=true", red=True)
