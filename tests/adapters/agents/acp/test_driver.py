"""The bridge, its agent and everything between: real processes, the agent one of the official library's."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support import acp_agent
from tests.support.agent_run import PATIENCE_S, AgentRun

from pilothouse.adapters.agents.acp.driver import user_agent
from pilothouse.adapters.agents.driver import AgentWork, Program
from pilothouse.adapters.agents.private import PrivateFiles
from pilothouse.adapters.agents.tool_servers import sealed
from pilothouse.core.plan.spec import AgentSpec, Effort
from pilothouse.core.run.agents import (
    AgentConfig,
    Asked,
    FileEdited,
    Noted,
    Permissions,
    SessionStarted,
    Text,
    ToolEnded,
    ToolServer,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.usage import Usage
from pilothouse.errors import BadInput

DRIVER = user_agent("mine", AgentConfig(command=("some-agent",), acp=True))


class Bench:
    """A worktree, the private files of one run, and what the agent is to do."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.worktree = self.root / "worktree"
        self.worktree.mkdir()
        self.private = PrivateFiles(self.root / "private")
        self.node, self.run = self.private.prepare("plan", "node", "plan/node/1/work")

    def start(self, part: Mapping[str, Any], env: Mapping[str, str] | None = None, **work: Any) -> AgentRun:
        file = self.root / "part.json"
        file.write_text(json.dumps({"heard": str(self.root / "heard"), **part}))
        given = AgentWork(
            task="mend it",
            instructions="mend it well",
            prompt="Mend it.",
            worktree=str(self.worktree),
            repo=str(self.root),
            plan_id="plan",
            node="node",
            node_id="node",
            attempt=1,
            phase="work",
            program=Program(argv=(sys.executable, acp_agent.__file__, str(file))),
            private=str(self.node),
            run=str(self.run),
        )
        return AgentRun(DRIVER, msgspec.structs.replace(given, **work), {"PATH": os.environ["PATH"], **(env or {})})

    def heard(self, method: str) -> list[dict[str, Any]]:
        """What the agent was asked, by method."""
        lines = (self.root / "heard").read_text().splitlines()
        return [one for one in map(json.loads, lines) if one["method"] == method]

    def wait_for(self, method: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not (self.root / "heard").exists() or not self.heard(method):
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def answer(self, request: Asked, *, allowed: bool, remember: bool = False) -> None:
        self.private.answer(self.run, request.request_id, allowed=allowed, remember=remember)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# --- work that goes well ---------------------------------------------------------------------------------


def test_the_prompt_reaches_the_agent_and_its_news_come_back(bench: Bench) -> None:
    usage = {"totalTokens": 120, "inputTokens": 100, "outputTokens": 20}
    with bench.start({"steps": [["say", "Hel"], ["say", "lo"]], "usage": usage}) as run:
        ended = run.end()

    assert ended.ok
    assert run.news[0] == SessionStarted(session_id="s-1")
    assert run.said == "Hello"
    assert sum((one.usage for one in run.of(Used)), Usage()) == Usage(input_tokens=100, output_tokens=20, turns=1)
    assert bench.heard("prompt") == [{"method": "prompt", "text": "Mend it."}]
    assert bench.heard("new_session")[0]["cwd"] == str(bench.worktree)


def test_nothing_of_the_work_is_in_an_argument_and_the_agent_gets_the_environment_of_the_bridge(bench: Bench) -> None:
    with bench.start({"steps": [["say", "x"]]}, env={"SOME_KEY": "secret-value"}) as run:
        assert run.end().ok
        assert "Mend it." not in " ".join(map(str, run.process.args))  # type: ignore[arg-type]  # it is a list

    environment = bench.heard("new_session")[0]["environment"]
    assert set(environment) - {"LC_CTYPE"} == {"PATH", "SOME_KEY"}


def test_an_agent_reads_and_writes_its_files_through_us(bench: Bench) -> None:
    (bench.worktree / "a").write_text("one\ntwo\n")
    steps = [
        ["read", str(bench.worktree / "a"), 2],
        ["write", str(bench.worktree / "sub" / "b"), "new\n"],
        ["read", str(bench.worktree / "nowhere")],
    ]
    with bench.start({"steps": steps}) as run:
        assert run.end().ok

    assert run.said == "read two\n\nwrote b\nrefused: Resource not found (-32002)\n"
    assert run.of(FileEdited) == [FileEdited(path="sub/b", change="created", lines_added=1)]
    assert (bench.worktree / "sub" / "b").read_text() == "new\n"


def test_an_agent_touches_nothing_outside_of_its_worktree_and_folders_through_us(bench: Bench) -> None:
    (bench.root / "folder").mkdir()
    steps = [["write", str(bench.root / "folder" / "a"), "x"], ["write", str(bench.root / "b"), "x"]]
    with bench.start({"steps": steps}, allowed_folders=(str(bench.root / "folder"),)) as run:
        assert run.end().ok

    assert (bench.root / "folder" / "a").exists()
    assert not (bench.root / "b").exists()
    assert "outside of the worktree" in run.said


def test_folders_are_named_to_an_agent_that_can_be_told(bench: Bench) -> None:
    able: dict[str, Any] = {"agentCapabilities": {"sessionCapabilities": {"additionalDirectories": {}}}}
    with bench.start({"initialize": able, "steps": [["say", "x"]]}, allowed_folders=("/some/folder",)) as run:
        assert run.end().ok

    assert bench.heard("new_session")[0]["folders"] == ["/some/folder"]


def test_a_terminal_of_ours_is_not_to_be_had(bench: Bench) -> None:
    with bench.start({"steps": [["terminal"]]}) as run:
        assert run.end().ok

    assert run.said == "no terminal (-32601)\n"


def test_what_an_agent_prints_beside_the_protocol_does_no_harm(bench: Bench) -> None:
    with bench.start({"steps": [["print", "starting up …"], ["print", "[]"], ["say", "done"]]}) as run:
        assert run.end().ok

    assert run.said == "done"
    assert [one.text for one in run.of(Noted)] == ["the agent printed: starting up …", "the agent printed: []"]


# --- permissions -------------------------------------------------------------------------------------------


def test_whoever_may_do_everything_is_never_told_always(bench: Bench) -> None:
    with bench.start({"steps": [["ask", "c1", "execute"]]}) as run:
        assert run.end().ok

    assert run.said == "c1: yes\n"
    assert run.of(Asked) == []
    assert [one.tool for one in run.of(ToolStarted)] == ["execute"]


def test_whoever_may_do_everything_changes_files_only_where_it_works(bench: Bench) -> None:
    steps = [["ask", "c1", "edit", str(bench.worktree / "a")], ["ask", "c2", "edit", str(bench.root / "b")]]
    with bench.start({"steps": steps}) as run:
        assert run.end().ok

    assert run.said == "c1: yes\nc2: no\n"


def test_whoever_may_do_nothing_is_refused_tools_and_writes(bench: Bench) -> None:
    steps = [["ask", "c1", "execute"], ["write", str(bench.worktree / "a"), "x"]]
    with bench.start({"steps": steps}, permissions=Permissions.DENY) as run:
        assert run.end().ok

    assert run.said.startswith("c1: no\nrefused: writing")
    assert [one.status for one in run.of(ToolEnded)] == [ToolStatus.DENIED]
    assert not (bench.worktree / "a").exists()


@pytest.mark.parametrize(("allowed", "said"), [(True, "c1: yes\n"), (False, "c1: no\n")])
def test_a_person_is_asked_and_answers(bench: Bench, allowed: bool, said: str) -> None:
    with bench.start({"steps": [["ask", "c1", "execute"]]}, permissions=Permissions.ASK) as run:
        request = run.wait(Asked)
        assert (request.tool, request.input) == ("execute", '{"path":""}')
        bench.answer(request, allowed=allowed)
        assert run.end().ok

    assert run.said == said


def test_an_answer_is_found_by_whoever_reads_the_run_anew(bench: Bench) -> None:
    """The owner that read the request is gone: the next one reads the same line, so the same request."""
    with bench.start({"steps": [["ask", "c1", "edit"], ["say", "."]]}, permissions=Permissions.ASK) as run:
        run.wait(Asked)
        lines = [msgspec.json.encode(one) for one in run.news]
        reader = DRIVER.reader(run.work)
        again = [news for line in lines for news in reader.line(line)]
        (request,) = (one for one in again if isinstance(one, Asked))
        bench.answer(request, allowed=True)
        bench.answer(request, allowed=False)  # somebody else's, too late
        assert run.end().ok

    assert run.said == "c1: yes\n."


def test_parallel_requests_are_asked_one_at_a_time(bench: Bench) -> None:
    steps = [["ask_at_once", ["c1", "edit"], ["c2", "execute"], ["c3", "edit"]]]
    with bench.start({"steps": steps}, permissions=Permissions.ASK) as run:
        bench.answer(run.wait(Asked), allowed=True, remember=True)
        second = run.wait(Asked, number=2)
        assert len(run.of(Asked)) == 2
        bench.answer(second, allowed=False)
        assert run.end().ok

    assert sorted(run.said.splitlines()) == ["c1: yes", "c2: no", "c3: yes"]
    assert [one.tool for one in run.of(Asked)] == ["edit", "execute"]


def test_a_write_that_was_permitted_as_a_tool_is_not_asked_for_again(bench: Bench) -> None:
    place, other = str(bench.worktree / "a"), str(bench.worktree / "b")
    steps = [["ask", "c1", "edit", place], ["write", place, "x"], ["write", other, "y"]]
    with bench.start({"steps": steps}, permissions=Permissions.ASK) as run:
        bench.answer(run.wait(Asked), allowed=True)
        second = run.wait(Asked, number=2)
        assert (second.tool, second.title, second.input) == ("edit", other, "y")
        bench.answer(second, allowed=False)
        assert run.end().ok

    assert (bench.worktree / "a").exists()
    assert not (bench.worktree / "b").exists()


def test_a_file_that_it_may_read_is_not_thereby_one_that_it_may_write(bench: Bench) -> None:
    place = str(bench.worktree / "a")
    steps = [["ask", "c1", "read", place], ["write", place, "x"]]
    with bench.start({"steps": steps}, permissions=Permissions.ASK) as run:
        bench.answer(run.wait(Asked), allowed=True)
        bench.answer(run.wait(Asked, number=2), allowed=False)
        assert run.end().ok

    assert not (bench.worktree / "a").exists()


# --- conversations -----------------------------------------------------------------------------------------

LOADS = {"agentCapabilities": {"loadSession": True}}
RESUMES = {"agentCapabilities": {"loadSession": True, "sessionCapabilities": {"resume": {}}}}


@pytest.mark.parametrize(("able", "method"), [(LOADS, "load_session"), (RESUMES, "resume_session")])
def test_a_conversation_goes_on_without_telling_again_what_was_told(bench: Bench, able: Any, method: str) -> None:
    with bench.start({"initialize": able, "steps": [["say", "more"]]}, session_id="s-0") as run:
        assert run.end().ok

    assert run.news[0] == SessionStarted(session_id="s-0")
    assert run.said == "more"
    assert bench.heard(method)[0]["sessionId"] == "s-0"
    assert bench.heard("prompt")[0]["text"] == "Mend it."


GONE = {"load_session": [-32603, "Internal error", {"details": "no such session"}]}


@pytest.mark.parametrize(("able", "errors"), [(LOADS, GONE), ({}, {})])
def test_a_conversation_that_cannot_go_on_is_begun_anew_with_the_whole_task(
    bench: Bench, able: Any, errors: Any
) -> None:
    part = {"initialize": able, "errors": errors, "steps": [["say", "x"]]}
    with bench.start(part, session_id="s-0", opening="All of it.") as run:
        assert run.end().ok

    assert run.news[0] == SessionStarted(session_id="s-1")
    assert ["s-0" in one.text for one in run.of(Noted)] == [True]
    assert bench.heard("prompt")[0]["text"] == "All of it."


# --- what a session is set to ------------------------------------------------------------------------------


def choice(category: str, current: str, *values: str) -> dict[str, Any]:
    return {
        "type": "select",
        "id": f"the-{category}",
        "name": category,
        "category": category,
        "currentValue": current,
        "options": [{"value": value, "name": value.upper()} for value in values],
    }


NEW = {"configOptions": [choice("model", "small", "small", "big"), choice("thought_level", "low", "low", "high")]}


def test_model_and_effort_are_set(bench: Bench) -> None:
    with bench.start({"new": NEW, "steps": [["say", "x"]]}, model="BIG", effort=Effort.HIGH) as run:
        assert run.end().ok

    assert [(one["id"], one["value"]) for one in bench.heard("set_config_option")] == [
        ("the-model", "big"),
        ("the-thought_level", "high"),
    ]


def test_the_model_that_a_session_begins_with_is_told(bench: Bench) -> None:
    with bench.start({"new": NEW, "steps": [["say", "x"]]}) as run:
        assert run.end().ok

    assert run.news[0] == SessionStarted(session_id="s-1", model="small")


def test_a_model_that_is_not_offered_ends_the_work_before_it_begins(bench: Bench) -> None:
    with bench.start({"new": NEW}, model="huge") as run:
        ended = run.end()

    assert ended.error == "model 'huge' is not offered: small, big"


def test_an_effort_that_is_not_offered_is_only_noted(bench: Bench) -> None:
    with bench.start({"steps": [["say", "x"]]}, effort=Effort.HIGH) as run:
        assert run.end().ok

    assert [one.level for one in run.of(Noted)] == ["warning"]


def test_an_agent_is_logged_in_to_by_a_variable_that_is_set(bench: Bench) -> None:
    methods = [
        {"id": "browser", "name": "In a browser", "description": "Run `mine login`"},
        {"type": "env_var", "id": "by-key", "name": "Key", "vars": [{"name": "MINE_KEY"}]},
    ]
    part = {"key": "MINE_KEY", "initialize": {"authMethods": methods}, "steps": [["say", "x"]]}
    with bench.start(part, env={"MINE_KEY": "secret-value"}) as run:
        assert run.end().ok
    assert [one["methodId"] for one in bench.heard("authenticate")] == ["by-key"]

    with bench.start(part) as run:
        ended = run.end()
    assert ended.error == "mine is not logged in: Run `mine login`; or Key"
    assert not ended.transient


# --- work that goes wrong ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["refusal", "max_tokens", "max_turn_requests", "cancelled"])
def test_a_turn_that_does_not_end_by_itself_is_a_failure(bench: Bench, stop: str) -> None:
    with bench.start({"steps": [["say", "x"]], "stop": stop}) as run:
        ended = run.end()

    assert not ended.ok
    assert ended.error
    assert ended.exit.code == 1


def test_a_turn_without_a_word_is_no_success(bench: Bench) -> None:
    with bench.start({}) as run:
        assert run.end().error == "it ended its turn without a word"


def test_an_error_of_the_model_is_told_and_may_pass(bench: Bench) -> None:
    error = [-32603, "Internal error", {"details": "429 Too Many Requests, retry after 3s"}]
    with bench.start({"errors": {"prompt": error}}) as run:
        ended = run.end()

    assert (ended.transient, ended.retry_after_ms) == (True, 3000)
    assert "429 Too Many Requests" in ended.error


def test_an_agent_that_dies_is_a_failure_with_its_last_words(bench: Bench) -> None:
    with bench.start({"steps": [["ask", "c1", "execute"], ["say", "well"], ["complain", "oh no"], ["die", 3]]}) as run:
        ended = run.end()

    assert ended.error == "the agent exited with 3 in the middle of its work"
    assert run.said.endswith("well")


def test_a_program_that_is_not_there_or_no_agent_is_a_failure(bench: Bench) -> None:
    for argv, error in (
        (("/nowhere/agent",), "/nowhere/agent cannot be started: No such file or directory"),
        ((sys.executable, "-c", "print('usage: …')"), "the agent exited with 0 in the middle of its work"),
    ):
        with bench.start({}, program=Program(argv=argv)) as run:
            assert run.end().error == error


def test_an_agent_of_another_version_of_the_protocol_is_a_failure(bench: Bench) -> None:
    with bench.start({"initialize": {"protocolVersion": 7}}) as run:
        assert run.end().error == "it speaks version 7 of the protocol, not 1"


SERVER = ToolServer(name="ours", command=("/serve", "it"), env={"TOKEN": "the-secret"})


@pytest.mark.parametrize(
    ("able", "session", "method"),
    [({}, "", "new_session"), (LOADS, "s-0", "load_session"), (RESUMES, "s-0", "resume_session")],
)
def test_an_agent_is_given_a_server_of_tools_with_its_session(
    bench: Bench, able: Any, session: str, method: str
) -> None:
    with bench.start({"initialize": able, "steps": [["say", "x"]]}, session_id=session, tools=SERVER) as run:
        assert run.end().ok

    assert bench.heard(method)[0]["servers"] == [["ours_tools", *sealed(run.work)]]
    assert "the-secret" not in (bench.root / "heard").read_text()
    assert "the-secret" not in str(DRIVER.launch(run.work))


def test_without_a_server_of_tools_it_is_told_of_none(bench: Bench) -> None:
    with bench.start({"steps": [["say", "x"]]}) as run:
        assert run.end().ok

    assert bench.heard("new_session")[0]["servers"] == []


@pytest.mark.parametrize("permissions", list(Permissions))
def test_a_tool_of_the_server_is_granted_at_once_and_left_to_whoever_serves_it(
    bench: Bench, permissions: Permissions
) -> None:
    meta = {"claudeCode": {"mcpServer": {"name": "ours_tools"}}}
    ask = ["ask", "c1", "other", "", {"title": "mcp__ours_tools__make", "_meta": meta}]
    with bench.start({"steps": [ask]}, permissions=permissions, tools=SERVER) as run:
        assert run.end().ok

    assert run.said == "c1: yes\n"
    assert (run.of(Asked), run.of(ToolStarted), run.of(ToolEnded)) == ([], [], [])


def test_one_that_only_has_its_title_is_refused_as_any_other(bench: Bench) -> None:
    ask = ["ask", "c1", "other", "", {"title": "mcp__ours_tools__make"}]
    with bench.start({"steps": [ask]}, permissions=Permissions.DENY, tools=SERVER) as run:
        run.end()

    assert run.said == "c1: no\n"


def test_an_agent_that_stays_is_ended_and_the_work_is_done_all_the_same(bench: Bench) -> None:
    with bench.start({"steps": [["say", "done"], ["stay"]]}) as run:
        ended = run.end()

    assert ended.ok


# --- ends --------------------------------------------------------------------------------------------------


def test_a_polite_signal_cancels_the_prompt_and_ends_both(bench: Bench) -> None:
    with bench.start({"steps": [["say", "x"], ["wait"]]}) as run:
        run.wait(Text)
        run.process.send_signal(signal.SIGTERM)
        ended = run.end()

    assert ended.error == "it was ended"
    assert bench.heard("cancel")


def test_a_polite_signal_ends_an_agent_that_waits_for_an_answer(bench: Bench) -> None:
    with bench.start({"steps": [["ask", "c1", "execute"]]}, permissions=Permissions.ASK) as run:
        run.wait(Asked)
        run.process.send_signal(signal.SIGTERM)
        assert run.end().error == "it was ended"

    assert [one.status for one in run.of(ToolEnded)] == [ToolStatus.FAILED]


def test_a_polite_signal_ends_an_agent_that_never_answered_anything(bench: Bench) -> None:
    with bench.start({"mute": True}) as run:
        bench.wait_for("initialize")
        run.process.send_signal(signal.SIGTERM)
        assert run.end().error == "it was ended"


# --- the driver --------------------------------------------------------------------------------------------


def test_a_replies_file_is_for_another_agent() -> None:
    with pytest.raises(BadInput, match="scripted"):
        DRIVER.check(AgentSpec(agent="mine", script="replies.yaml"), Permissions.ASK)
    DRIVER.check(AgentSpec(agent="mine", max_turns=3), Permissions.ASK)


def test_an_agent_of_the_users_own_can_be_asked_to_ask_and_to_go_on() -> None:
    assert (DRIVER.facts.asks, DRIVER.facts.resumes, DRIVER.facts.acp) == (True, True, True)
    assert DRIVER.native("/bin/agent") == ("/bin/agent",)
    assert DRIVER.login({}, AgentConfig()).ok is None
    assert DRIVER.models_command(Program(argv=("x",))) == ()
