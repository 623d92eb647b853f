"""The scripted agent as the process it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.adapters.agents.effects import Played, effect, play, scripted
from tests.support import stdio_tools

from pilothouse.adapters.agents.commands import CommandFactory
from pilothouse.adapters.agents.lines import LineReader
from pilothouse.adapters.agents.private import PrivateFiles
from pilothouse.core.plan.effects import RunWork
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import Permissions, SessionStarted, ToolServer, ToolStarted, Used
from pilothouse.core.run.usage import Usage
from pilothouse.errors import BadInput


def perform(work: RunWork) -> Played:
    private = PrivateFiles(Path(work.path).parent / "private")
    return play(CommandFactory(os.environ, private=private)(work), LineReader())


def act(worktree: Path, replies: str, **changes: Any) -> Played:
    return perform(scripted(worktree, replies, **changes))


def git(worktree: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=worktree, check=True, capture_output=True, text=True).stdout


def test_it_performs_its_replies_in_order_and_tells_of_them(worktree: Path) -> None:
    played = act(
        worktree,
        """
        - think: Where to begin?
        - say: Looking around
        - write: { path: notes/a.md, content: "one\\n" }
        - append: { path: notes/a.md, content: "two\\n" }
        - expect: { path: notes/a.md, contains: two }
        - run: wc -l < notes/a.md | tr -d ' '
        - tool: { name: search, input: "{task}", output: nothing found }
        - sleep: 1
        - write: { path: notes/a.md, content: "three\\n" }
        - delete: notes/a.md
        """,
        task="find it",
    )
    assert played.ended.ok
    assert played.story == [
        "(Where to begin?)",
        "Looking around",
        "> write notes/a.md", "* created notes/a.md +1 -0", "< succeeded 4 bytes",
        "> append notes/a.md", "* modified notes/a.md +1 -0", "< succeeded 4 bytes",
        "> read notes/a.md", "< succeeded contains 'two'",
        "> shell wc -l < notes/a.md | tr -d ' '", "< succeeded 2",
        "> search find it", "< succeeded nothing found",
        "# sleep 1 ms",
        "> write notes/a.md", "* modified notes/a.md +1 -2", "< succeeded 6 bytes",
        "> delete notes/a.md", "* deleted notes/a.md +0 -1", "< succeeded",
    ]  # fmt: skip
    assert not (worktree / "notes/a.md").exists()


def test_what_stands_in_braces_is_filled_in_and_other_braces_stay(worktree: Path) -> None:
    replies = """
    - write:
        path: "{node}-{attempt}.txt"
        content: "{task}|{instructions}|{context}|{phase}|{plan}|{turn}|{unknown}|{}"
    """
    assert act(worktree, replies, attempt=2, instructions="mind the {task}").ended.ok
    assert (worktree / "api-2.txt").read_text() == (
        "Add the search endpoint|Add the search endpoint|mind the {task}|work|p1|1|{unknown}|{}"
    )


def test_the_instructions_of_the_plan_reach_it_and_long_texts_come_in_pieces(worktree: Path) -> None:
    (worktree / "r.yaml").write_text("- say: '{instructions}'")
    long = "ä" * 100_000
    assert (
        perform(effect(worktree, AgentSpec(agent="scripted", script="r.yaml", instructions=long))).said == f"{long}\n"
    )


def test_a_command_of_a_script_is_never_filled_in(worktree: Path) -> None:
    story = act(worktree, "- run: echo '{task}' \"$PILOTHOUSE_NODE\"", task="'; rm -rf .").story
    assert story[-1] == "< succeeded {task} api"


def test_it_tells_in_the_end_how_many_tools_and_lines_it_was(worktree: Path) -> None:
    played = act(worktree, '[{write: {path: a, content: "x\\ny"}}, {append: {path: a, content: z}}, {delete: a}]')
    assert [item.usage for item in played.news if isinstance(item, Used)] == [
        Usage(tool_calls=3, lines_added=3, lines_removed=2)
    ]


def test_it_tells_of_tokens_as_they_are_used(worktree: Path) -> None:
    replies = "[{use: {model: gpt-5, input: 10, output: 5, cached: 3}}, {use: {model: other, reasoning: 1}}]"
    assert [item for item in act(worktree, replies).news if isinstance(item, Used)] == [
        Used(model="gpt-5", usage=Usage(input_tokens=10, output_tokens=5, cached_tokens=3, turns=1)),
        Used(model="other", usage=Usage(reasoning_tokens=1, turns=1)),
    ]


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ("[{fail: 'no more {node}'}, {say: never}]", "no more api"),
        ("[{run: exit 7}, {say: never}]", "the command exited with 7"),
        ("[{write: {path: a, content: one}}, {expect: {path: a, contains: two}}]", "a does not contain 'two'"),
    ],
)
def test_it_stops_at_the_first_reply_that_fails_and_says_why(worktree: Path, replies: str, error: str) -> None:
    played = act(worktree, replies)
    assert (played.ended.ok, played.ended.error, played.ended.exit.code) == (False, error, 1)
    assert not played.ended.transient
    assert played.said == ""


def test_a_file_that_is_missing_is_named(worktree: Path) -> None:
    error = act(worktree, "- expect: {path: gone, contains: x}").ended.error
    assert error == f"No such file or directory: {worktree}/gone"


def test_a_limit_is_a_failure_that_may_pass(worktree: Path) -> None:
    ended = act(worktree, "- limit: 1500").ended
    assert (ended.ok, ended.error, ended.transient, ended.retry_after_ms) == (False, "rate limited", True, 1500)


def test_it_can_fail_first_and_succeed_when_tried_again(worktree: Path) -> None:
    replies = "attempts: {1: [fail: not yet], 2: [say: now]}"
    assert act(worktree, replies).ended.error == "not yet"
    assert act(worktree, replies, attempt=2).said == "now\n"


def test_an_exit_without_a_word_is_no_success(worktree: Path) -> None:
    played = act(worktree, "[{say: well}, {exit: 0}, {say: never}]")
    assert (played.said, played.ended.ok) == ("well\n", False)
    assert "without saying how its work went" in played.ended.error
    assert "exited with 3" in act(worktree, "- exit: 3").ended.error


def test_lines_that_are_not_its_own_are_notes(worktree: Path) -> None:
    story = act(
        worktree, "[{print: 'a \"{node}\"'}, {print: {text: '{\"type\": \"text\"}', times: 2}}, {print: ''}]"
    ).story
    assert story == ['# a "api"', '# {"type": "text"}', '# {"type": "text"}']


def test_it_can_say_that_it_is_done_and_go_on(worktree: Path) -> None:
    played = act(worktree, "[{say: done}, {linger: 10}, {say: never}]")
    assert (played.said, played.ended.ok) == ("done\n", True)


def test_what_a_command_leaves_running_is_not_waited_for(worktree: Path) -> None:
    played = act(worktree, "- run: echo started; sleep 300 & echo $! > pid")
    os.kill(int((worktree / "pid").read_text()), 9)
    assert played.story[-1] == "< succeeded started"


def test_of_endless_output_the_beginning_is_told(worktree: Path) -> None:
    played = act(worktree, "- run: head -c 3000000 /dev/zero | tr '\\0' a")
    assert played.ended.ok
    assert played.story[-1] == f"< succeeded {'a' * 16_384}"


def test_a_conversation_is_resumed_and_knows_its_turn(worktree: Path) -> None:
    first = act(worktree, "- say: '{session} {turn}'")
    (session,) = [item.session_id for item in first.news if isinstance(item, SessionStarted)]
    assert first.said == f"{session} 1\n"
    again = act(worktree, "- say: '{session} {turn}'", session_id=session, attempt=2, output="p1/n1/2/work")
    assert again.said == f"{session} 2\n"


def test_a_conversation_nobody_knows_is_begun_anew_and_that_is_told(worktree: Path) -> None:
    played = act(worktree, "- say: '{session} {turn}'", session_id="5f0c0000-0000-4000-8000-000000000000")
    assert "5f0c" not in played.said
    assert played.said.endswith(" 1\n")
    assert "# the conversation to resume is not known; this is a new one" in played.story


def test_a_plan_that_does_not_resume_gets_a_new_conversation(worktree: Path) -> None:
    (session,) = [item.session_id for item in act(worktree, "[]").news if isinstance(item, SessionStarted)]
    spec = AgentSpec(agent="scripted", script="replies.yaml", resume_session=False)
    played = perform(effect(worktree, spec, session_id=session, output="p1/n1/2/work"))
    assert session not in [item.session_id for item in played.news if isinstance(item, SessionStarted)]


@pytest.mark.parametrize(
    ("permissions", "story", "error"),
    [
        (Permissions.ALLOW, ["> deploy now", "< succeeded"], ""),
        (Permissions.DENY, ["> deploy now", "< denied"], "deploy was not permitted"),
    ],
)
def test_without_a_person_to_ask_the_plan_decides(
    worktree: Path, permissions: Permissions, story: list[str], error: str
) -> None:
    played = act(worktree, "- ask: { tool: deploy, input: now }", permissions=permissions)
    assert (played.story, played.ended.error) == (story, error)


@pytest.mark.parametrize(("allowed", "error"), [(True, ""), (False, "deploy was not permitted")])
def test_it_asks_and_does_as_it_is_answered(worktree: Path, allowed: bool, error: str) -> None:
    work = scripted(worktree, "- ask: { tool: deploy, input: now }", permissions=Permissions.ASK)
    private = PrivateFiles(worktree.parent / "private")
    _, run = private.prepare(work.plan_id, work.node_id, work.output)
    private.answer(run, "1", allowed=allowed, remember=False)
    played = perform(work)
    assert played.story[0] == "? deploy now"
    assert played.ended.error == error


def test_an_answer_can_hold_for_the_rest_of_the_conversation(worktree: Path) -> None:
    work = scripted(worktree, "[{ask: deploy}, {ask: deploy}]", permissions=Permissions.ASK)
    private = PrivateFiles(worktree.parent / "private")
    _, run = private.prepare(work.plan_id, work.node_id, work.output)
    private.answer(run, "1", allowed=True, remember=True)
    assert [line for line in perform(work).story if line.startswith("?")] == ["? deploy"]


def test_it_commits_everything_but_what_is_ours(worktree: Path) -> None:
    evidence = worktree / ".orchestrator/evidence/n1.json"
    evidence.parent.mkdir(parents=True)
    evidence.touch()
    played = act(worktree, "[{write: {path: a, content: b}}, {commit: 'Add a for {node}\\n\\nWhy'}]")
    assert played.ended.ok, played.ended.error
    assert git(worktree, "log", "-1", "--format=%s").strip() == "Add a for api\\n\\nWhy"
    assert git(worktree, "show", "--name-only", "--format=").split() == ["a", "replies.yaml"]


def test_it_commits_where_nobody_said_who_they_are(worktree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    played = act(worktree, "[{write: {path: a, content: b}}, {commit: one}]")
    assert played.ended.ok, played.ended.error
    assert git(worktree, "log", "-1", "--format=%an") == "Pilothouse\n"


def test_a_commit_of_nothing_fails(worktree: Path) -> None:
    played = act(worktree, "[{commit: one}, {commit: two}]")
    assert not played.ended.ok
    assert played.ended.error.startswith("git commit: ")


def test_a_wrong_file_ends_it_with_the_mistake_before_anything_is_done(worktree: Path) -> None:
    played = act(worktree, "[{write: {path: a, content: b}}, {shout: x}]")
    assert played.ended.exit.code == 2
    assert played.ended.error.startswith("replies.yaml: replies[1]: unknown reply 'shout'")
    assert played.news == []
    assert not (worktree / "a").exists()


def test_a_file_that_is_missing_or_no_text_is_told(worktree: Path) -> None:
    work = effect(worktree, AgentSpec(agent="scripted", script="gone.yaml"))
    assert perform(work).ended.error == "gone.yaml: cannot be read: No such file or directory (is it committed?)"
    (worktree / "gone.yaml").write_bytes(b"\xff")
    assert perform(work).ended.error == "gone.yaml: is not UTF-8 text"


@pytest.mark.parametrize("script", ["/etc/passwd", "../replies.yaml", "a/../../b", ""])
def test_replies_outside_the_repository_are_refused_before_it_starts(worktree: Path, script: str) -> None:
    with pytest.raises(BadInput, match="script: "):
        CommandFactory(os.environ)(effect(worktree, AgentSpec(agent="scripted", script=script)))


def test_replies_behind_a_link_that_leads_outside_are_refused(worktree: Path) -> None:
    (worktree.parent / "outside.yaml").write_text("- say: secret")
    (worktree / "r.yaml").symlink_to("../outside.yaml")
    played = perform(effect(worktree, AgentSpec(agent="scripted", script="r.yaml")))
    assert (played.ended.exit.code, played.said) == (2, "")
    assert "leads outside the worktree by a symbolic link" in played.ended.error


@pytest.mark.parametrize(
    "reply",
    [
        "write: {path: out/a, content: x}",
        "write: {path: file, content: x}",
        "append: {path: file, content: x}",
        "delete: out/file",
        "expect: {path: file, contains: o}",
        "write: {path: '{task}/a', content: x}",
        "write: {path: '{context}/config', content: x}",
    ],
)
def test_no_reply_reaches_outside_the_worktree(worktree: Path, reply: str) -> None:
    outside = worktree.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("old")
    (worktree / "out").symlink_to(outside)
    (worktree / "file").symlink_to(outside / "file")
    played = act(worktree, f"- {reply}", task="../outside", instructions=".git")
    assert played.ended.error.startswith("path: ")
    assert {entry.name: entry.read_text() for entry in outside.iterdir()} == {"file": "old"}


def test_a_link_itself_can_be_deleted(worktree: Path) -> None:
    (worktree.parent / "outside").touch()
    (worktree / "link").symlink_to("../outside")
    assert act(worktree, "- delete: link").ended.ok
    assert (worktree.parent / "outside").exists()
    assert not (worktree / "link").is_symlink()


def test_no_module_of_the_worktree_is_imported(worktree: Path) -> None:
    for name in ("json", "yaml", "pilothouse"):
        (worktree / f"{name}.py").write_text("raise SystemExit(9)")
    assert act(worktree, "- say: fine", plan_env={"PYTHONPATH": str(worktree)}).said == "fine\n"


def test_it_is_told_nothing_of_the_environment_it_does_not_have(worktree: Path) -> None:
    command = CommandFactory(os.environ)(scripted(worktree, "[]", plan_env={"DEPLOY_TOKEN": "the token"}))
    assert "the token" not in command.stdin
    assert json.loads(command.stdin)["worktree"] == str(worktree)


def test_the_same_lines_are_read_the_same_way_again(worktree: Path) -> None:
    played = act(worktree, "[{say: a}, {tool: {name: t}}, {use: {model: m, input: 1}}]")
    lines = [msgspec.json.encode(item) for item in played.news]
    assert [item for reader in (LineReader(), LineReader()) for line in lines for item in reader.line(line)] == [
        *played.news,
        *played.news,
    ]
    assert [item.tool for item in played.news if isinstance(item, ToolStarted)] == ["t"]


def served(worktree: Path) -> ToolServer:
    command = (sys.executable, stdio_tools.__file__, str(worktree.parent / "heard"))
    return ToolServer(name="pilothouse", command=command, env={stdio_tools.SECRET: "the-secret"})


def asked(worktree: Path) -> list[tuple[str, Any]]:
    """What the server of tools was asked for."""
    lines = (worktree.parent / "heard").read_text().splitlines()
    return [(one["method"], one.get("params", {}).get("arguments")) for one in map(json.loads, lines)]


def test_it_calls_tools_of_the_server_it_was_given_and_leaves_it_to_that_to_tell_of_them(worktree: Path) -> None:
    played = act(
        worktree,
        """
        - call: { tool: echo, arguments: { text: "{node}", more: [ "{task}", { deep: 1 } ] } }
        - say: "It said {result}."
        - call: { tool: echo, arguments: '{"text": "x", "n": 1, "yes": true}' }
        - call: { tool: refuse, mayFail: true }
        - say: "Then {result}"
        """,
        task="find it",
        tools=served(worktree),
    )
    assert played.ended.ok, played.ended.error
    assert played.story == ["It said echo: api the-secret.", "Then refused:"]
    assert asked(worktree) == [
        ("initialize", None),
        ("notifications/initialized", None),
        ("tools/call", {"text": "api", "more": ["find it", {"deep": "1"}]}),
        ("tools/call", {"text": "x", "n": 1, "yes": True}),
        ("tools/call", {}),
    ]
    assert sum((item.usage for item in played.news if isinstance(item, Used)), Usage()).tool_calls == 3


def test_fields_of_a_result_are_at_hand(worktree: Path) -> None:
    replies = """
        - call: { tool: same, arguments: '{"text": "{\\"planId\\": \\"p-1\\", \\"done\\": 2}"}' }
        - say: "{result.planId} {result.done}"
        - say: "{result.gone}"
    """
    played = act(worktree, replies, tools=served(worktree))
    assert played.said == "p-1 2\n"
    assert "'gone'" in played.ended.error


@pytest.mark.parametrize(
    ("tool", "error"), [("refuse", "refuse: refused: "), ("die", "die: the server of tools has ended")]
)
def test_a_call_that_brings_no_result_fails(worktree: Path, tool: str, error: str) -> None:
    played = act(worktree, f"[ call: {tool} ]", tools=served(worktree))
    assert (played.ended.ok, played.ended.error.strip()) == (False, error.strip())


def test_without_a_server_of_tools_a_call_fails_and_says_so(worktree: Path) -> None:
    played = act(worktree, "[ call: echo ]")
    assert not played.ended.ok
    assert "no server of tools was given" in played.ended.error


def test_a_server_that_cannot_be_started_is_a_failure(worktree: Path) -> None:
    played = act(worktree, "[ call: echo ]", tools=ToolServer(name="t", command=("/nowhere/it",)))
    assert "the server of tools has ended" in played.ended.error


def test_the_secret_of_a_server_is_neither_in_what_the_agent_is_told_nor_in_its_arguments(worktree: Path) -> None:
    work = scripted(worktree, "[ say: x ]", tools=served(worktree))
    command = CommandFactory(os.environ, private=PrivateFiles(worktree.parent / "private"))(work)
    assert "the-secret" not in command.stdin
    assert not any("the-secret" in word for word in command.argv)
