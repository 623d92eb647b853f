"""The real Codex, launched and read by its driver, against a model server on the loopback interface."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.adapters.agents.live import KEY, Place, all_used, last_asked
from tests.support.models.parts import FOREVER, fail, hold, run_shell, say, think, usage, write_file
from tests.support.models.server import ModelServer, refusing

from pilothouse.adapters.agents.codex.driver import Codex
from pilothouse.core.plan.spec import Effort
from pilothouse.core.run.agents import (
    FileEdited,
    Noted,
    Permissions,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolStatus,
)
from pilothouse.core.run.usage import Usage

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, Codex(), "codex")


def test_it_writes_a_file_and_tells_what_it_did_and_used(place: Place) -> None:
    turns = (
        (think("It is missing."), say("I write it."), write_file("hello.txt", "one\ntwo\n"), usage(1200, 60, 200, 20)),
        (run_shell("wc -l hello.txt; exit 3"), usage(1300, 40, 1000)),
        (say("It is written."), usage(1400, 20, 1200)),
    )
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1", effort=Effort.XHIGH)) as run:
        ended = run.end()
        asked = server.requests

    assert ended.ok
    assert (place.worktree / "hello.txt").read_text() == "one\ntwo\n"
    assert place.left() == ["?? hello.txt"]
    assert [one.model for one in run.of(SessionStarted)] == ["fake-1"]
    assert run.said == "I write it.It is written."
    assert [one.text for one in run.of(Reasoning)] == ["It is missing."]
    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED, ToolStatus.FAILED]
    assert run.of(ToolEnded)[1].output == "2 hello.txt\n"
    total = all_used(run, ended)
    assert total.by_model == {
        "fake-1": Usage(
            input_tokens=3900, output_tokens=120, cached_tokens=2400, reasoning_tokens=20, turns=3, tool_calls=2
        )
    }
    assert all(one.headers["authorization"] == f"Bearer {KEY}" for one in asked if one.asked)
    assert asked[0].body["reasoning"]["effort"] == "xhigh"


def test_its_own_editor_tells_which_files_it_changed(place: Place) -> None:
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** {0} File: b.txt\n{1}*** End Patch\nEOF"
    turns = (
        run_shell(patch.format("Add", "+one\n")),
        run_shell(patch.format("Update", "@@\n-one\n+two\n")),
        run_shell(patch.format("Delete", "")),
        say("Done."),
    )
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1")) as run:
        assert run.end().ok

    assert run.of(FileEdited) == [FileEdited(path="b.txt", change=kind) for kind in ("created", "modified", "deleted")]
    assert {tool.tool for tool in run.of(ToolEnded)} == {"apply_patch"}


def test_the_key_is_in_no_argument_in_no_file_and_in_no_command_of_it(place: Place) -> None:
    with ModelServer((run_shell("env"), say("Done."))) as server, place.run(place.work(f"{server.url}/v1")) as run:
        assert run.end().ok

    assert not any(KEY in argument for argument in Codex().launch(run.work).argv)
    assert not place.anything_holds(KEY)
    assert KEY not in run.of(ToolEnded)[0].output
    assert list(place.home.iterdir()) == []


def test_a_prompt_of_100_000_characters_reaches_the_model(place: Place) -> None:
    prompt = "begin " + "x y " * 25_000 + "end"
    with ModelServer((say("Read."),)) as server:
        with place.run(place.work(f"{server.url}/v1", prompt=prompt)) as run:
            assert run.end().ok
        assert server.requests[0].asked is not None
        assert prompt in server.requests[0].asked.prompts[-1]


def test_what_is_not_permitted_does_not_happen(place: Place) -> None:
    turns = (write_file("hello.txt", "x"), run_shell("sleep 0.3; echo x > hello.txt"), say("It is written."))
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1", permissions=Permissions.DENY)) as run:
        assert run.end().exit.code == 0

    assert {tool.status for tool in run.of(ToolEnded)} <= {ToolStatus.DENIED}
    assert place.left() == []


def test_a_conversation_goes_on_in_another_worktree_and_its_earlier_usage_is_not_told_again(place: Place) -> None:
    turns = ((say("One."), usage(1000, 10)), (write_file("two.txt", "2\n"), usage(2000, 20)), (say("2."), usage(1, 1)))
    with ModelServer(turns) as server:
        with place.run(place.work(f"{server.url}/v1")) as first:
            assert first.end().ok
        session = first.of(SessionStarted)[0].session_id
        place.worktree = place.new_worktree()
        with place.run(place.work(f"{server.url}/v1", "two", session_id=session, prompt="Go on")) as second:
            ended = second.end()
        asked = last_asked(server)

    assert ended.ok
    assert place.left() == ["?? two.txt"]
    assert any("Write hello.txt, please" in prompt for prompt in asked.prompts)
    assert [one.session_id for one in second.of(SessionStarted)] == [session]
    told = all_used(second, ended)
    assert (told.total.input_tokens, told.total.output_tokens, told.total.turns) == (2001, 21, 2)


def test_a_conversation_that_is_gone_is_begun_anew_with_the_whole_task(place: Place) -> None:
    with ModelServer((say("Done."),)) as server:
        gone = "33333333-2222-4333-8444-555555555555"
        with place.run(place.work(f"{server.url}/v1", session_id=gone, prompt="Go on")) as run:
            assert run.end().ok
        asked = last_asked(server)

    assert "Write hello.txt" in asked.prompts[-1]
    assert gone not in [one.session_id for one in run.of(SessionStarted)]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_signal_it_has_not_succeeded_its_tokens_count_and_its_conversation_can_go_on(
    place: Place, sent: signal.Signals
) -> None:
    turns = (
        (write_file("hello.txt", "x\n"), usage(1000, 10)),
        (say("I look."), run_shell("sleep 0.3"), usage(1100, 11)),
        (say("Half a sentence"), hold("never")),
    )
    with ModelServer(turns) as server:
        with place.run(place.work(f"{server.url}/v1")) as run:
            server.wait_for(lambda requests: server.holding == 1, 90)
            os.killpg(run.process.pid, sent)
            ended = run.end()
        session = run.of(SessionStarted)[0].session_id
        with ModelServer((*turns[:2], say("Done."))) as after:
            with place.run(place.work(f"{after.url}/v1", "two", session_id=session, prompt="Go on")) as second:
                again = second.end()
            asked = last_asked(after)

    assert not ended.ok
    assert not ended.transient
    assert all_used(run, ended).total.input_tokens == 2100
    assert again.ok
    assert all_used(second, again).total.turns == 1
    assert any("Write hello.txt, please" in prompt for prompt in asked.prompts)


def test_a_rate_limit_that_passes_is_only_noted(place: Place) -> None:
    turns = (fail(429, "slow down", retry_after=1), say("Done."))
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1")) as run:
        assert run.end().ok

    assert any("429" in note.text and note.level == "warning" for note in run.of(Noted))


def test_a_wrong_request_is_a_failure_that_lasts(place: Place) -> None:
    turns = (fail(400, "no such parameter", times=FOREVER),)
    with ModelServer(turns) as server, place.run(place.work(f"{server.url}/v1")) as run:
        ended = run.end()

    assert (ended.ok, ended.transient, ended.error) == (False, False, "no such parameter")


def test_a_server_that_refuses_is_a_failure_that_passes(place: Place) -> None:
    with refusing() as url, place.run(place.work(f"{url}/v1")) as run:
        ended = run.end()

    assert not ended.ok
    assert ended.transient
    assert "connection failed" in ended.error.lower()


def test_nothing_is_left_of_a_run_in_its_worktree_but_its_work(place: Place) -> None:
    with ModelServer((say("Nothing to do."),)) as server, place.run(place.work(f"{server.url}/v1")) as run:
        assert run.end().ok

    assert place.left() == []
    assert run.of(Text)
