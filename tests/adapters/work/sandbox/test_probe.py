"""Whether a machine can confine, and what is said where it cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.adapters.work.sandbox.setting import Setting
from tests.support.needs import need, need_sandbox

from pilothouse.adapters.work.sandbox import landlock, probe
from pilothouse.errors import Unavailable


def test_a_machine_that_can_says_so_and_leaves_nothing() -> None:
    need_sandbox()
    before = set(Path("/tmp").glob("pilothouse-sandbox-*"))
    name, ok, detail = probe.capabilities()[0]
    assert (name, ok, bool(detail)) == ("sandbox", True, True)
    assert set(Path("/tmp").glob("pilothouse-sandbox-*")) == before


def test_a_kernel_without_scopes_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    need_sandbox()
    monkeypatch.setattr(probe, "abi", lambda: landlock.SCOPES_SINCE - 1)
    assert [ok for _, ok, _ in probe.capabilities()] == [True, False]
    monkeypatch.setattr(probe, "abi", lambda: 0)
    assert "no Landlock" in probe.capabilities()[1][2]


def test_where_there_are_no_namespaces_the_switch_is_named() -> None:
    need_sandbox()
    need("unshare")
    asked = "from pilothouse.adapters.work.sandbox.probe import why_not; print(why_not())"
    script = f'echo 0 >/proc/sys/user/max_user_namespaces && exec {sys.executable} -c "{asked}"'
    said = subprocess.run(["unshare", "-Ur", "sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert "make namespaces" in said
    assert "user.max_user_namespaces" in said


def test_where_it_cannot_be_done_a_command_is_refused_and_later_asked_again(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe.ensure_possible.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(probe, "why_not", lambda: "not today")
        with pytest.raises(Unavailable, match="not today"):
            setting.wrap(("true",))
    assert setting.wrap(("true",)).argv[-1] == "true"


def test_other_systems_are_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "Linux" in probe.why_not()
