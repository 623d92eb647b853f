"""``pilothouse serve`` as browsers and scripts meet it: logging in, strangers at the door, streams that survive."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.flow import PATIENCE_S, Repo, make_repo
from tests.support.terminal import Command, Desk, desk, held, until

from pilothouse.client.sse import Decoder, Message
from pilothouse.interfaces.http.access import ROUTES
from pilothouse.interfaces.http.guard import OPEN_PATHS


class Server:
    """A running ``pilothouse serve``."""

    def __init__(self, command: Command) -> None:
        self.command = command
        command.says("/login?token=")
        self.login = command.out.strip()
        self.url = self.login.partition("/login")[0]

    @contextmanager
    def browser(self) -> Iterator[httpx.Client]:
        """Somebody who has opened the printed URL."""
        with self.stranger() as client:
            assert client.get(self.login).status_code == 303
            yield client

    def stranger(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE_S)


class Stream:
    """An open stream of events; everything it has said so far is in ``messages``."""

    def __init__(self, response: httpx.Response) -> None:
        self._decoder, self._chunks = Decoder(), response.iter_raw()
        self.messages: list[Message] = []

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(message.data) for message in self.messages if not message.event]

    def until(self, met: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read on to an event; what came with it is read too."""
        before = len(self.events)
        while not (found := [event for event in self.events[before:] if met(event)]):
            self.messages += self._decoder.feed(next(self._chunks))
        return found[0]

    def to_the_end(self) -> None:
        for chunk in self._chunks:
            self.messages += self._decoder.feed(chunk)


@contextmanager
def streaming(client: httpx.Client, path: str, **headers: str) -> Iterator[Stream]:
    with client.stream("GET", path, headers={"accept": "text/event-stream", **headers}) as response:
        assert response.status_code == 200
        yield Stream(response)


def is_a(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["type"] == name


def up_to(met: Callable[[dict[str, Any]], bool], events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return events[: next(index for index, event in enumerate(events) if met(event)) + 1]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo")


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path) as made:
        yield made


def serve(at: Desk) -> Server:
    return Server(at.start("serve", "--port", "0", "--no-open"))


def plan(at: Desk, name: str = "held") -> dict[str, Any]:
    work = held(at.path / "gate", "echo 1 > a", at.path / "here")
    return {"name": name, "targetBranch": name, "jobs": [{"producerId": "a", "task": "t", "work": work}]}


def test_who_has_not_logged_in_or_comes_from_elsewhere_is_turned_away(at: Desk) -> None:
    server = serve(at)
    host = server.url.removeprefix("http://")
    with server.stranger() as stranger:
        assert stranger.get("/healthz").json() == {"status": "ok"}
        assert stranger.get("/readyz").json()["status"] == "ready"
        for path in ("/api/plans", "/api/events", "/openapi.json", "/metrics"):
            answer = stranger.get(path)
            assert (answer.status_code, answer.json()["code"]) == (401, "no_credential")
        opened = stranger.get(server.login)
        assert opened.status_code == 303
        cookie = opened.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert stranger.get("/api/plans").json() == {"plans": []}
        for headers in ({"host": "evil.example"}, {"host": "evil.example:80"}, {"origin": "http://evil.example"}):
            assert stranger.get("/api/plans", headers=headers).status_code == 403
        origin = {"origin": server.url}
        assert stranger.post("/api/stop-everything", headers=origin).json() == {"stopped": []}
        assert stranger.post("/api/stop-everything").status_code == 200  # a program
        assert stranger.post("/api/stop-everything", headers={"sec-fetch-site": "cross-site"}).status_code == 403
        assert stranger.post("/api/stop-everything", headers={"origin": f"https://{host}"}).status_code == 403
        assert stranger.post("/api/logout", headers=origin).status_code == 204
        assert stranger.get("/api/plans").status_code == 401
        assert stranger.get(server.login).status_code == 401


def test_only_registered_repositories_are_worked_in_over_http(at: Desk, repo: Repo) -> None:
    server = serve(at)
    (at.path / "gate").touch()
    with server.browser() as browser:
        body = {"plan": plan(at), "repoPath": str(repo.path)}
        unknown = browser.post("/api/plans", json=body)
        assert (unknown.status_code, unknown.json()["field"]) == (422, "repoPath")
        assert f"pilothouse repo add {repo.path}" in unknown.json()["fix"]
        assert browser.post("/api/plans", json={**body, "registerRepo": True}).status_code == 403
        assert browser.get("/api/plans").json() == {"plans": []}
        assert at.run("repo", "add", repo.path).code == 0
        made = browser.post("/api/plans", json=body)
        assert made.status_code == 201
        shown = made.headers["location"]
        until(lambda: browser.get(shown).json()["status"] == "succeeded")
        wrong = browser.post("/api/plans", json={"plan": {"name": "x", "jobs": []}, "repoPath": str(repo.path)})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "jobs")
        assert at.run("repo", "remove", repo.path).code == 0
        assert browser.post("/api/plans", json=body).status_code == 422
    assert repo.show("held", "a") == "1\n"


def test_a_stream_of_a_run_goes_on_after_its_server_was_killed_without_gap_or_repetition(at: Desk, repo: Repo) -> None:
    server = serve(at)
    at.run("run", at.plan(json.dumps(plan(at))), "--repo", repo.path, "--detach")
    run_id = at.ask("plan", "list")["plans"][0]["id"]
    path = f"/api/runs/{run_id}/events"
    with server.browser() as browser, streaming(browser, path) as before:
        before.until(lambda event: event.get("phase") == "work")
        until((at.path / "here").exists)
        server.command.signal(signal.SIGKILL)
        with pytest.raises(httpx.RemoteProtocolError):
            before.to_the_end()
    server = serve(at)
    last = before.messages[-1].id
    with server.browser() as browser:
        with streaming(browser, path, **{"last-event-id": last}) as after:
            after.until(is_a("RUN_RECOVERED"))
            (at.path / "gate").touch()
            after.to_the_end()
        assert (
            browser.get(
                path, headers={"accept": "text/event-stream", "last-event-id": after.messages[-1].id}
            ).status_code
            == 204
        )
        recorded = browser.get(path).json()["events"]
    assert before.events + after.events == recorded
    assert [int(message.id) for message in before.messages + after.messages] == list(range(1, len(recorded) + 1))
    assert recorded[-1]["type"] == "RUN_FINISHED"
    assert repo.show("held", "a") == "1\n"


def test_the_stream_of_all_runs_sees_them_made_working_and_deleted(at: Desk, repo: Repo) -> None:
    server = serve(at)
    at.run("repo", "add", repo.path)
    (at.path / "gate").touch()
    with server.browser() as browser, streaming(browser, "/api/events") as everything:
        runs = []
        for name in ("one", "two"):
            made = browser.post("/api/plans", json={"plan": plan(at, name), "repoPath": str(repo.path)}).json()
            everything.until(is_a("RUN_FINISHED"))
            runs.append(made["id"])
        until(lambda: browser.delete(f"/api/plans/{runs[0]}").status_code == 204)
        assert everything.until(is_a("RUN_DELETED"))["runId"] == runs[0]
        made = [event["runId"] for event in everything.events if event["type"] == "RUN_CREATED"]
        assert made == runs
        seqs = [event["seq"] for event in everything.events if event["runId"] == runs[1]]
        assert seqs == list(range(1, len(seqs) + 1))
        hello = everything.messages[0]
        assert (hello.event, json.loads(hello.data)["cursor"]) == ("hello", hello.id)
        first_end = next(message.id for message in everything.messages if b"RUN_FINISHED" in message.data)
        with streaming(browser, "/api/events", **{"last-event-id": first_end}) as resumed:
            resumed.until(is_a("RUN_DELETED"))
        again, first = up_to(is_a("RUN_DELETED"), resumed.events), up_to(is_a("RUN_DELETED"), everything.events)
        assert again == first[-len(again) :]
        assert all(event in again for event in first if event["runId"] == runs[1])
        assert browser.delete(f"/api/runs/{runs[1]}").status_code == 204
        assert everything.until(is_a("RUN_DELETED"))["runId"] == runs[1]
        assert browser.get(f"/api/runs/{runs[1]}/events").status_code == 410


def test_a_server_that_is_asked_to_end_does_so_although_streams_are_open_and_work_goes_on(at: Desk, repo: Repo) -> None:
    server = serve(at)
    at.run("run", at.plan(json.dumps(plan(at))), "--repo", repo.path, "--detach")
    until((at.path / "here").exists)
    pid = int((at.path / "here").read_text())
    run_id = at.ask("plan", "list")["plans"][0]["id"]
    with (
        server.browser() as browser,
        streaming(browser, f"/api/runs/{run_id}/events") as one,
        streaming(browser, "/api/events") as everything,
    ):
        one.until(lambda event: event.get("phase") == "work")
        server.command.signal(signal.SIGTERM)
        one.to_the_end()
        everything.to_the_end()
        ended = server.command.wait()
    assert ended.code == 0
    assert "1 runs go on" in ended.err
    assert not (at.data_dir / "owner.json").exists()
    assert Path(f"/proc/{pid}").exists()
    (at.path / "gate").touch()
    assert at.run("plan", "show", "last", "--follow").code == 0
    assert repo.show("held", "a") == "1\n"


def test_a_port_or_an_address_that_cannot_be_had_is_one_sentence(at: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        busy = at.run("serve", "--no-open", "--port", port)
    nowhere = at.run("serve", "--no-open", "--port", "0", "--host", "no such host")
    for said in (busy, nowhere):
        assert (said.code, said.out) == (2, "")
        assert "should not have happened" not in said.err
        [_] = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert port in busy.err


def test_a_key_outlives_the_server_that_made_it_sees_what_is_its_users_and_ends_when_it_is_revoked(
    at: Desk, repo: Repo
) -> None:
    (at.path / "gate").touch()
    server = serve(at)
    at.run("repo", "add", repo.path)
    at.run("run", at.plan(json.dumps(plan(at, "ours"))), "--repo", repo.path)
    made = at.ask("keys", "create", "--name", "nightly", "--user", "ci")
    assert set(made) == {"id", "name", "key"}
    server.command.signal(signal.SIGKILL)
    server.command.wait()
    server = serve(at)
    with server.stranger() as program:
        program.headers["authorization"] = f"Bearer {made['key']}"
        assert program.get("/api/plans").json() == {"plans": []}
        created = program.post("/api/plans", json={"plan": plan(at, "theirs"), "repoPath": str(repo.path)})
        assert created.status_code == 201
        until(lambda: program.get(created.headers["location"]).json()["status"] == "succeeded")
        assert [found["name"] for found in program.get("/api/plans").json()["plans"]] == ["theirs"]
        others = [found["id"] for found in at.ask("plan", "list")["plans"] if found["name"] == "ours"]
        assert [program.get(f"/api/plans/{found}").status_code for found in others] == [404]
        assert at.run("keys", "revoke", made["id"]).code == 0
        refused = program.get("/api/plans")
        assert (refused.status_code, refused.json()["code"]) == (401, "invalid_key")
    assert not [path for path in at.path.rglob("*") if path.is_file() and made["key"].encode() in path.read_bytes()]


def test_the_description_names_every_route(at: Desk) -> None:
    with serve(at).browser() as browser:
        description = browser.get("/openapi.json").json()
        assert "html" in browser.get("/docs").headers["content-type"]
    found = {f"{method.upper()} {path}" for path, operations in description["paths"].items() for method in operations}
    assert {route for route in found if route.split()[1] not in OPEN_PATHS} == set(ROUTES)
