"""The setting of the tests that confine real commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.adapters.work.sandbox.setting import Setting
from tests.support.needs import need, need_sandbox


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    need("git")
    need_sandbox()
    return Setting(tmp_path)
