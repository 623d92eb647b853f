"""The real Copilot CLI, launched and read by its driver, against a model server on the loopback interface."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.adapters.agents.live import KEY, Place, all_used, last_asked, used
from tests.support.models.parts import fail, hold, run_shell, say, think, usage, write_file
from tests.support.models.server import ModelServer

from pilothouse.adapters.agents.copilot.driver import Copilot
from pilothouse.core.plan.spec import Effort
from pilothouse.core.run.agents import (
    AgentConfig,
    FileEdited,
    Noted,
    Permissions,
    SessionStarted,
    Text,
    ToolEnded,
    ToolStatus,
    Used,
)

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, Copilot(), "copilot")


def test_it_writes_a_file_and_tells_everything_once(place: Place) -> None:
    turns = (
        (think("It is missing."), say("I write it."), write_file("hello.txt", "one\ntwo\n"), usage(1200, 60, 200, 20)),
        (run_shell("wc -l hello.txt"), usage(1300, 40, 1000)),
        (say("It is written."), usage(1400, 20, 1200)),
    )
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1", effort=Effort.HIGH)) as run:
        ended = run.end()
        asked = server.requests

    assert ended.ok
    assert (place.worktree / "hello.txt").read_text() == "one\ntwo\n"
    assert place.left() == ["?? hello.txt"]
    assert run.of(SessionStarted) == [SessionStarted(session_id=run.work.new_session_id, model="fake-1")]
    assert run.said == "I write it.It is written."
    assert run.of(FileEdited) == [FileEdited(path="hello.txt", change="created", lines_added=2)]
    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED] * 2
    tally = all_used(run, ended)
    total = tally.by_model["fake-1"]
    assert (total.input_tokens, total.output_tokens, total.cached_tokens, total.reasoning_tokens) == (
        3900,
        120,
        2400,
        20,
    )
    assert (total.turns, total.tool_calls, total.lines_added) == (3, 2, 2)
    assert tally.total.tokens == total.tokens
    assert all(one.headers["authorization"] == f"Bearer {KEY}" for one in asked if one.asked)
    assert asked[0].body["reasoning_effort"] == "high"


def test_neither_its_arguments_nor_its_files_hold_the_key(place: Place) -> None:
    with ModelServer((run_shell("env"), say("Done."))) as server, place.run(place.work(f"{server.url}/v1")) as run:
        assert run.end().ok

    assert not any(KEY in argument for argument in Copilot().launch(run.work).argv)
    assert not place.anything_holds(KEY)
    assert not (place.home / ".copilot").exists()


def test_a_prompt_of_100_000_characters_reaches_the_model(place: Place) -> None:
    prompt = "begin " + "x y " * 25_000 + "end"
    with ModelServer((say("Read."),)) as server:
        with place.run(place.work(f"{server.url}/v1", prompt=prompt)) as run:
            assert run.end().ok
        assert prompt in last_asked(server).prompts[-1]


def test_what_is_not_permitted_is_told_as_denied_although_it_exits_with_0(place: Place) -> None:
    turns = (write_file("hello.txt", "x"), say("It is written."))
    with (
        ModelServer(turns) as server,
        place.run(place.work(f"{server.url}/v1", permissions=Permissions.DENY)) as run,
    ):
        assert run.end().exit.code == 0

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.DENIED]
    assert place.left() == []


def test_only_allowed_folders_beside_the_worktree_are_open_to_it(place: Place) -> None:
    for name in ("open", "closed"):
        (place.root / name).mkdir()
    turns = (write_file(f"{place.root}/open/a", "a"), write_file(f"{place.root}/closed/b", "b"), say("Done."))
    with ModelServer(turns) as server:
        # Its system's temporary directory is open to it by its own choice, and is not where this one is.
        place.env["TMPDIR"] = str(place.home)
        with place.run(place.work(f"{server.url}/v1", allowed_folders=(str(place.root / "open"),))) as run:
            assert run.end().ok

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED, ToolStatus.DENIED]
    assert [path.name for path in place.root.glob("*/[ab]")] == ["a"]


def test_a_conversation_goes_on_in_another_worktree_and_its_earlier_usage_is_not_told_again(place: Place) -> None:
    turns = ((say("One."), usage(1000, 10)), (say("Two."), usage(2000, 20)))
    with ModelServer(turns) as server:
        with place.run(place.work(f"{server.url}/v1")) as first:
            assert first.end().ok
        place.worktree = place.new_worktree()
        again = place.work(f"{server.url}/v1", "two", session_id=first.work.new_session_id, prompt="Go on")
        with place.run(again) as second:
            ended = second.end()
        asked = last_asked(server)

    assert ended.ok
    assert asked.turns == 1
    assert any("Write hello.txt, please" in prompt for prompt in asked.prompts)
    assert [one.session_id for one in second.of(SessionStarted)] == [first.work.new_session_id]
    told = all_used(second, ended).total
    assert (told.input_tokens, told.output_tokens) == (2000, 20)


def test_a_conversation_that_is_gone_is_begun_anew_with_the_whole_task(place: Place) -> None:
    with ModelServer((say("Done."),)) as server:
        work = place.work(f"{server.url}/v1", session_id="33333333-2222-4333-8444-555555555555", prompt="Go on")
        with place.run(work) as run:
            assert run.end().ok
        asked = last_asked(server)

    assert "Write hello.txt" in asked.prompts[-1]
    assert [one.session_id for one in run.of(SessionStarted)] == [work.new_session_id]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_signal_it_has_not_succeeded_its_tokens_count_and_its_conversation_can_go_on(
    place: Place, sent: signal.Signals
) -> None:
    turns = (
        (write_file("hello.txt", "x\n"), usage(1000, 10)),
        (run_shell("sleep 2.5"), usage(1100, 11)),
        (say("Half a sentence"), hold("never")),
    )
    with ModelServer(turns) as server:
        with place.run(place.work(f"{server.url}/v1")) as run:
            run.wait(Text)
            os.killpg(run.process.pid, sent)
            ended = run.end()
        with ModelServer((*turns[:2], say("Done."))) as after:
            again = place.work(f"{after.url}/v1", "two", session_id=run.work.new_session_id, prompt="Go on")
            with place.run(again) as second:
                assert second.end().ok
            asked = last_asked(after)

    assert not ended.ok
    assert not ended.transient
    assert used(run.of(Used)).total.input_tokens == 2100  # what it used before it slept had settled
    assert all_used(run, ended).total.input_tokens == 2100
    assert any("Write hello.txt, please" in prompt for prompt in asked.prompts)


def test_a_rate_limit_that_passes_is_only_noted(place: Place) -> None:
    turns = (fail(429, "slow down", retry_after=1), say("Done."))
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1")) as run:
        assert run.end().ok

    assert any("429" in note.text and note.level == "warning" for note in run.of(Noted))


@pytest.mark.parametrize("wire", ["responses", "anthropic"])
def test_its_other_wires_are_counted_alike(place: Place, wire: str) -> None:
    turns = ((write_file("hello.txt", "x\n"), usage(1000, 100, 400)), (say("Done."), usage(2000, 200, 500)))
    with ModelServer(turns) as server:
        url = server.url if wire == "anthropic" else f"{server.url}/v1"
        config = AgentConfig(base_url=url, api=wire, api_key_env="OWN_KEY", model="fake-1")
        with place.run(place.work(url, config=config)) as run:
            ended = run.end()
        assert {one.wire for one in server.requests if one.asked} == {wire}

    told = all_used(run, ended).total
    assert ended.ok
    assert (told.input_tokens, told.cached_tokens, told.output_tokens) == (3000, 900, 300)


def test_nothing_is_used_twice_or_lost_when_the_same_lines_are_read_again(place: Place) -> None:
    turns = (
        (run_shell("sleep 2.5"), usage(1000, 10)),
        (run_shell("true"), usage(1100, 11)),
        (say("Done."), usage(1200, 12)),
    )
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1")) as run:
        ended = run.end()
    heard, reader = list(place.heard), Copilot().reader(run.work)
    again = [item for line in heard for item in reader.line(line)]

    assert again == run.news
    assert reader.end(ended.exit, "").news == ended.news
    assert used(run.of(Used)).total.input_tokens == 1000
    assert all_used(run, ended).total.input_tokens == 3300
