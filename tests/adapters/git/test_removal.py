"""Removing what careless programs have left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.adapters.git.removal import remove_tree

_NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory of a user who is not root: nothing is closed to root."""
    made = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(made, _NOBODY, -1)
        os.seteuid(_NOBODY)
    try:
        yield made
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(made, ignore_errors=True)


def test_closed_directories_are_opened_and_removed(folder: Path) -> None:
    deep = folder / "tree/closed/deep"
    deep.mkdir(parents=True)
    (deep / "file").touch()
    for closed in (deep, deep.parent, deep.parent.parent):
        closed.chmod(0)
    remove_tree(folder / "tree")
    assert not os.path.lexists(folder / "tree")


def test_what_a_link_in_a_closed_directory_leads_to_keeps_its_permissions(folder: Path) -> None:
    outside = folder / "outside"
    outside.mkdir()
    inner = folder / "tree/inner"
    inner.mkdir(parents=True)
    (folder / "tree/link").symlink_to(outside)
    (inner / "file").touch()
    inner.chmod(0o500)
    outside.chmod(0o700)
    before = outside.stat().st_mode
    remove_tree(folder / "tree")
    assert outside.stat().st_mode == before
    assert not os.path.lexists(folder / "tree")
