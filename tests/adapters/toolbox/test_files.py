"""Tools for files see and change what is in the workspace, and nothing else, whatever they are given."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilothouse.adapters.toolbox import read_file, write_file
from pilothouse.adapters.toolbox.list_dir import ListDirTool
from pilothouse.adapters.toolbox.read_file import ReadFileTool
from pilothouse.adapters.toolbox.search_files import SearchFilesTool
from pilothouse.adapters.toolbox.workspace import Workspace
from pilothouse.adapters.toolbox.write_file import WriteFileTool
from pilothouse.core.tools.spec import ToolContext
from pilothouse.engine.chat_ports import Tool
from pilothouse.errors import BadInput

TOOLS = {tool.spec.name: tool for tool in (ListDirTool(), ReadFileTool(), WriteFileTool(), SearchFilesTool())}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("hidden = 1\n")
    (root / "src" / "app.py").write_text("import os\n\ndef main():\n    return 1\n")
    (root / "README.md").write_text("# Title\nmain\n")
    (tmp_path / "outside.txt").write_text("outside main\n")
    return root


def call(workspace: Path | str, tool: str, **arguments: Any) -> Any:
    answer = asyncio.run(TOOLS[tool].run(arguments, ToolContext(owner="local", workspace=str(workspace))))
    assert answer.ok
    return answer.result


def refused(workspace: Path | str, tool: str, **arguments: Any) -> BadInput:
    with pytest.raises(BadInput) as error:
        call(workspace, tool, **arguments)
    return error.value


@pytest.mark.parametrize("name", TOOLS)
def test_every_file_tool_needs_a_workspace_and_fits_the_seam(name: str) -> None:
    tool: Tool = TOOLS[name]
    assert tool.spec.parameters["type"] == "object"
    arguments = {"path": "x", "content": "", "pattern": "x"}
    given = {key: value for key, value in arguments.items() if key in tool.spec.parameters["properties"]}
    assert refused("", name, **given).field == "workspace"


# Escapes


@pytest.mark.parametrize("path", ["../outside.txt", "src/../../outside.txt", "/etc/passwd", "\0", "src/\0/x", "~/../x"])
@pytest.mark.parametrize("tool", ["list_dir", "read_file", "write_file", "search_files"])
def test_no_path_leads_outside(workspace: Path, tool: str, path: str) -> None:
    more = {"write_file": {"content": "x"}, "search_files": {"pattern": "x"}}.get(tool, {})
    assert "leads outside" in refused(workspace, tool, path=path, **more).message
    assert (workspace.parent / "outside.txt").read_text() == "outside main\n"


@pytest.mark.parametrize("path", [".git", ".git/config", ".GIT/config", "src/.git/hooks/pre-commit", "to-git/config"])
@pytest.mark.parametrize("tool", ["list_dir", "read_file", "write_file", "search_files"])
def test_what_belongs_to_git_is_not_touched(workspace: Path, tool: str, path: str) -> None:
    (workspace / "to-git").symlink_to(".git")
    more = {"write_file": {"content": "x"}, "search_files": {"pattern": "x"}}.get(tool, {})
    assert "belongs to git" in refused(workspace, tool, path=path, **more).message
    assert (workspace / ".git" / "config").read_text() == "hidden = 1\n"


@pytest.mark.parametrize("target", ["../outside.txt", "/etc/passwd", "src/../../outside.txt"])
@pytest.mark.parametrize("tool", ["read_file", "write_file"])
def test_a_link_that_leads_outside_is_not_followed(workspace: Path, tool: str, target: str) -> None:
    (workspace / "link").symlink_to(target)
    more = {"content": "x"} if tool == "write_file" else {}
    assert "leads outside" in refused(workspace, tool, path="link", **more).message
    (workspace / "dir").symlink_to("..")
    assert "leads outside" in refused(workspace, tool, path="dir/outside.txt", **more).message
    assert (workspace.parent / "outside.txt").read_text() == "outside main\n"


def test_links_that_stay_inside_are_followed_and_circles_are_refused(workspace: Path) -> None:
    (workspace / "src" / "up").symlink_to("..")
    (workspace / "whole").symlink_to(workspace / "src")
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    assert call(workspace, "read_file", path="src/up/README.md")["text"] == "# Title\nmain"
    assert call(workspace, "read_file", path="whole/app.py", limit=1)["text"] == "import os"
    assert [entry["path"] for entry in call(workspace, "list_dir", path="whole")["entries"]] == ["app.py", "up"]
    assert "circle" in refused(workspace, "read_file", path="a/x").message


def test_an_absolute_path_inside_the_workspace_is_understood(workspace: Path) -> None:
    assert call(workspace, "read_file", path=str(workspace / "README.md"), limit=1)["text"] == "# Title"
    for path in (str(workspace / "src"), "./src/", "src/."):
        for more in ({}, {"glob": "*.py"}):
            (match,) = call(workspace, "search_files", pattern="main", path=path, **more)["matches"]
            assert match["path"] == "src/app.py"


def test_a_directory_that_turns_into_a_link_outside_never_leads_there(workspace: Path) -> None:
    """Somebody swaps a directory for a link, over and over, while files are written into it."""
    outside = workspace.parent / "elsewhere"
    outside.mkdir()
    inside, spare = workspace / "dir", workspace / "spare"
    inside.mkdir()
    done = threading.Event()

    def swap() -> None:
        steps: list[Callable[[], object]] = [
            lambda: inside.rename(spare),
            lambda: inside.symlink_to(outside),
            inside.unlink,
            lambda: spare.rename(inside),
        ]
        while not done.is_set():
            for step in steps:
                with contextlib.suppress(OSError):  # the writer makes what is missing, and is in the way then
                    step()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for index in range(300):
            try:
                Workspace(str(workspace)).write(f"dir/{index}", b"x", None)
            except BadInput:
                continue
    finally:
        done.set()
        thread.join()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("tool", ["read_file", "write_file"])
def test_pipes_and_directories_are_no_files(workspace: Path, tool: str) -> None:
    os.mkfifo(workspace / "pipe")
    more = {"content": "x"} if tool == "write_file" else {}
    assert "regular" in refused(workspace, tool, path="pipe", **more).message
    assert refused(workspace, tool, path="src", **more).field == "path"
    assert refused(workspace, tool, path=".", **more).field == "path"


# list_dir


def test_a_listing_has_types_and_sizes_and_is_bounded(workspace: Path) -> None:
    (workspace / "link").symlink_to("README.md")
    assert call(workspace, "list_dir") == {
        "path": ".",
        "entries": [
            {"path": "README.md", "type": "file", "size": 13},
            {"path": "link", "type": "link", "to": "README.md"},
            {"path": "src", "type": "directory"},
        ],
    }
    deep = call(workspace, "list_dir", depth=2)
    assert [entry["path"] for entry in deep["entries"]][-1] == "src/app.py"
    assert "more" in call(workspace, "list_dir", depth=2, limit=2)
    assert "no directory" in refused(workspace, "list_dir", path="README.md").message


def test_names_that_are_no_utf8_are_shown(workspace: Path) -> None:
    os.symlink(b"\xff", os.fsencode(workspace) + b"/\xfe")  # noqa: PTH211 - paths of pathlib are text
    assert json.dumps(call(workspace, "list_dir"))
    assert {"path": "\ufffd", "type": "link", "to": "\ufffd"} in call(workspace, "list_dir")["entries"]


# read_file


def test_a_file_is_read_by_lines_and_says_where_to_go_on(workspace: Path) -> None:
    whole = call(workspace, "read_file", path="src/app.py")
    assert (whole["text"], whole["lastLine"], "more" in whole) == ("import os\n\ndef main():\n    return 1", 4, False)
    part = call(workspace, "read_file", path="src/app.py", offset=2, limit=2)
    assert (part["text"], part["firstLine"], part["lastLine"]) == ("\ndef main():", 2, 3)
    assert part["more"] == "go on with offset 4"
    assert refused(workspace, "read_file", path="src/app.py", offset=9).field == "offset"
    assert "there is no 'none'" in refused(workspace, "read_file", path="none").message
    (workspace / "empty").touch()
    assert call(workspace, "read_file", path="empty")["text"] == ""


def test_binary_files_are_refused_politely(workspace: Path) -> None:
    (workspace / "image").write_bytes(b"\x89PNG\0\0")
    (workspace / "latin").write_bytes("größe".encode("latin-1"))
    assert "is binary" in refused(workspace, "read_file", path="image").message
    assert "UTF-8" in refused(workspace, "read_file", path="latin").message


def test_huge_files_and_lines_stay_within_bounds(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "line").write_text("ä" * 3_000_000 + "\nlast\n")
    found = call(workspace, "read_file", path="line")
    assert found["text"].endswith("characters more)\nlast")
    assert len(found["text"]) < 3_000
    (workspace / "many").write_text("x" * 99 + "\n" + ("y" * 999 + "\n") * 1_000)
    found = call(workspace, "read_file", path="many")
    assert len(found["text"]) <= read_file.MOST_CHARS
    assert found["more"] == f"go on with offset {found['lastLine'] + 1}"
    with (workspace / "sparse").open("wb") as file:
        file.write(b"text\n" * 4_000)
        file.truncate(1 << 40)
    assert call(workspace, "read_file", path="sparse", limit=2)["text"] == "text\ntext"
    monkeypatch.setattr(read_file, "LARGEST", 1 << 20)
    assert refused(workspace, "read_file", path="sparse", offset=100_000).field in ("offset", "path")


# write_file


def test_files_are_made_with_their_directories_and_replaced(workspace: Path) -> None:
    assert call(workspace, "write_file", path="a/b/c.txt", content="one")["done"] == "created"
    (workspace / "a/b/c.txt").chmod(0o750)
    assert call(workspace, "write_file", path="a/b/c.txt", content="two")["done"] == "replaced"
    assert (workspace / "a/b/c.txt").read_text() == "two"
    assert stat.S_IMODE((workspace / "a/b/c.txt").stat().st_mode) == 0o750
    assert [path.name for path in (workspace / "a/b").iterdir()] == ["c.txt"]


def test_edits_replace_what_stands_there_once_all_or_none(workspace: Path) -> None:
    call(workspace, "write_file", path="src/app.py", edits=[{"old": "return 1", "new": "return 2"}])
    before = (workspace / "src/app.py").read_text()
    assert "return 2" in before
    wrong = refused(
        workspace,
        "write_file",
        path="src/app.py",
        edits=[{"old": "return 2", "new": "return 3"}, {"old": "absent", "new": ""}],
    )
    assert wrong.field == "edits[1].old"
    several = refused(workspace, "write_file", path="src/app.py", edits=[{"old": "\n", "new": ""}])
    assert several.message == "stands there 4 times"
    assert (workspace / "src/app.py").read_text() == before
    call(workspace, "write_file", path="src/app.py", edits=[{"old": "\n", "new": "\n\n", "every": True}])
    assert (workspace / "src/app.py").read_text() == before.replace("\n", "\n\n")


def test_edits_keep_the_line_ends_of_a_file(workspace: Path) -> None:
    (workspace / "dos.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    call(workspace, "write_file", path="dos.txt", edits=[{"old": "one\ntwo", "new": "1\n2"}])
    assert (workspace / "dos.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


def test_a_link_inside_is_written_through_and_a_changed_file_is_not_overwritten(workspace: Path) -> None:
    (workspace / "link.md").symlink_to("README.md")
    call(workspace, "write_file", path="link.md", content="new")
    assert (workspace / "link.md").is_symlink()
    assert (workspace / "README.md").read_text() == "new"
    seen = (workspace / "README.md").stat()
    (workspace / "README.md").write_text("other")
    with pytest.raises(BadInput, match="changed by somebody else"):
        Workspace(str(workspace)).write("README.md", b"mine", seen)


@pytest.mark.parametrize("arguments", [{}, {"content": "x", "edits": [{"old": "a", "new": "b"}]}])
def test_either_content_or_edits_are_given(workspace: Path, arguments: dict[str, Any]) -> None:
    assert refused(workspace, "write_file", path="x", **arguments).field == "content"


def test_what_is_too_large_is_not_written(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_file, "LARGEST", 10)
    assert refused(workspace, "write_file", path="x", content="x" * 11).field == "content"
    assert not (workspace / "x").exists()


# search_files


def test_matches_have_path_line_and_text(workspace: Path) -> None:
    assert call(workspace, "search_files", pattern=r"\bmain\b") == {
        "matches": [
            {"path": "README.md", "line": 2, "text": "main"},
            {"path": "src/app.py", "line": 3, "text": "def main():"},
        ]
    }
    assert len(call(workspace, "search_files", pattern="main", glob="*.py")["matches"]) == 1
    assert len(call(workspace, "search_files", pattern="main", path="src", glob="*.md")["matches"]) == 0
    assert len(call(workspace, "search_files", pattern="main", path="src/app.py")["matches"]) == 1
    assert len(call(workspace, "search_files", pattern="MAIN", ignoreCase=True)["matches"]) == 2
    assert len(call(workspace, "search_files", pattern="main()", literal=True)["matches"]) == 1
    assert call(workspace, "search_files", pattern="nowhere") == {"matches": []}


def test_searching_is_bounded_and_stays_inside(workspace: Path) -> None:
    (workspace / "many.txt").write_text("word\n" * 1_000)
    (workspace / "long.txt").write_text("word " * 10_000)
    (workspace / "out").symlink_to("../outside.txt")
    found = call(workspace, "search_files", pattern="word", limit=5)
    assert len(found["matches"]) == 5
    assert "more" in found
    assert len(call(workspace, "search_files", pattern="word", path="long.txt")["matches"][0]["text"]) < 400
    assert call(workspace, "search_files", pattern="outside") == {"matches": []}
    assert call(workspace, "search_files", pattern="hidden") == {"matches": []}


@pytest.mark.parametrize("glob", ["../*", "src/../../*", "/etc/*", "a\0b"])
def test_no_glob_leads_outside(workspace: Path, glob: str) -> None:
    assert refused(workspace, "search_files", pattern="x", glob=glob).field == "glob"


@pytest.mark.parametrize("pattern", ["(unclosed", "a\nb"])
def test_a_pattern_that_is_none_is_refused(workspace: Path, pattern: str) -> None:
    assert refused(workspace, "search_files", pattern=pattern).field == "pattern"


def test_a_pattern_that_takes_for_ever_is_given_up(workspace: Path) -> None:
    (workspace / "evil.txt").write_text("a" * 40 + "!\n")
    try:
        assert call(workspace, "search_files", pattern="(a+)+$") == {"matches": []}
    except BadInput as error:
        assert error.field == "pattern"
