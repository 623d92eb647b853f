"""``pilothouse run``: from the file to the exit code."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest
from tests.interfaces.cli.conftest import Say
from tests.interfaces.cli.fake_owner import FakeOwner
from tests.interfaces.cli.story import PLAN_ID, Story, job

PLAN = "name: add-search\njobs:\n  - { producerId: api, task: do it, work: 'true' }\n"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN, "utf-8")
    return path


def two() -> Story:
    return Story([job("api"), job("web", "api", group="frontend")])


def test_a_plan_that_succeeds_is_told_in_lines_and_summed_up(owner: FakeOwner, say: Say, plan: Path) -> None:
    owner.submitted = two().start().begin("api").succeed("api").begin("web").succeed("web").finish()
    said = say("run", str(plan))
    assert said.err == ""
    assert said.out == (
        "[   0.2s] started: 2 nodes\n"
        "[   0.3s] target: feature/search\n"
        "[   0.6s] api: running\n"
        "[   1.0s] api: succeeded in 0.4s\n"
        "[   1.4s] web: running\n"
        "[   1.8s] web: succeeded in 0.4s\n"
        "✓ succeeded  add-search  2 of 2 nodes succeeded in 1.7s\n"
        "plan    0193b2c4-5d6e\n"
        "result  branch feature/search at cccccccccccc in /repo (nothing merged into it)\n"
    )
    assert said.code == 0


def test_what_failed_is_told_with_where_to_look(owner: FakeOwner, say: Say, plan: Path) -> None:
    owner.submitted = two().start().begin("api").fail("api").block("web", "api failed").finish("FAILED")
    said = say("run", str(plan))
    assert said.code == 1
    assert "api: failed: work exited with 1\n" in said.out
    assert "web: blocked: api failed\n" in said.out
    assert "pilothouse plan logs 0193b2c4-5d6e api\n" in said.out
    assert "pilothouse plan retry 0193b2c4-5d6e\n" in said.out


@pytest.mark.parametrize(("status", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("PARTIAL", 3)])
def test_the_exit_code_is_how_it_ended(owner: FakeOwner, say: Say, plan: Path, status: str, code: int) -> None:
    owner.submitted = two().start().finish(status)
    assert say("run", str(plan)).code == code


def test_a_plan_that_somebody_stopped_exits_as_interrupted(owner: FakeOwner, say: Say, plan: Path) -> None:
    owner.submitted = two().start().begin("api").stop().save("api")
    said = say("run", str(plan))
    assert said.code == 130
    assert "pilothouse plan resume 0193b2c4-5d6e\n" in said.out


def test_edits_saved_after_the_stop_are_in_the_answer(owner: FakeOwner, say: Say, plan: Path) -> None:
    owner.submitted = two().start().begin("api").stop()
    timer = threading.Timer(0.3, owner.tell, [lambda story: story.save("api")])
    timer.start()
    said = say("run", str(plan))
    timer.join()
    assert "saved   api: its edits are under refs/rescue/api\n" in said.out


def test_json_is_the_final_plan_and_nothing_else(owner: FakeOwner, say: Say, plan: Path) -> None:
    owner.submitted = two().start().begin("api").succeed("api").finish("PARTIAL")
    said = say("run", str(plan), "--json")
    view = json.loads(said.out)
    assert (view["planId"], view["status"], view["nodes"][0]["status"]) == (PLAN_ID, "partial", "succeeded")
    assert "api: succeeded" in said.err
    assert said.code == 3


def test_detaching_prints_the_id_and_how_to_follow(owner: FakeOwner, say: Say, plan: Path) -> None:
    owner.submitted = two()
    said = say("run", str(plan), "--detach")
    assert said.out == f"{PLAN_ID}\n"
    assert "plan show 0193b2c4-5d6e --follow" in said.err
    assert said.code == 0


def test_what_waits_for_a_person_is_told_with_the_command_that_answers(owner: FakeOwner, say: Say, plan: Path) -> None:
    owner.submitted = two().start().begin("api").ask("api", "What happened?").stop().save("api")
    said = say("run", str(plan))
    assert "api: waits for a review: What happened? `pilothouse approvals answer w1 rerun` (or accept)" in said.out


def test_the_text_goes_to_the_owner_with_an_absolute_repository(owner: FakeOwner, say: Say, tmp_path: Path) -> None:
    owner.submitted = two().start().finish()
    path = tmp_path / "plans" / "p.yaml"
    path.parent.mkdir()
    path.write_text(f"repoPath: ../app\n{PLAN}", "utf-8")
    say("run", str(path))
    assert sent(owner) == {
        "text": f"repoPath: ../app\n{PLAN}",
        "repoPath": str(path.parent / "../app"),
        "updateCheckout": False,
        "registerRepo": True,
    }
    say("run", str(path), "--repo", str(tmp_path), "--update-checkout")
    assert (sent(owner)["repoPath"], sent(owner)["updateCheckout"]) == (str(tmp_path), True)


def sent(owner: FakeOwner) -> dict[str, object]:
    bodies = [body for method, path, body in owner.asked if (method, path) == ("POST", "/api/plans")]
    found: dict[str, object] = bodies[-1]
    return found


def test_a_plan_without_a_repository_means_the_current_directory(
    owner: FakeOwner, say: Say, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.submitted = two().start().finish()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    say("run", str(plan))
    assert sent(owner)["repoPath"] == str(tmp_path / "here")


def test_a_dash_reads_stdin(owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    owner.submitted = two().start().finish()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PLAN.encode())))
    assert say("run", "-").code == 0
    assert sent(owner)["text"] == PLAN


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\x89PNG\r\n\xff", "not text"),
        (b"a" * ((1 << 20) + 1), "larger than 1 MiB"),
        (b"name: [unfinished", "plan.yaml"),
        (None, "does not exist"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_before_any_server_is_asked(
    data_dir: Path, say: Say, tmp_path: Path, content: bytes | None, told: str
) -> None:
    path = tmp_path / "plan.yaml"
    if content is not None:
        path.write_bytes(content)
    said = say("run", str(path))
    assert said.code == 2
    assert said.err.startswith("error: ")
    assert told in said.err
    assert said.err.count("\n") == 1
    assert not (data_dir / "owner.log").exists()


def test_an_empty_plan_name_is_refused_as_that(say: Say) -> None:
    assert say("run", "").err == "error: PLAN is empty (give the path of a plan file, or - for stdin)\n"


def test_a_refusal_of_the_owner_is_one_sentence_with_the_field_and_the_fix(
    owner: FakeOwner, say: Say, plan: Path
) -> None:
    problem = {
        "detail": "names no other job",
        "code": "bad_input",
        "field": "jobs[0].dependencies[0]",
        "fix": "one of api",
    }
    owner.answers[("POST", "/api/plans")] = (422, problem)
    said = say("run", str(plan))
    assert said.err == "error: jobs[0].dependencies[0]: names no other job (one of api)\n"
    assert (said.code, said.out) == (2, "")
