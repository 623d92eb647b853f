"""The real Gemini CLI, launched and read by its driver, against a model server on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.adapters.agents.live import KEY, Place, all_used, last_asked
from tests.support import stdio_tools
from tests.support.models.parts import FOREVER, Part, call, fail, hold, run_shell, say, think, usage, use_tool
from tests.support.models.server import ModelServer

from pilothouse.adapters.agents.gemini.driver import Gemini
from pilothouse.core.run.agents import (
    AgentConfig,
    FileEdited,
    Permissions,
    SessionStarted,
    ToolEnded,
    ToolServer,
    ToolStatus,
)
from pilothouse.core.run.usage import Usage

pytestmark = pytest.mark.timeout(300)


def write(path: str, content: str = "x\n") -> Part:
    return call("write_file", {"file_path": path, "content": content})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, Gemini(), "gemini")


def test_it_writes_a_file_and_tells_everything_once(place: Place) -> None:
    turns = (
        (think("It is missing."), say("I write it."), write("hello.txt", "one\ntwo\n"), usage(1200, 60, 200, 20)),
        (run_shell("wc -l hello.txt"), usage(1300, 40, 1000)),
        (say("It is written."), usage(1400, 20, 1200)),
    )
    with ModelServer(turns) as server, place.run(place.work(server.url)) as run:
        ended = run.end()
        asked = server.questions

    assert ended.ok
    assert (place.worktree / "hello.txt").read_text() == "one\ntwo\n"
    assert place.left() == ["?? hello.txt"]
    assert run.of(SessionStarted) == [SessionStarted(session_id=run.work.new_session_id, model="fake-1")]
    assert run.said == "I write it.It is written."
    assert run.of(FileEdited) == [FileEdited(path="hello.txt")]
    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED] * 2
    assert all_used(run, ended).by_model == {
        "fake-1": Usage(
            input_tokens=3900, output_tokens=120, cached_tokens=2400, reasoning_tokens=20, turns=3, tool_calls=2
        )
    }
    assert all(one.headers["x-goog-api-key"] == KEY for one in asked)


def test_neither_its_arguments_nor_its_files_hold_the_key_and_the_users_directory_stays_as_it_is(place: Place) -> None:
    with ModelServer((run_shell("true"), say("Done."))) as server, place.run(place.work(server.url)) as run:
        assert run.end().ok

    assert not any(KEY in argument for argument in Gemini().launch(run.work).argv)
    assert not place.anything_holds(KEY)
    assert list(place.home.iterdir()) == []


def test_a_prompt_of_100_000_characters_reaches_the_model(place: Place) -> None:
    prompt = "begin " + "x y " * 25_000 + "end"
    with ModelServer((say("Read."),)) as server:
        with place.run(place.work(server.url, prompt=prompt)) as run:
            assert run.end().ok
        assert prompt in last_asked(server).prompts[-1]


def test_what_is_not_permitted_does_not_happen(place: Place) -> None:
    turns = (write("hello.txt"), call("run_shell_command", {"command": "touch hello.txt"}), say("I may not."))
    with ModelServer(turns) as server, place.run(place.work(server.url, permissions=Permissions.DENY)) as run:
        assert run.end().exit.code == 0

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.DENIED] * 2
    assert place.left() == []


def test_only_allowed_folders_beside_the_worktree_are_open_to_it(place: Place) -> None:
    for name in ("open", "closed"):
        (place.root / name).mkdir()
    turns = (write(f"{place.root}/open/a"), write(f"{place.root}/closed/b"), say("Done."))
    folders = (str(place.root / "open"),)
    with ModelServer(turns) as server, place.run(place.work(server.url, allowed_folders=folders)) as run:
        assert run.end().ok

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED, ToolStatus.DENIED]
    assert [path.name for path in place.root.glob("*/[ab]")] == ["a"]


def test_a_conversation_goes_on_in_other_worktrees_each_answer_of_a_tool_sent_once(place: Place) -> None:
    turns = (
        (write("one.txt"), usage(1000, 10)),
        (say("One."), usage(1100, 11)),
        (write("two.txt"), usage(2000, 20)),
        (say("Two."), usage(2100, 21)),
        (write("three.txt"), usage(3000, 30)),
        (say("Three."), usage(3100, 31)),
    )
    with ModelServer(turns) as server:
        with place.run(place.work(server.url)) as first:
            assert first.end().ok
        session = first.of(SessionStarted)[0].session_id
        for name, tokens in (("two", 4141), ("three", 6161)):
            place.worktree = place.new_worktree()
            with place.run(place.work(server.url, name, session_id=session, prompt=f"Go on, {name}")) as run:
                ended = run.end()
            assert ended.ok
            assert place.left() == [f"?? {name}.txt"]
            session = run.of(SessionStarted)[0].session_id
            assert all_used(run, ended).total.tokens == tokens
        asked = server.questions[-1]

    assert asked.asked is not None
    assert any("Write hello.txt, please" in prompt for prompt in asked.asked.prompts)
    answers = [part for content in asked.body["contents"] for part in content["parts"] if "functionResponse" in part]
    assert len(answers) == 3


def test_a_conversation_that_is_gone_is_begun_anew_with_the_whole_task(place: Place) -> None:
    with ModelServer((say("Done."),)) as server:
        gone = "33333333-2222-4333-8444-555555555555"
        with place.run(place.work(server.url, session_id=gone, prompt="Go on")) as run:
            assert run.end().ok
        asked = last_asked(server)

    assert "Write hello.txt" in asked.prompts[-1]
    assert [one.session_id for one in run.of(SessionStarted)] == [run.work.new_session_id]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_signal_it_has_not_succeeded_its_tokens_count_and_its_conversation_can_go_on(
    place: Place, sent: signal.Signals
) -> None:
    turns = ((write("hello.txt"), usage(1000, 10)), (say("Half a sentence"), hold("never")))
    with ModelServer(turns) as server:
        with place.run(place.work(server.url)) as run:
            run.wait(ToolEnded)
            server.wait_for(lambda requests: server.holding == 1, 90)
            os.killpg(run.process.pid, sent)
            ended = run.end()
        session = run.of(SessionStarted)[0].session_id
        with ModelServer((turns[0], say("Done."), say("Done."))) as after:
            with place.run(place.work(after.url, "two", session_id=session, prompt="Go on")) as second:
                assert second.end().ok
            asked = last_asked(after)

    assert not ended.ok
    assert not ended.transient
    assert all_used(run, ended).total.input_tokens == 1000
    assert any("Write hello.txt, please" in prompt for prompt in asked.prompts)


def test_launched_again_under_the_same_id_it_goes_on(place: Place) -> None:
    """As when it was killed before anybody had heard of the conversation."""
    with ModelServer((say("One."), say("Two."))) as server:
        with place.run(place.work(server.url)) as first:
            assert first.end().ok
        again = place.work(server.url, "two", new_session_id=first.work.new_session_id)
        with place.run(again) as second:
            assert second.end().ok
        assert last_asked(server).turns == 1


def test_a_server_that_fails_is_a_failure_that_passes_and_tried_a_few_times(place: Place) -> None:
    with ModelServer((fail(500, "Out of order", times=FOREVER),)) as server:
        with place.run(place.work(server.url)) as run:
            ended = run.end()
        asked = len(server.questions)

    assert (ended.ok, ended.transient, ended.error) == (False, True, "Out of order")
    assert asked < 6


def test_a_wrong_request_is_a_failure_that_lasts(place: Place) -> None:
    turns = (fail(400, "no such parameter", times=FOREVER),)
    with ModelServer(turns) as server, place.run(place.work(server.url)) as run:
        ended = run.end()

    assert (ended.ok, ended.transient, ended.error) == (False, False, "no such parameter")


def test_with_a_login_of_the_users_its_settings_go_over_ours(place: Place) -> None:
    launch = Gemini().launch(place.work("", config=AgentConfig()))

    file = Path(launch.env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"])
    assert json.loads(file.read_text())["privacy"] == {"usageStatisticsEnabled": False}
    assert "GEMINI_CLI_HOME" not in launch.env


def test_a_user_who_is_logged_in_keeps_login_and_servers_beside_the_one_it_is_given(place: Place) -> None:
    def server(name: str) -> tuple[str, ...]:
        return sys.executable, stdio_tools.__file__, str(place.root / f"asked-of-{name}")

    turns = (use_tool("echo", {"text": "a"}), use_tool("echo", {"text": "b"}, server="users"), say("Done."))
    with ModelServer(turns) as models:
        theirs = place.home / ".gemini"
        theirs.mkdir()
        (theirs / ".env").write_text(f"GEMINI_API_KEY={KEY}\nGOOGLE_GEMINI_BASE_URL={models.url}\n")
        servers = {name: {"command": server(name)[0], "args": server(name)[1:]} for name in ("users", "pilothouse")}
        login = {"auth": {"selectedType": "gemini-api-key"}}
        (theirs / "settings.json").write_text(json.dumps({"security": login, "mcpServers": servers}))
        given = ToolServer(name="pilothouse", command=server("ours"))
        work = place.work("", config=AgentConfig(model="gemini-2.5-flash"), tools=given)
        with place.run(work) as run:
            ended = run.end()

    assert ended.ok, ended.error
    assert run.said == "Done."
    assert [tool.tool for tool in run.of(ToolEnded)] == ["mcp_users_echo"]
    assert {path.name for path in place.root.glob("asked-of-*")} == {"asked-of-ours", "asked-of-users"}
