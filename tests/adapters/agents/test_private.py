"""The private files of agents: where they lie, who may look, and that they go away."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pilothouse.adapters.agents.private import PrivateFiles, left_behind
from pilothouse.errors import BadInput


@pytest.fixture
def private(tmp_path: Path) -> PrivateFiles:
    return PrivateFiles(tmp_path / "data" / "agents")


def test_nobody_else_may_look(private: PrivateFiles) -> None:
    private.prepare("p1", "n1", "p1/n1/1/work")
    assert private.root.stat().st_mode & 0o777 == 0o700


def test_a_node_keeps_its_directory_over_its_attempts_and_every_run_has_its_own(private: PrivateFiles) -> None:
    node, first = private.prepare("p1", "n1", "p1/n1/1/work")
    again, second = private.prepare("p1", "n1", "p1/n1/2/work")
    assert node == again
    assert first != second
    assert not first.is_relative_to(node), "what an agent may write would lie around the runs that come after it"
    assert not private.sandbox("p1", "n1", "p1/n1/1/work").is_relative_to(node)
    (first / "report").touch()
    assert private.prepare("p1", "n1", "p1/n1/1/work") == (node, first)
    assert (first / "report").exists()


@pytest.mark.parametrize("output", ["p1/n1/../../../etc", "p1/n1/1/..", "p1/n1/..", "/", "p1/n1/\0", "p1/n1/1/a b/ü"])
def test_whatever_an_output_is_called_its_run_lies_below_its_node(private: PrivateFiles, output: str) -> None:
    node, run = private.prepare("p1", "n1", output)
    assert run.resolve().parent.parent == node.resolve().parent


@pytest.mark.parametrize("bad", ["..", ".", "", "a/b", "/etc", ".hidden", "a\0b", "x" * 201])
def test_what_is_no_id_leads_nowhere(private: PrivateFiles, bad: str) -> None:
    with pytest.raises(BadInput):
        private.node(bad, "n1")
    with pytest.raises(BadInput):
        private.node("p1", bad)
    with pytest.raises(BadInput):
        private.forget(bad)
    with pytest.raises(BadInput, match="requestId"):
        private.answer(private.prepare("p1", "n1", "o")[1], bad, allowed=True, remember=False)


def test_an_answer_is_whole_or_not_there_and_the_first_stays(private: PrivateFiles) -> None:
    _, run = private.prepare("p1", "n1", "o")
    private.answer(run, "call-1.a", allowed=False, remember=False)
    private.answer(run, "call-1.a", allowed=True, remember=True)
    (place,) = (run / "answers").iterdir()
    assert (place.name, json.loads(place.read_text())) == ("call-1.a.json", {"allowed": False, "remember": False})


def test_what_is_remembered_is_recalled_and_nothing_is_nothing(private: PrivateFiles) -> None:
    _, run = private.prepare("p1", "n1", "o")
    assert private.recall(run) == b""
    private.remember(run, b"{}")
    private.remember(run, b'{"agent":"x"}')
    assert private.recall(run) == b'{"agent":"x"}'


def test_forgetting_a_plan_leaves_the_others_and_follows_no_links(private: PrivateFiles, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    node, _ = private.prepare("p1", "n1", "o")
    (node / "link").symlink_to(outside)
    private.prepare("p2", "n1", "o")
    (private.root / "p3").symlink_to(outside)
    for plan in ("p1", "p1", "p3", "never"):
        private.forget(plan)
    assert sorted(place.name for place in private.root.iterdir()) == ["p2", "p3"]
    assert (outside / "file").exists()


def test_directories_that_an_agent_has_closed_go_too(private: PrivateFiles) -> None:
    node, _ = private.prepare("p1", "n1", "o")
    closed = node / "cache/module"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    for place in (closed, closed.parent):
        place.chmod(0o500)
    private.forget("p1")
    assert not (private.root / "p1").exists()


def test_what_an_agent_left_is_read_unless_it_is_no_small_file(tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(b"12345")
    assert left_behind(tmp_path / "report", 5) == b"12345"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name, most in (("report", 4), ("pipe", 5), ("link", 5), (".", 5), ("missing", 5)):
        with pytest.raises(OSError):
            left_behind(tmp_path / name, most)


def test_a_pipe_in_place_of_what_is_remembered_is_nothing(private: PrivateFiles) -> None:
    _, run = private.prepare("p1", "n1", "o")
    os.mkfifo(run / "launched.json")
    assert private.recall(run) == b""
