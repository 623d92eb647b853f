"""What must be readable so that a program runs, and what of a home directory never is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.adapters.work.sandbox.programs import installations


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "home"


def file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def below(home: Path, program: str, *path: Path) -> set[str]:
    """What is readable below the home."""
    found = installations(program, ":".join(map(str, path)), [home])
    return {str(path.relative_to(home)) for path in found if path.is_relative_to(home)}


def test_a_program_brings_the_libraries_beside_its_bin_and_nothing_people_keep(home: Path) -> None:
    for name in ("bin/node", "lib/x", "include/x", "share/secret", "etc/secret"):
        file(home / ".nvm" / "v22" / name)
    assert below(home, "node", home / ".nvm" / "v22" / "bin") == {
        ".nvm/v22/bin", ".nvm/v22/bin/node", ".nvm/v22/lib", ".nvm/v22/include",
    }  # fmt: skip


def test_a_bin_directly_in_the_home_shows_itself_only(home: Path) -> None:
    file(home / "bin" / "tool")
    file(home / "lib" / "secret")
    assert below(home, "tool", home / "bin") == {"bin", "bin/tool"}


def test_the_home_itself_on_the_path_is_not_shown(home: Path) -> None:
    file(home / "tool")
    assert below(home, "true", home, home.parent) == set()
    assert below(home, "tool", home) == {"tool"}


def test_links_in_a_bin_are_followed_to_what_they_need(home: Path) -> None:
    file(home / ".local" / "share" / "claude" / "versions" / "1.0")
    file(home / ".local" / "share" / "keyrings" / "secret")
    file(home / ".local" / "share" / "tools" / "ruff" / "lib" / "x")
    python = file(home / ".local" / "share" / "tools" / "ruff" / "bin" / "python")
    ruff = file(python.with_name("ruff"), f"#!{python}\n")
    programs = home / ".local" / "bin"
    programs.mkdir()
    (programs / "claude").symlink_to("../share/claude/versions/1.0")
    (programs / "ruff").symlink_to(ruff)
    shown = below(home, "true", programs)
    share = ".local/share"
    assert {f"{share}/claude/versions", f"{share}/tools/ruff/bin", f"{share}/tools/ruff/lib"} <= shown
    assert not [path for path in shown if path in (".local", share) or "keyrings" in path]


def test_a_package_comes_with_all_node_modules_around_it(home: Path) -> None:
    cli = file(home / "project" / "node_modules" / "a" / "node_modules" / "b" / "cli.js", "#!/usr/bin/env -S node -x\n")
    file(home / "project" / "secret")
    node = file(home / "node" / "bin" / "node")
    programs = home / "project" / "node_modules" / ".bin"
    programs.mkdir()
    (programs / "b").symlink_to(cli)
    assert {"project/node_modules", "node/bin"} <= below(home, "b", programs, node.parent)
    assert "project" not in below(home, "b", programs, node.parent)


def test_a_script_shows_itself_and_not_what_lies_beside_it(home: Path) -> None:
    script = file(home / "project" / "tool.sh", "#!/bin/sh\n")
    assert below(home, str(script)) == {"project/tool.sh"}


def test_interpreters_in_a_circle_end(home: Path) -> None:
    one, two = home / "a" / "one", home / "a" / "two"
    file(one, f"#!{two}\n")
    file(two, f"#!{one}\n")
    assert below(home, str(one)) == {"a/one", "a/two"}


def test_a_program_that_is_missing_or_lies_in_the_worktree_shows_nothing(home: Path) -> None:
    assert below(home, "no-such-program") == set()
    assert below(home, "./tool") == set()
