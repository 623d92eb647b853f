"""The real OpenCode, launched and read by its driver, against a model server on the loopback interface."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.adapters.agents.live import KEY, Place, all_used, last_asked
from tests.support.models.parts import FOREVER, call, fail, hold, run_shell, say, think, usage, write_file
from tests.support.models.server import ModelServer

from pilothouse.adapters.agents.opencode.driver import OpenCode
from pilothouse.core.plan.spec import Effort
from pilothouse.core.run.agents import (
    AgentConfig,
    FileEdited,
    Permissions,
    Reasoning,
    SessionStarted,
    ToolEnded,
    ToolStatus,
    Used,
)
from pilothouse.core.run.usage import Usage

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, OpenCode(), "opencode")


def test_it_writes_a_file_and_tells_everything_once(place: Place) -> None:
    edit = {"filePath": "hello.txt", "oldString": "two\n", "newString": "2\nthree\n"}
    turns = (
        (think("It is missing."), say("I write it."), write_file("hello.txt", "one\ntwo\n"), usage(1200, 60, 200, 20)),
        (call("edit", edit), run_shell("wc -l hello.txt; exit 3"), usage(1300, 40, 1000)),
        (say("It is written."), usage(1400, 20, 1200)),
    )
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1", effort=Effort.HIGH)) as run:
        ended = run.end()
        asked = server.questions

    assert ended.ok
    assert (place.worktree / "hello.txt").read_text() == "one\n2\nthree\n"
    assert place.left() == ["?? hello.txt"]
    assert [one.model for one in run.of(SessionStarted)] == ["fake-1"]
    assert run.said == "I write it.It is written."
    assert [one.text for one in run.of(Reasoning)] == ["It is missing."]
    assert run.of(FileEdited) == [
        FileEdited(path="hello.txt", change="created", lines_added=2),
        FileEdited(path="hello.txt", change="modified", lines_added=2, lines_removed=1),
    ]
    statuses = {tool.tool: tool.status for tool in run.of(ToolEnded)}
    assert statuses == {"write": ToolStatus.SUCCEEDED, "edit": ToolStatus.SUCCEEDED, "bash": ToolStatus.FAILED}
    assert all_used(run, ended).by_model == {
        "fake-1": Usage(
            input_tokens=3900,
            output_tokens=120,
            cached_tokens=2400,
            reasoning_tokens=20,
            turns=3,
            tool_calls=3,
            lines_added=4,
            lines_removed=1,
        )
    }
    assert len(asked) == 3
    assert all(one.headers["authorization"] == f"Bearer {KEY}" for one in asked)
    assert asked[0].body["reasoning_effort"] == "high"


def test_a_prompt_of_100_000_characters_reaches_the_model_and_neither_arguments_nor_files_hold_the_key(
    place: Place,
) -> None:
    settings = place.home / ".config" / "git"
    settings.mkdir(parents=True)
    (settings / "config").write_text("[user]\n\tname = Someone\n")
    prompt = "begin " + "x y " * 25_000 + "end"
    with ModelServer((run_shell("git config user.name"), say("Done."))) as server:
        with place.run(place.work(f"{server.url}/v1", prompt=prompt)) as run:
            assert run.end().ok
        assert prompt in last_asked(server).prompts[-1]

    launch = OpenCode().launch(run.work)
    assert not any(KEY in value for value in (*launch.argv, *launch.env.values()))
    assert not place.anything_holds(KEY)
    assert run.of(ToolEnded)[0].output == "Someone\n"
    assert {str(path.relative_to(place.home)) for path in place.home.glob("*/*")} <= {".config/git", ".cache/opencode"}
    assert not list(place.private.rglob("node_modules/*")), "nothing was fetched"


def test_what_is_not_permitted_does_not_happen_and_it_goes_on_without(place: Place) -> None:
    write = call("write", {"filePath": "hello.txt", "content": "x"})
    turns = (write, call("bash", {"command": "touch hello.txt", "description": "x"}), say("I may not."))
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1", permissions=Permissions.DENY)) as run:
        assert run.end().ok

    assert {tool.status for tool in run.of(ToolEnded)} == {ToolStatus.DENIED}
    assert run.said == "I may not."
    assert place.left() == []


def test_only_allowed_folders_beside_the_worktree_are_open_to_it(place: Place) -> None:
    for name in ("open", "closed"):
        (place.root / name).mkdir()
    turns = (write_file(f"{place.root}/open/a", "a"), write_file(f"{place.root}/closed/b", "b"), say("Done."))
    folders = (str(place.root / "open"),)
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1", allowed_folders=folders)) as run:
        assert run.end().ok

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED, ToolStatus.DENIED]
    assert [path.name for path in place.root.glob("*/[ab]")] == ["a"]


def test_a_conversation_goes_on_in_another_worktree_and_its_earlier_usage_is_not_told_again(place: Place) -> None:
    subtask = call("task", {"description": "d", "prompt": "Look around", "subagent_type": "general"})
    turns = (
        (subtask, usage(1000, 10)),
        (say("One."), usage(1100, 11)),
        (write_file("two.txt", "2\n"), usage(2000, 20)),
        (say("Two."), usage(1, 1)),
    )
    with ModelServer(turns) as server:
        with place.run(place.work(f"{server.url}/v1")) as first:
            ended = first.end()
        assert ended.ok
        session = first.of(SessionStarted)[0].session_id
        # The agent below plays the same turns from its second on, as the first calls a tool that it lacks.
        assert all_used(first, ended).total.tokens > 2121
        before = place.worktree
        place.worktree = before.parent / "elsewhere"
        git = ("git", "-C", str(before), "worktree", "add", "-q", str(place.worktree))
        subprocess.run(git, check=True, env=place.env)
        with place.run(place.work(f"{server.url}/v1", "two", session_id=session, prompt="Go on")) as second:
            ended = second.end()
        asked = last_asked(server)

    assert ended.ok
    assert place.left() == ["?? two.txt"]
    assert not (before / "two.txt").exists()
    assert any("Write hello.txt, please" in prompt for prompt in asked.prompts)
    assert [one.session_id for one in second.of(SessionStarted)] == [session]
    told = all_used(second, ended)
    assert (told.total.input_tokens, told.total.output_tokens, told.total.turns) == (2001, 21, 2)


def test_a_conversation_that_is_gone_is_begun_anew_with_the_whole_task(place: Place) -> None:
    with ModelServer((say("Done."),)) as server:
        gone = "ses_e01837ea1ffetM66EEgNX7g21m"
        with place.run(place.work(f"{server.url}/v1", session_id=gone, prompt="Go on")) as run:
            assert run.end().ok
        asked = last_asked(server)

    assert "Write hello.txt" in asked.prompts[-1]
    assert gone not in [one.session_id for one in run.of(SessionStarted)]


def test_after_a_signal_it_has_not_succeeded_and_its_conversation_can_go_on(place: Place) -> None:
    turns = ((write_file("hello.txt", "x\n"), usage(1000, 10)), (say("Half a sentence"), hold("never")))
    with ModelServer(turns) as server:
        with place.run(place.work(f"{server.url}/v1")) as run:
            run.wait(ToolEnded)
            run.wait(Used, lambda used: used.usage.input_tokens > 0)
            server.wait_for(lambda requests: server.holding == 1, 90)
            os.killpg(run.process.pid, signal.SIGTERM)
            ended = run.end()
        session = run.of(SessionStarted)[0].session_id
        with ModelServer((turns[0], say("Done."), say("Done."))) as after:
            with place.run(place.work(f"{after.url}/v1", "two", session_id=session, prompt="Go on")) as second:
                again = second.end()
            asked = last_asked(after)

    assert not ended.ok
    assert not ended.transient
    assert all_used(run, ended).total.input_tokens == 1000
    assert again.ok
    assert any("Write hello.txt, please" in prompt for prompt in asked.prompts)


def test_a_rate_limit_that_passes_is_no_failure(place: Place) -> None:
    turns = (fail(429, "slow down", retry_after=1), say("Done."))
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1")) as run:
        assert run.end().ok


def test_a_wrong_request_is_a_failure_that_lasts(place: Place) -> None:
    turns = (fail(400, "no such parameter", times=FOREVER),)
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1")) as run:
        ended = run.end()

    assert (ended.ok, ended.transient, ended.error) == (False, False, "no such parameter")


@pytest.mark.parametrize("wire", ["responses", "anthropic", "gemini"])
def test_its_other_wires_are_counted_alike(place: Place, wire: str) -> None:
    turns = ((write_file("hello.txt", "x\n"), usage(1000, 100, 400)), (say("Done."), usage(2000, 200, 500)))
    with ModelServer(turns) as server:
        url = f"{server.url}/v1" if wire == "responses" else server.url
        config = AgentConfig(base_url=url, api=wire, api_key_env="OWN_KEY", model="fake-1")
        with place.run(place.work(url, config=config)) as run:
            ended = run.end()
        assert {one.wire for one in server.questions} == {wire}

    told = all_used(run, ended)
    assert ended.ok
    assert (told.total.input_tokens, told.total.cached_tokens, told.total.output_tokens) == (3000, 900, 300)
