"""Files that an agent reads and writes through us."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.adapters.agents.acp.files import MAX_FILE, Files, Refused


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = (tmp_path / "worktree").resolve()
    root.mkdir()
    return root


def test_a_file_is_written_and_read_as_it_is(root: Path) -> None:
    files = Files(str(root))

    assert files.write(str(root / "new" / "a.txt"), "één\r\ntwo") is None
    assert (root / "new" / "a.txt").read_bytes() == "één\r\ntwo".encode()
    assert files.read("new/a.txt") == "één\r\ntwo"
    assert files.write("new/a.txt", "three") == "één\r\ntwo"


def test_some_lines_of_a_file_are_read(root: Path) -> None:
    (root / "a").write_text("1\n2\n3\n4\n")
    files = Files(str(root))

    assert files.read("a", 2, 2) == "2\n3\n"
    assert files.read("a", 3) == "3\n4\n"
    assert files.read("a", None, 1) == "1\n"
    assert files.read("a", 9, 1) == ""


def test_folders_that_are_allowed_are_within_reach_and_no_others(root: Path, tmp_path: Path) -> None:
    for name in ("shared", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    files = Files(str(root), (str(tmp_path / "shared"),))

    assert files.read(str(tmp_path / "shared" / "a")) == "shared"
    for path in (str(tmp_path / "secret" / "a"), "../secret/a", "/etc/passwd"):
        with pytest.raises(Refused):
            files.read(path)
        with pytest.raises(Refused):
            files.write(path, "mine")


def test_a_link_leads_nowhere_else(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    files = Files(str(root))

    for path in ("link", "folder/secret", "folder/new"):
        with pytest.raises(Refused):
            files.write(path, "mine")
    assert (tmp_path / "secret").read_text() == "secret"


def test_what_belongs_to_git_is_not_written(root: Path) -> None:
    with pytest.raises(Refused):
        Files(str(root)).write(".git/hooks/pre-commit", "#!/bin/sh")
    with pytest.raises(Refused):
        Files(str(root)).write(".git", "gitdir: /elsewhere")


def test_a_path_that_is_none_is_refused(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    for path in ("a\0b", "loop"):
        with pytest.raises((Refused, OSError)):
            Files(str(root)).read(path)


def test_text_that_could_not_be_given_back_unchanged_is_not_handed_over(root: Path) -> None:
    (root / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match="UTF-8"):
        Files(str(root)).read("binary")
    assert Files(str(root)).write("binary", "text") == ""


def test_a_large_file_is_read_in_parts(root: Path) -> None:
    (root / "large").write_text(("x" * 1023 + "\n") * (MAX_FILE // 1024 + 1))
    files = Files(str(root))

    with pytest.raises(Refused, match="too large"):
        files.read("large")
    assert len(files.read("large", 5, 2)) == 2048
