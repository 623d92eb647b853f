"""The real Claude Code, launched and read by its driver, against a model server on the loopback interface."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.adapters.agents.live import KEY, Place, all_used, last_asked, used
from tests.support.models.asked import Asked
from tests.support.models.parts import Turn, call, fail, hold, run_shell, say, think, usage, write_file
from tests.support.models.server import ModelServer, refusing

from pilothouse.adapters.agents.claude.driver import Claude
from pilothouse.core.plan.spec import Effort
from pilothouse.core.run.agents import (
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
    return Place(tmp_path, Claude(), "claude")


def test_it_writes_a_file_and_tells_everything_once(place: Place) -> None:
    turns = (
        (think("It is missing."), say("I write it."), write_file("hello.txt", "one\ntwo\n"), usage(1200, 60, 200)),
        (run_shell("wc -l hello.txt"), usage(1300, 40, 1000)),
        (say("It is written."), usage(1400, 20, 1200)),
    )
    with ModelServer(turns) as server, place.run(place.work(server.url, effort=Effort.LOW)) as run:
        ended = run.end()
        asked = server.questions

    assert ended.ok
    assert (place.worktree / "hello.txt").read_text() == "one\ntwo\n"
    assert place.left() == ["?? hello.txt"]
    assert run.of(SessionStarted) == [SessionStarted(session_id=run.work.new_session_id, model="fake-1")]
    assert run.said == "I write it.It is written."
    assert run.of(FileEdited) == [FileEdited(path="hello.txt", change="created", lines_added=2)]
    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED] * 2
    tally = all_used(run, ended)
    total = tally.by_model["fake-1"]
    assert (total.input_tokens, total.output_tokens, total.cached_tokens) == (3900, 120, 2400)
    assert (total.turns, total.tool_calls, total.lines_added) == (3, 2, 2)
    assert tally.total.tokens == total.tokens
    assert used(run.of(Used)).total.cost == 0
    assert all(one.headers["x-api-key"] == KEY for one in asked)
    assert asked[0].body["output_config"]["effort"] == "low"


def test_neither_its_arguments_nor_its_files_hold_the_key(place: Place) -> None:
    with ModelServer((run_shell("true"), say("Done."))) as server, place.run(place.work(server.url)) as run:
        assert run.end().ok

    assert not any(KEY in argument for argument in Claude().launch(run.work).argv)
    assert not place.anything_holds(KEY)
    assert not (place.home / ".claude").exists()
    assert not (place.home / ".claude.json").exists()


def test_a_prompt_of_100_000_characters_reaches_the_model(place: Place) -> None:
    prompt = "begin " + "x y " * 25_000 + "end"
    with ModelServer((say("Read."),)) as server, place.run(place.work(server.url, prompt=prompt)) as run:
        assert run.end().ok
        assert prompt in last_asked(server).text


def test_what_is_not_permitted_is_told_as_denied_although_it_exits_with_0(place: Place) -> None:
    turns = (write_file("hello.txt", "x"), run_shell("touch a; touch b"), say("It is written."))
    with ModelServer(turns) as server, place.run(place.work(server.url, permissions=Permissions.DENY)) as run:
        assert run.end().exit.code == 0

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.DENIED] * 2
    assert place.left() == []


def test_a_repository_can_permit_itself_nothing(place: Place) -> None:
    (place.worktree / ".claude").mkdir()
    (place.worktree / ".claude" / "settings.json").write_text(
        '{"permissions": {"allow": ["Write"]}, "hooks": {"SessionStart": [{"hooks": [{"type": "command", '
        f'"command": "touch {place.root}/hooked"}}]}}]}}}}'
    )
    turns = (write_file("hello.txt", "x"), say("It is written."))
    with ModelServer(turns) as server, place.run(place.work(server.url, permissions=Permissions.DENY)) as run:
        assert run.end().ok

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.DENIED]
    assert not (place.root / "hooked").exists()


def test_only_allowed_folders_and_addresses_beside_the_worktree_are_open_to_it(place: Place) -> None:
    for name in ("open", "closed"):
        (place.root / name).mkdir()
    with ModelServer(()) as site:
        turns = (
            write_file(f"{place.root}/open/a", "a"),
            write_file(f"{place.root}/closed/b", "b"),
            call("WebFetch", {"url": "http://example.org/", "prompt": "what is there?"}),
            say("Done."),
        )
        with ModelServer(turns) as server:
            work = place.work(server.url, allowed_folders=(str(place.root / "open"),), allowed_urls=(site.url,))
            with place.run(work) as run:
                assert run.end().ok

    assert [tool.status for tool in run.of(ToolEnded)] == [ToolStatus.SUCCEEDED, ToolStatus.DENIED, ToolStatus.DENIED]
    assert [path.name for path in place.root.glob("*/[ab]")] == ["a"]
    assert "WebFetch(domain:127.0.0.1)" in " ".join(Claude().launch(work).argv)


def test_a_conversation_goes_on_in_another_worktree_and_its_earlier_usage_is_not_told_again(place: Place) -> None:
    turns = (
        (say("One."), usage(1000, 10)),
        (write_file("hello.txt", "x\n"), usage(2000, 20)),
        (say("Two."), usage(0, 0)),
    )
    with ModelServer(turns) as server:
        with place.run(place.work(server.url)) as first:
            assert first.end().ok
        place.worktree = place.new_worktree()
        again = place.work(server.url, "two", session_id=first.work.new_session_id, prompt="Go on")
        with place.run(again) as second:
            ended = second.end()
        asked = last_asked(server)

    assert ended.ok
    assert "Write hello.txt, please" in asked.text
    assert place.left() == ["?? hello.txt"]
    assert [one.session_id for one in second.of(SessionStarted)] == [first.work.new_session_id]
    told = all_used(second, ended).total
    assert (told.input_tokens, told.output_tokens) == (2000, 20)


def test_a_conversation_that_is_gone_is_begun_anew_with_the_whole_task(place: Place) -> None:
    with ModelServer((say("Done."),)) as server:
        work = place.work(server.url, session_id="33333333-2222-4333-8444-555555555555", prompt="Go on")
        with place.run(work) as run:
            assert run.end().ok
        assert "# Task\n\nWrite hello.txt" in last_asked(server).text

    assert [one.session_id for one in run.of(SessionStarted)] == [work.new_session_id]


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_signal_it_has_not_succeeded_its_tokens_count_and_its_conversation_can_go_on(
    place: Place, sent: signal.Signals
) -> None:
    turns = (
        (write_file("hello.txt", "x\n"), usage(1000, 10)),
        (say("Half a sentence"), hold("never"), usage(1100, 50)),
    )
    with ModelServer(turns) as server:
        with place.run(place.work(server.url)) as run:
            run.wait(Text)
            os.killpg(run.process.pid, sent)
            ended = run.end()
        with ModelServer((turns[0], say("Done."), say("Done."))) as after:
            again = place.work(after.url, "two", session_id=run.work.new_session_id, prompt="Go on")
            with place.run(again) as second:
                assert second.end().ok
            asked = last_asked(after)

    assert not ended.ok
    assert not ended.transient
    assert used(run.of(Used)).total.input_tokens == 1000
    assert all_used(run, ended).total.input_tokens == 2100
    assert "Write hello.txt, please" in asked.text


def test_agents_below_it_are_counted_once_and_do_not_speak_for_it(place: Place) -> None:
    def model(asked: Asked) -> Turn:
        if "the small part" in asked.prompts[-1] or any("the small part" in prompt for prompt in asked.prompts[:1]):
            return (run_shell("true"), usage(500, 50)) if not asked.turns else (say("Part."), usage(600, 60))
        if asked.turns:
            return say("All."), usage(200, 20)
        given = {"description": "part", "prompt": "do the small part", "subagent_type": "general-purpose"}
        return call("Agent", given), usage(100, 10)

    with ModelServer(model) as server, place.run(place.work(server.url)) as run:
        ended = run.end()

    assert ended.ok
    assert run.said == "All."
    told = all_used(run, ended).total
    assert (told.input_tokens, told.output_tokens, told.tool_calls) == (1400, 140, 2)


def test_it_ends_after_as_many_turns_as_it_may_make(place: Place) -> None:
    with ModelServer([run_shell("true")] * 5) as server, place.run(place.work(server.url, max_turns=2)) as run:
        ended = run.end()

    assert not ended.ok
    assert not ended.transient
    assert "turns" in ended.error
    assert all_used(run, ended).total.turns == 2


def test_a_rate_limit_that_passes_is_only_noted(place: Place) -> None:
    turns = (fail(429, "slow down", retry_after=1), say("Done."))
    with ModelServer(turns) as server, place.run(place.work(server.url)) as run:
        assert run.end().ok

    assert any("429" in note.text and note.level == "warning" for note in run.of(Noted))


def test_a_server_that_refuses_is_a_failure_that_passes_and_is_told_within_seconds(place: Place) -> None:
    with refusing() as url, place.run(place.work(url)) as run:
        ended = run.end()

    assert not ended.ok
    assert ended.transient
    assert "connect" in ended.error.lower()
