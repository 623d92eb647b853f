"""Every verb against an owner: what it asks, what it prints, how it exits."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.interfaces.cli.conftest import Say
from tests.interfaces.cli.fake_owner import FakeOwner
from tests.interfaces.cli.story import PLAN_ID, Story, job

from pilothouse.core.plan.spec_parse import parse_plan
from pilothouse.interfaces.cli import door
from pilothouse.interfaces.cli.main import VERBS
from pilothouse.interfaces.cli.verbs.serve import serve

SOURCE = Path(__file__).parents[3] / "src"
OTHER_ID = "0193b2c4-ffff-7000-8000-000000000002"


@pytest.fixture
def owner(owner: FakeOwner) -> FakeOwner:
    """Two plans; the newer one runs."""
    older = Story([job("only")], plan_id=OTHER_ID, name="tidy up").start().begin("only").fail("only").finish("FAILED")
    newer = Story([job("api"), job("web", "api", group="frontend")]).start().begin("api")
    owner.stories = {OTHER_ID: older, PLAN_ID: newer}
    owner.output = {"api": "one\ntwo\nthree\n"}
    return owner


ALL = [
    ("plan", "list"),
    ("plan", "show", "last"),
    ("plan", "logs", "last"),
    ("plan", "logs", "last", "api"),
    ("plan", "graph", "last"),
    ("plan", "pause", "last"),
    ("plan", "resume", "last"),
    ("plan", "stop", "last"),
    ("plan", "cancel", "last", "--node", "api"),
    ("plan", "cancel", "last", "--group", "frontend"),
    ("plan", "retry", "last", "--node", "api"),
    ("plan", "delete", OTHER_ID),
    ("plan", "export", "last"),
    ("runs", "list"),
    ("runs", "show", "last"),
    ("runs", "events", "last"),
    ("runs", "stop", "last"),
    ("runs", "discard", OTHER_ID),
    ("runs", "pause", "last"),
    ("agents",),
    ("models",),
    ("models", "codex"),
    ("approvals", "list"),
    ("repo", "list"),
    ("repo", "add", "/repo"),
    ("repo", "remove", "/repo"),
    ("keys", "create", "--name", "nightly"),
    ("keys", "list"),
    ("keys", "revoke", "4hK0vQ2mYtB"),
    ("doctor",),
]


@pytest.mark.parametrize("arguments", ALL, ids=" ".join)
def test_json_is_one_value_on_stdout_and_words_are_for_stderr(
    owner: FakeOwner, say: Say, arguments: tuple[str, ...]
) -> None:
    said = say(*arguments, "--json")
    assert (said.code, said.err) == (0, "")
    json.loads(said.out)


@pytest.mark.parametrize("arguments", ALL, ids=" ".join)
def test_without_json_there_is_something_to_read(owner: FakeOwner, say: Say, arguments: tuple[str, ...]) -> None:
    said = say(*arguments)
    assert said.code == 0
    assert said.out or said.err


def test_plans_are_listed_newest_first(owner: FakeOwner, say: Say) -> None:
    lines = say("plan", "list").out.splitlines()
    assert [line[:13].rstrip() for line in lines] == ["ID", "0193b2c4-5d6e", "0193b2c4-ffff"]
    assert "● running" in lines[1]
    assert lines[2].endswith("tidy up")


def test_a_plan_is_shown_with_its_nodes(owner: FakeOwner, say: Say) -> None:
    assert say("plan", "show", OTHER_ID).out == (
        "✗ failed  tidy up  0 of 1 nodes succeeded in 0.9s\n"
        "plan    0193b2c4-ffff\n"
        "result  branch feature/search at cccccccccccc in /repo (nothing merged into it)\n"
        "nodes   1 failed\n"
        "failed  only: work exited with 1\n"
        "        pilothouse plan logs 0193b2c4-ffff only\n"
        "next    pilothouse plan retry 0193b2c4-ffff\n"
        "\n"
        "NODE  STATUS    TRIES  TOOK  GROUP\n"
        "only  ✗ failed  1      0.3s\n"
    )


def test_a_node_that_waits_is_shown_as_waiting_with_the_command_that_answers(owner: FakeOwner, say: Say) -> None:
    owner.stories[PLAN_ID].ask("api", "What happened?")
    out = say("plan", "show", "last").out
    assert "api   ? waiting  1" in out
    assert "waits   What happened?\n        `pilothouse approvals answer w1 rerun` (or accept)\n" in out


def test_a_failed_node_is_shown_with_the_worktree_that_is_kept(owner: FakeOwner, say: Say) -> None:
    view = owner.stories[OTHER_ID].view()
    view["nodes"][0]["worktreePath"] = "/worktrees/only"
    owner.answers[("GET", f"/api/plans/{OTHER_ID}")] = (200, view)
    assert "\nworktree  /worktrees/only\n" in say("plan", "show", OTHER_ID).out


def test_work_that_counts_although_it_used_up_a_budget_says_so(owner: FakeOwner, say: Say) -> None:
    view = owner.stories[PLAN_ID].view()
    view["nodes"][0]["phases"] = {
        "prechecks": {"status": "skipped", "startedAt": 1, "endedAt": 1, "note": "nothing to run"},
        "work": {"status": "succeeded", "startedAt": 1, "endedAt": 2, "note": "Budget reached: 9 of 5 tokens are used"},
        "commit": {"status": "succeeded", "startedAt": 2, "endedAt": 2, "note": "no changes"},
    }
    owner.answers[("GET", f"/api/plans/{PLAN_ID}")] = (200, view)
    out = say("plan", "show", "last").out
    assert "note    api: Budget reached: 9 of 5 tokens are used\n" in out
    assert out.count("note ") == 1


def test_a_plan_that_nobody_drives_says_why(owner: FakeOwner, say: Say) -> None:
    view = owner.stories[PLAN_ID].view() | {"halted": "the disk is full"}
    owner.answers[("GET", f"/api/plans/{PLAN_ID}")] = (200, view)
    assert "halted  the disk is full; it is tried again by itself\n" in say("plan", "show", "last").out
    view["halted"] = None
    assert "halted" not in say("plan", "show", "last").out


def test_nodes_are_shown_with_names_that_say_more_than_their_ids(owner: FakeOwner, say: Say) -> None:
    jobs = [job("node-01", called="Build the index"), job("node-02", called="x" * 1000)]
    owner.stories[PLAN_ID] = Story(jobs).start()
    lines = say("plan", "show", "last").out.splitlines()
    assert lines[-3].endswith("GROUP  NAME")
    assert lines[-2].endswith(" Build the index")
    assert lines[-1].endswith(f" {'x' * 37}...")


def test_serve_as_json_says_its_url_at_once_also_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(pipe, encoding="utf-8"))
    arrived: list[bytes] = []

    def serving(*, announce: Callable[[str], None], **_: object) -> None:
        announce("http://127.0.0.1:1/login?token=t")
        arrived.append(pipe.getvalue())

    monkeypatch.setattr("pilothouse.app.serve", serving)
    serve(no_open=True, as_json=True)
    assert json.loads(arrived[0]) == {"url": "http://127.0.0.1:1/login?token=t"}


@pytest.mark.parametrize("given", [PLAN_ID, "last", "0193b2c4-5d6e", "0193b2c4-5", "0193B2C4-5D6E"])
def test_a_plan_is_found_by_its_id_its_beginning_or_as_the_last_one(owner: FakeOwner, say: Say, given: str) -> None:
    assert json.loads(say("plan", "show", given, "--json").out)["planId"] == PLAN_ID


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("0193", "2 of them begin with '0193': 0193b2c4-5d6e, 0193b2c4-ffff (give more of the id)"),
        ("ffff", "no plan begins with 'ffff'; see `pilothouse plan list`"),
        ("019", "'019' is too short for the beginning of an id (give 4 characters or more, or `last`)"),
        ("../repos", "'../repos' is no id; see `pilothouse plan list`"),
        (PLAN_ID[:-1] + "9", f"there is no run '{PLAN_ID[:-1]}9'"),
    ],
)
def test_what_is_no_plan_is_refused(owner: FakeOwner, say: Say, given: str, told: str) -> None:
    said = say("plan", "show", given)
    assert (said.code, said.out, said.err) == (2, "", f"error: {told}\n")


def test_there_may_be_no_plan_yet(owner: FakeOwner, say: Say) -> None:
    owner.stories.clear()
    assert say("plan", "show", "last").err == "error: there is no plan yet\n"
    said = say("plan", "list")
    assert (said.code, said.out) == (0, "")
    assert said.err == "no plans yet; `pilothouse run` starts one\n"


def test_a_stop_waits_for_the_end_and_says_so(owner: FakeOwner, say: Say) -> None:
    said = say("plan", "stop", "last")
    assert (said.code, said.out) == (0, "add-search: stopped (1 pending, 1 ready)\n")


def test_a_stop_that_takes_too_long_is_told(owner: FakeOwner, say: Say) -> None:
    owner.on_stop = lambda story: None
    said = say("plan", "stop", "last", "--timeout", "0")
    assert (said.code, said.out) == (1, "add-search: running (1 pending, 1 running)\n")
    assert "it has not ended yet" in said.err


def test_parts_of_a_plan_are_canceled_by_name(owner: FakeOwner, say: Say) -> None:
    say("plan", "cancel", "last", "--group", "frontend")
    assert owner.asked[-1] == ("POST", f"/api/plans/{PLAN_ID}/groups/cancel", {"group": "frontend"})
    said = say("plan", "cancel", "last", "--group", "frontend", "--node", "api")
    assert (said.code, said.err) == (2, "error: --node and --group exclude each other (give one of them)\n")


def test_names_with_slashes_and_spaces_reach_the_owner_whole(owner: FakeOwner, say: Say) -> None:
    say("plan", "cancel", "last", "--node", "front end/build")
    assert owner.asked[-1][1] == f"/api/plans/{PLAN_ID}/nodes/front%20end%2Fbuild/cancel"


def test_a_retry_names_its_nodes(owner: FakeOwner, say: Say) -> None:
    said = say("plan", "retry", "last", "--node", "api", "--node", "web", "--fresh")
    assert owner.asked[-1][2] == {"nodes": ["api", "web"], "fresh": True}
    assert said.out == "tries again: api, web\n"


def test_logs_of_all_nodes_are_told_apart(owner: FakeOwner, say: Say) -> None:
    assert say("plan", "logs", "last").out == "==> api <==\none\ntwo\nthree\n"
    assert say("plan", "logs", "last", "api", "--tail", "1").out == "three\n"
    assert say("plan", "logs", "last", "web").err == "nothing was printed\n"


def test_output_is_followed_to_the_end_of_the_plan(owner: FakeOwner, say: Say) -> None:
    story = owner.stories[PLAN_ID]
    owner.output["n1"] = "one\ntwo\nthree\n"
    story.print("api", 14).succeed("api").finish("PARTIAL")
    said = say("plan", "logs", "last", "api", "--follow")
    assert (said.code, said.out) == (0, "one\ntwo\nthree\n")
    assert say("plan", "logs", "last", "api", "--follow", "--tail", "2").out == "two\nthree\n"
    assert say("plan", "logs", "last", "--follow", "--json").code == 2


def test_followed_output_that_ends_within_a_line_is_ended_before_the_next(owner: FakeOwner, say: Say) -> None:
    owner.output |= {"n1": "done", "n2": "web too"}
    owner.stories[PLAN_ID].print("api", 4).succeed("api").begin("web").print("web", 7).succeed("web").finish()
    assert say("plan", "logs", "last", "--follow").out == (
        "==> api, work, attempt 1 <==\ndone\n==> web, work, attempt 1 <==\nweb too\n"
    )


def test_an_exported_plan_can_be_run_again(owner: FakeOwner, say: Say) -> None:
    spec = parse_plan(say("plan", "export", "last").out)
    assert [(one.producer_id, one.group, one.dependencies) for one in spec.jobs] == [
        ("api", None, ()),
        ("web", "frontend", ("api",)),
    ]
    assert (spec.repo_path, spec.base_branch) == ("/repo", "main")


def test_nested_groups_are_exported_as_such(owner: FakeOwner, say: Say) -> None:
    jobs = [
        job("front end/forms/build", group="front end/forms"),
        job("front end/test", "front end/forms/build", group="front end"),
    ]
    owner.stories[PLAN_ID] = Story([job("build"), *jobs])
    spec = parse_plan(say("plan", "export", "last").out)
    assert {(one.producer_id, one.group, one.dependencies) for one in spec.jobs} == {
        ("build", None, ()),
        ("front end/forms/build", "front end/forms", ()),
        ("front end/test", "front end", ("front end/forms/build",)),
    }


def test_events_come_one_a_line_however_many_pages_there_are(owner: FakeOwner, say: Say) -> None:
    story = owner.stories[OTHER_ID]
    lines = say("runs", "events", OTHER_ID).out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [recorded.seq for recorded in story.recorded]
    assert len(say("runs", "events", OTHER_ID, "--after", "9").out.splitlines()) == len(lines) - 9
    assert say("runs", "events", OTHER_ID, "--follow").out.splitlines() == lines
    assert say("runs", "events", OTHER_ID, "--follow", "--json").code == 2


def test_a_retry_that_is_followed_shows_only_what_is_new(owner: FakeOwner, say: Say) -> None:
    said = say("plan", "show", OTHER_ID, "--follow")
    assert said.code == 1
    assert "started" not in said.out
    assert "✗ failed  tidy up" in said.out


def test_a_mistake_in_a_verb_names_the_nearest_one(say: Say) -> None:
    said = say("plam", "list")
    assert said.code == 2
    assert said.err == "error: no such command 'plam'. Did you mean 'plan'? (see pilothouse --help)\n"


@pytest.mark.parametrize(
    "arguments",
    [("run",), ("plan", "show"), ("plan", "list", "--limit", "x"), ("plan", "list", "--nope"), ("dance",), ()],
    ids=" ".join,
)
def test_a_mistake_on_the_command_line_exits_with_2(say: Say, arguments: tuple[str, ...]) -> None:
    said = say(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err


def test_the_data_directory_counts_on_either_side_of_the_verb(
    owner: FakeOwner, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTHOUSE_DATA_DIR", str(tmp_path))
    where = str(owner.data_dir)
    assert "add-search" in say("--data-dir", where, "plan", "list").out
    assert "add-search" in say("plan", "list", "--data-dir", where).out


def test_the_data_directory_may_stand_in_the_settings_file(
    owner: FakeOwner, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'data_dir = "{owner.data_dir}"\n')
    monkeypatch.delenv("PILOTHOUSE_DATA_DIR")
    monkeypatch.setenv("PILOTHOUSE_CONFIG", str(config))
    assert "add-search" in say("plan", "list").out


def test_a_failure_of_the_owner_exits_with_1_and_names_its_log(owner: FakeOwner, say: Say) -> None:
    owner.answers[("GET", "/api/plans")] = (500, {"detail": "this should not have happened", "code": "internal"})
    said = say("plan", "list")
    assert said.code == 1
    assert said.err == (
        f"error: the server failed: this should not have happened (its log is {owner.data_dir}/owner.log)\n"
    )


def test_a_bug_of_the_command_line_is_one_sentence_and_a_log(owner: FakeOwner, say: Say) -> None:
    owner.answers[("GET", "/api/plans")] = (200, {"surprise": []})
    said = say("plan", "list")
    assert said.code == 1
    assert said.err.startswith("error: this should not have happened: KeyError: 'plans'")
    assert said.err.count("\n") == 1
    assert "Traceback" in (owner.data_dir / "cli.log").read_text()


def test_foreign_text_is_shown_and_not_obeyed(owner: FakeOwner, say: Say) -> None:
    story = owner.stories[OTHER_ID] = Story([job("only")], plan_id=OTHER_ID, name="tidy up").start().begin("only")
    story.fail("only", "\x1b]0;title\x07\x1b[2Jboom\nnext").finish("FAILED")
    out = say("plan", "show", OTHER_ID).out
    assert "only: boom next\n" in out
    assert "\x1b" not in out


def test_every_verb_of_the_table_says_of_itself_what_the_table_says(say: Say) -> None:
    for verb, text in VERBS.items():
        said = say(verb, "--help")
        assert said.code == 0
        assert text in " ".join(said.out.split())


def test_help_imports_nothing_that_only_verbs_need() -> None:
    code = (
        "import sys; from pilothouse.interfaces.cli.main import run_line; code = run_line(['--help'])\n"
        "heavy = {'asyncio', 'http.client', 'msgspec', 'platformdirs', 'pydantic', 'rich', 'yaml'}\n"
        "print(code, sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True
    )
    assert found.stderr == "0 []\n"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("pilothouse app", ["approvals"]),
        ("pilothouse plan ex", ["export"]),
        ("pilothouse plan show 0193b2c4-5", [PLAN_ID]),
        ("pilothouse plan diff last a", ["api"]),
        ("pilothouse plan diff nope a", []),
        ("pilothouse approvals answer x", []),
    ],
)
def test_verbs_ids_and_nodes_are_completed(
    owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch, line: str, names: list[str]
) -> None:
    monkeypatch.setenv("_PILOTHOUSE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    said = say()
    assert (said.code, said.out.split()) == (0, names)


def test_an_agent_that_is_not_installed_says_how_to_install_it(owner: FakeOwner, say: Say) -> None:
    said = say("agents")
    assert said.out.splitlines()[1:] == [
        "claude  -                              no       no    no",
        "codex   0.169.0  yes (OPENAI_API_KEY)  yes      no    no   2       /bin/codex",
    ]
    assert said.err == "claude: not installed; install it with: npm i claude\n"


@pytest.mark.parametrize("given", ["0193.1.work.ask.aa", "0193.1.work.ask.a", "api"])
def test_what_waits_is_answered_by_its_id_its_beginning_or_its_node(owner: FakeOwner, say: Say, given: str) -> None:
    waits = [("0193.1.work.ask.aa", "api"), ("0193.1.work.ask.ba", "web"), ("0193.1.work.ask.bb", "web")]
    owner.answers[("GET", "/api/approvals")] = (
        200,
        {"approvals": [{"id": wait_id, "detail": {"node": node}} for wait_id, node in waits]},
    )
    owner.answers[("POST", "/api/approvals/0193.1.work.ask.aa")] = (200, {"name": "add search"})
    assert say("approvals", "answer", given, "approve").out == "add search: answered approve\n"


def test_what_waits_is_listed_with_what_it_is_about(owner: FakeOwner, say: Say) -> None:
    wait = {
        "id": "0193.c1",
        "kind": "approval",
        "openedAt": 1,
        "runName": "tidy up",
        "question": "May run_shell be used?",
        "options": ["approve", "refuse"],
        "detail": {"tool": "run_shell", "arguments": {"command": "rm -rf build\x1b[2J", "timeoutSeconds": 5}},
    }
    owner.answers[("GET", "/api/approvals")] = (200, {"approvals": [wait, wait | {"id": "0193.c2", "detail": {}}]})
    lines = say("approvals", "list").out.splitlines()
    assert (lines[0].startswith("0193.c1  approval, "), lines[0].endswith("ago, tidy up")) == (True, True)
    assert lines[1:6] == [
        "question        May run_shell be used?",
        "command         rm -rf build",
        "timeoutSeconds  5",
        "answers         approve, refuse",
        "",
    ]
    assert lines[6].startswith("0193.c2  ")


def test_a_run_that_waits_is_shown_with_the_command_that_answers(owner: FakeOwner, say: Say) -> None:
    wait = {"id": "w1", "kind": "approval", "question": "May run_shell be used?", "options": ["approve", "refuse"]}
    row: dict[str, object] = {"id": OTHER_ID, "lifecycle": "RUNNING", "kind": "turn", "name": "hi", "error": None}
    owner.answers[("GET", f"/api/runs/{OTHER_ID}")] = (200, row | {"counts": {}, "waits": [wait]})
    assert say("runs", "show", OTHER_ID).out.splitlines()[-2:] == [
        "waits  May run_shell be used?",
        "       `pilothouse approvals answer w1 approve` (or refuse)",
    ]


@pytest.mark.parametrize(
    ("lifecycle", "last"),
    [
        ("FAILED", f"next   pilothouse runs retry {OTHER_ID[:13]} --follow"),
        ("STOPPED", f"next   pilothouse runs resume {OTHER_ID[:13]} --follow"),
        ("SUCCEEDED", "error  it broke"),
    ],
)
def test_a_run_that_came_to_no_good_end_says_how_it_goes_on(
    owner: FakeOwner, say: Say, lifecycle: str, last: str
) -> None:
    row = {"id": OTHER_ID, "name": "hi", "kind": "turn", "lifecycle": lifecycle, "counts": {}, "error": "it broke"}
    owner.answers[("GET", f"/api/runs/{OTHER_ID}")] = (200, {**row, "waits": []})
    assert say("runs", "show", OTHER_ID).out.splitlines()[-1] == last


def test_what_waits_under_no_such_name_or_several_times_is_refused(owner: FakeOwner, say: Say) -> None:
    owner.answers[("GET", "/api/approvals")] = (
        200,
        {"approvals": [{"id": f"0193.1.work.ask.b{letter}", "detail": {"node": "web"}} for letter in "ab"]},
    )
    for given in ("web", "0193"):
        said = say("approvals", "answer", given, "approve")
        assert (said.code, "2 wait under" in said.err, owner.paths("POST")) == (2, True, [])
    said = say("approvals", "answer", "nope", "approve")
    assert said.code == 2
    assert said.err == "error: nothing waits for an answer under 'nope'; see `pilothouse approvals list`\n"


def test_models_are_listed_with_who_offers_them(owner: FakeOwner, say: Say) -> None:
    assert say("models").out.splitlines() == [
        "MODEL  AGENT  VENDOR  TIER      DEFAULT  PRICED",
        "gpt-5  codex  openai  standard  yes",
    ]


def test_models_that_nobody_tells_of_are_a_failure_that_says_why(owner: FakeOwner, say: Say) -> None:
    problem = "nobody answers at http://127.0.0.1:1"
    owner.answers[("GET", "/api/models")] = (200, {"models": [], "chatModels": [], "chatProblem": problem})
    said = say("models")
    assert (said.code, said.out) == (1, "")
    why, agents = said.err.splitlines()
    assert why == f"nobody says which models answer in conversations: {problem}"
    assert agents.startswith("no agent tells which models it offers")
    assert say("models", "--json").code == 1
    owner.answers[("GET", "/api/models")] = (200, {"models": [], "chatModels": [], "chatProblem": ""})
    said = say("models")
    assert (said.code, said.err.startswith("who answers in conversations does not tell")) == (1, True)
    owner.answers[("GET", "/api/models")] = (200, {"models": []})
    said = say("models", "claude")
    assert (said.code, said.err[:45]) == (1, "claude does not tell which models it offers; ")


@pytest.mark.parametrize("verb", ["approvals", "chats", "commands", "credentials", "keys", "plan", "repo", "runs"])
def test_a_verb_that_is_told_nothing_else_lists(verb: str, owner: FakeOwner, say: Say) -> None:
    assert say(verb) == say(verb, "list")
    assert say(verb, "--json") == say(verb, "list", "--json")
    assert "Commands:" in say(verb, "--help").out
    assert say(verb, "nonsense").code == 2


def test_whoever_waits_at_a_terminal_is_told_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    monkeypatch.setattr(door, "note", lambda message: told.set())
    monkeypatch.setattr(door, "SILENCE_S", 0.001)
    with door.patience("asking"):
        assert not told.is_set(), "into a pipe nothing is said"
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True)
    with door.patience("asking"):
        assert told.wait(30)
    told.clear()
    monkeypatch.setattr(door, "SILENCE_S", 3600)
    with door.patience("asking"):
        pass
    assert not told.is_set()


def test_a_value_that_is_none_of_an_option_is_refused_with_those_that_are(owner: FakeOwner, say: Say) -> None:
    said = say("keys", "create", "--name", "x", "--scope", "super")
    assert said.code == 2
    assert said.err.startswith("error: invalid value for '--scope': 'super' is not one of 'read', 'run', ")
