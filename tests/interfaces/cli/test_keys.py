"""Keys on the command line: shown once, on stdout alone, so that a script can keep them."""

from __future__ import annotations

import json

import pytest
from tests.interfaces.cli.conftest import Say
from tests.interfaces.cli.fake_owner import KEY, FakeOwner


def test_the_key_is_all_there_is_on_stdout(owner: FakeOwner, say: Say) -> None:
    said = say("keys", "create", "--name", "nightly")
    assert (said.code, said.out) == (0, "pk_secret\n")
    assert said.err == "This is 4hK0vQ2mYtB, as local, to run. It is shown only now; keep it safe.\n"
    assert owner.asked[-1] == ("POST", "/api/keys", {"name": "nightly", "scopes": ["run"]})


def test_as_json_it_comes_with_its_id_and_name(owner: FakeOwner, say: Say) -> None:
    said = say("keys", "create", "--name", "ops", "--user", "ci", "--scope", "read", "--scope", "approve", "--json")
    assert json.loads(said.out) == {"id": "4hK0vQ2mYtB", "name": "ops", "key": "pk_secret"}
    assert owner.asked[-1][2] == {"name": "ops", "user": "ci", "scopes": ["read", "approve"]}


@pytest.mark.parametrize("arguments", [("create",), ("create", "--name", "n", "--scope", "everything"), ("revoke",)])
def test_a_mistake_is_refused_before_anything_is_asked(owner: FakeOwner, say: Say, arguments: tuple[str, ...]) -> None:
    assert say("keys", *arguments).code == 2
    assert not owner.paths("POST") + owner.paths("DELETE")


def test_keys_are_listed_with_whose_they_are_and_when_they_were_used(owner: FakeOwner, say: Say) -> None:
    used = {**KEY, "id": "4hK0vQ2mYtC", "user": "ci", "lastUsedAt": KEY["createdAt"]}
    owner.answers[("GET", "/api/keys")] = (200, {"keys": [KEY, used]})
    head, never, once = say("keys", "list").out.splitlines()
    assert head.split() == ["ID", "USER", "SCOPES", "MADE", "USED", "NAME"]
    assert " never " in never
    assert once.startswith("4hK0vQ2mYtC  ci ") and " ago" in once
    owner.answers[("GET", "/api/keys")] = (200, {"keys": []})
    assert say("keys", "list").err == "no API keys\n"


def test_a_key_is_revoked_by_its_id(owner: FakeOwner, say: Say) -> None:
    assert say("keys", "revoke", "4hK0vQ2mYtB").out == "revoked: 4hK0vQ2mYtB\n"
    assert owner.paths("DELETE") == ["/api/keys/4hK0vQ2mYtB"]


def test_ids_of_keys_are_completed(owner: FakeOwner, say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_PILOTHOUSE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "pilothouse keys revoke 4h")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert say().out.split() == ["4hK0vQ2mYtB"]
