"""Credentials on the command line: secrets from stdin or a prompt, accounts from a browser."""

from __future__ import annotations

import io
import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.cli.conftest import Say
from tests.interfaces.cli.fake_owner import FakeOwner

from pilothouse.interfaces.cli import callback
from pilothouse.interfaces.cli.main import run_line

MADE: dict[str, Any] = {
    "id": "slack:acme",
    "kind": "oauth",
    "name": "acme",
    "service": "slack",
    "default": True,
    "scopes": ["chat:write"],
    "createdAt": 1767225600000,
    "state": "ok",
}
VALUE = {**MADE, "id": "env:API_KEY", "kind": "value", "default": False, "scopes": []}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_value_comes_from_stdin_without_its_last_line_break(
    owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.answers[("POST", "/api/credentials")] = (201, VALUE)
    monkeypatch.setattr("sys.stdin", io.StringIO("line one\nline two\n"))
    said = say("credentials", "set", "API_KEY")
    assert (said.code, said.out) == (0, "kept: env:API_KEY\n")
    assert owner.asked[-1][2] == {"name": "API_KEY", "value": "line one\nline two"}


def test_at_a_terminal_it_is_asked_for_and_not_shown(
    owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.answers[("POST", "/api/credentials")] = (201, MADE)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("typer.prompt", lambda text, **how: "ghp_secret" if how["hide_input"] else "")
    said = say("credentials", "add", "github", "--account", "work")
    assert "ghp_secret" not in said.out + said.err
    assert owner.asked[-1][2] == {"service": "github", "value": "ghp_secret", "account": "work"}


def test_a_secret_is_no_argument(owner: FakeOwner, say: Say) -> None:
    assert say("credentials", "set", "API_KEY", "planted").code == 2
    assert say("credentials", "add", "github", "--value", "planted").code == 2
    assert not owner.paths("POST")


def test_nothing_on_stdin_is_a_mistake(owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    said = say("credentials", "set", "API_KEY")
    way = "as in: pilothouse credentials set API_KEY <file"
    assert (said.code, said.err) == (2, f"error: there is no value of API_KEY on stdin ({way})\n")
    assert not owner.paths("POST")


def test_credentials_are_listed_made_the_default_and_removed(owner: FakeOwner, say: Say) -> None:
    broken = {**MADE, "id": "slack:old", "default": False, "state": "reconnect"}
    owner.answers[("GET", "/api/credentials")] = (200, {"credentials": [VALUE, MADE, broken], "services": []})
    head, value, account, old = say("credentials", "list").out.splitlines()
    assert head.split() == ["ID", "KIND", "DEFAULT", "STATE", "MADE", "SCOPES"]
    assert value.startswith("env:API_KEY  value")
    assert " yes " in account and " ok " in account and account.endswith("chat:write")
    assert " reconnect " in old
    owner.answers[("GET", "/api/credentials")] = (200, {"credentials": [], "services": []})
    assert say("credentials", "list").err == "no credentials\n"

    owner.answers[("POST", "/api/credentials/slack%3Aacme/default")] = (200, MADE)
    assert say("credentials", "default", "slack:acme").out == "default: slack:acme\n"
    owner.answers[("DELETE", "/api/credentials/slack%3Aacme")] = (204, None)
    assert say("credentials", "remove", "slack:acme").out == "removed: slack:acme\n"


def begun(owner: FakeOwner, ends: float = 600.0) -> None:
    owner.answers[("POST", "/api/credentials/connect")] = (
        200,
        {
            "authorizeUrl": "https://slack.example/authorize?x=1",
            "state": "state-1",
            "redirectUri": "",
            "expiresAt": round((time.time() + ends) * 1000),
        },
    )
    owner.answers[("POST", "/api/credentials/connected")] = (201, MADE)


class Browser:
    """Comes back with ``queries``, one after the other; remembers what it was shown."""

    def __init__(self, owner: FakeOwner, *queries: str) -> None:
        self.owner = owner
        self.queries = queries
        self.shown: list[int] = []
        self.thread = threading.Thread(target=self.come_back)

    def open(self, url: str) -> bool:
        assert url == "https://slack.example/authorize?x=1"
        self.thread.start()
        return True

    def come_back(self) -> None:
        (asked,) = [body for _, path, body in self.owner.asked if path == "/api/credentials/connect"]
        for query in self.queries:
            try:
                with urllib.request.urlopen(f"{asked['redirectUri']}{query}", timeout=10) as answer:
                    self.shown.append(answer.status)
            except urllib.error.HTTPError as error:
                self.shown.append(error.code)


def test_an_account_is_connected_by_the_answer_that_has_the_right_state(
    owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(owner)
    browser = Browser(owner, "", "?state=guessed&code=theirs", "/else?state=state-1&code=x", "?state=state-1&code=mine")
    monkeypatch.setattr("webbrowser.open", browser.open)
    said = say("credentials", "connect", "slack", "--account", "acme", "--json")
    browser.thread.join()
    assert json.loads(said.out) == MADE
    assert "https://slack.example/authorize?x=1" in said.err
    assert browser.shown == [404, 404, 404, 200]
    asked = {path: body for _, path, body in owner.asked}
    assert asked["/api/credentials/connect"]["account"] == "acme"
    assert asked["/api/credentials/connected"] == {"state": "state-1", "code": "mine"}
    assert "mine" not in said.out + said.err


def test_a_service_may_know_this_machine_by_another_name(
    owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(owner)
    browser = Browser(owner, "?state=state-1&code=mine")
    monkeypatch.setattr("webbrowser.open", browser.open)
    assert say("credentials", "connect", "slack", "--host", "localhost").code == 0
    browser.thread.join()
    asked = {path: body for _, path, body in owner.asked}
    assert asked["/api/credentials/connect"]["redirectUri"].startswith("http://localhost:")
    assert say("credentials", "connect", "slack", "--host", "evil.example").code == 2


def test_who_does_not_agree_connects_nothing(owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(owner)
    browser = Browser(owner, "?state=state-1&error=access_denied")
    monkeypatch.setattr("webbrowser.open", browser.open)
    said = say("credentials", "connect", "slack")
    browser.thread.join()
    assert said.code == 2
    assert "access_denied" in said.err
    assert owner.paths("POST") == ["/api/credentials/connect"]


def test_an_answer_that_never_comes_is_not_waited_for_for_ever(
    owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(owner, ends=0.05)
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("it was told not to"))
    said = say("credentials", "connect", "slack", "--no-browser")
    assert said.code == 2
    assert "begin again" in said.err


def test_a_port_that_is_taken_is_said(owner: FakeOwner, data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with callback.listening(0) as taken:
        port = str(taken.server.server_port)
        line = ("credentials", "connect", "slack", "--port", port, "--no-browser", "--data-dir", str(data_dir))
        assert run_line(line) == 2
    assert f"port {port}" in capsys.readouterr().err
