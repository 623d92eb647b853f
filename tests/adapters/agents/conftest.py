"""A worktree of its own for every test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    """A repository with one commit stands in for a worktree: commands see no difference."""
    root = (tmp_path / "worktree").resolve()
    root.mkdir()
    for args in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "base"]):
        subprocess.run(["git", *args], cwd=root, check=True)
    return root
