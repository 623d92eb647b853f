"""API keys over HTTP: made, shown, used, limited, revoked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interfaces.http.doors import SSE, Sent, client_of, events, inside, run, served
from tests.interfaces.http.keyed import key_of, keyed, showing
from tests.interfaces.http.test_plans import logged_in, refusal
from tests.support.services import PATIENCE_S, REPO, ended, happened, plan, submit

from pilothouse.core.auth.keys import RANDOM_BYTES, make_key
from pilothouse.core.auth.principals import LOCAL, Scope
from pilothouse.core.auth.rates import per_minute
from pilothouse.engine.access.keys import DEFAULT_RATE
from pilothouse.settings import Settings

UNKNOWN = make_key(bytes(RANDOM_BYTES)).text


def test_a_key_is_made_shown_once_used_and_revoked() -> None:
    async def journey() -> None:
        async with inside() as at:
            made = await at.client.post("/api/keys", json={"name": "nightly", "user": "ci", "scopes": ["read"]})
            assert made.status_code == 201, made.text
            found = made.json()
            key = found.pop("key")
            assert found == {**found, "name": "nightly", "user": "ci", "scopes": ["read"], "lastUsedAt": None}
            async with showing(at, key) as client:
                assert (await client.get("/api/plans")).json() == {"plans": []}
                (listed,) = (await client.get("/api/keys")).json()["keys"]
                assert (listed["id"], listed["name"]) == (found["id"], "nightly")
                assert listed["lastUsedAt"] >= listed["createdAt"]
                assert key not in (await at.client.get("/api/keys")).text
                assert (await at.client.delete(f"/api/keys/{found['id']}")).status_code == 204
                refusal(await client.get("/api/plans"), 401, "invalid_key")
            refusal(await at.client.delete(f"/api/keys/{found['id']}"), 404, "not_found")

    run(journey())


def test_without_a_user_a_key_is_of_who_makes_it_and_without_scopes_it_may_run() -> None:
    async def journey() -> None:
        async with inside() as at, await keyed(at, "bob", Scope.ADMIN) as admin:
            for client, user in ((at.client, LOCAL), (admin, "bob")):
                made = (await client.post("/api/keys", json={"name": "n"})).json()
                assert (made["user"], made["scopes"]) == (user, ["run"])

    run(journey())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a\tb"}, "name"),
        ({"name": "n", "user": "a b"}, "user"),
        ({"name": "n", "scopes": ["everything"]}, "scopes"),
        ({"name": "n", "scopes": []}, "scopes"),
        ({"name": "n", "scope": "run"}, "scope"),
    ],
)
def test_what_cannot_be_a_key_is_refused_by_field(body: dict[str, object], field: str) -> None:
    async def journey() -> None:
        async with inside() as at:
            refusal(await at.client.post("/api/keys", json=body), 422, "bad_input", field)
            assert (await at.client.get("/api/keys")).json() == {"keys": []}

    run(journey())


def test_over_tcp_keys_are_made_and_revoked_by_who_may_everything() -> None:
    async def journey() -> None:
        async with inside() as at:
            made = await at.services.keys.create("n", "ann", (Scope.APPROVE,))
            async with showing(at, made.key) as ann:
                refusal(await ann.post("/api/keys", json={"name": "more", "scopes": ["admin"]}), 403, "needs_scope")
                refusal(await ann.delete(f"/api/keys/{made.info.id}"), 403, "needs_scope")
            browser = await logged_in(at)
            async with await keyed(at, "bob", Scope.ADMIN) as admin:
                for client in (browser, admin):
                    assert (await client.post("/api/keys", json={"name": "n", "user": "eve"})).status_code == 201
                assert (await admin.delete(f"/api/keys/{made.info.id}")).status_code == 204
                users = {key["user"] for key in (await admin.get("/api/keys")).json()["keys"]}
                assert users == {"bob", "eve"}

    run(journey())


def test_a_key_is_taken_in_either_header_and_says_who_one_is_at_either_door() -> None:
    async def journey() -> None:
        async with inside() as at:
            key = await key_of(at, "bob", Scope.RUN)
            await submit(at.services, "write a")
            at.guard.listening("127.0.0.1", 80)
            async with client_of(at.guard.tcp(at.app), "http://127.0.0.1") as tcp:
                for client in (tcp, at.client):
                    for headers in (
                        {"X-API-Key": key},
                        {"Authorization": f"Bearer {key}"},
                        {"Authorization": f"bearer  {key} "},
                        {"Authorization": f"Bearer {key}", "X-API-Key": key},
                    ):
                        answered = await client.get("/api/plans", headers=headers)
                        assert (answered.status_code, answered.json()) == (200, {"plans": []}), headers
                assert len((await at.client.get("/api/plans")).json()["plans"]) == 1

    run(journey())


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": UNKNOWN},
        {"X-API-Key": "nonsense"},
        {"X-API-Key": ""},
        {"X-API-Key": "pk_\xff"},
        {"Authorization": f"Bearer {UNKNOWN}"},
        {"Authorization": "Bearer"},
    ],
)
def test_a_key_that_is_wrong_is_refused_also_beside_a_good_session(headers: dict[str, str]) -> None:
    async def journey() -> None:
        async with inside() as at:
            browser = await logged_in(at)
            raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
            for path in ("/api/plans", "/openapi.json", "/api/nope"):
                for client in (browser, at.client):
                    refused = await client.get(path, headers=raw)
                    refusal(refused, 401, "invalid_key")
                    assert refused.headers["www-authenticate"] == 'Bearer realm="pilothouse", error="invalid_token"'
                    assert UNKNOWN not in refused.text

    run(journey())


def test_two_keys_at_once_are_refused_and_what_is_no_bearer_is_not_ours() -> None:
    async def journey() -> None:
        async with inside() as at:
            one, two = [await key_of(at, user, Scope.READ) for user in ("ann", "bob")]
            both = {"X-API-Key": one, "Authorization": f"Bearer {two}"}
            refusal(await at.client.get("/api/plans", headers=both), 401, "no_credential")
            basic = await at.client.get("/api/plans", headers={"Authorization": "Basic dXNlcjpwdw=="})
            assert basic.status_code == 200  # whoever comes in by the socket is known anyway

    run(journey())


def test_without_a_credential_it_is_said_how_to_come_in() -> None:
    async def journey() -> None:
        async with inside() as at:
            at.guard.listening("127.0.0.1", 80)
            async with client_of(at.guard.tcp(at.app), "http://127.0.0.1") as stranger:
                refused = await stranger.get("/api/plans")
                assert "API key" in str(refusal(refused, 401, "no_credential")["detail"])
                assert refused.headers["www-authenticate"] == 'Bearer realm="pilothouse"'

    run(journey())


def test_a_missing_scope_is_named_for_programs_too() -> None:
    async def journey() -> None:
        async with inside() as at, await keyed(at, "bob", Scope.READ) as client:
            refused = await client.post("/api/stop-everything")
            assert "scope run" in str(refusal(refused, 403, "needs_scope")["detail"])
            challenge = 'Bearer realm="pilothouse", error="insufficient_scope", scope="run"'
            assert refused.headers["www-authenticate"] == challenge

    run(journey())


def test_where_a_request_with_a_key_comes_from_does_not_matter() -> None:
    async def journey() -> None:
        async with inside() as at, await keyed(at, "bob", Scope.RUN) as client:
            for headers in (
                {"origin": "https://app.example"},
                {"host": "tunnel.example:443"},
                {"sec-fetch-site": "cross-site"},
            ):
                assert (await client.post("/api/stop-everything", headers=headers)).status_code == 200, headers

    run(journey())


def test_a_key_never_gets_what_is_left_to_the_local_user_at_the_socket() -> None:
    async def journey() -> None:
        async with inside(mode="background") as at:
            key = {"X-API-Key": await key_of(at, LOCAL, Scope.ADMIN)}
            refusal(await at.client.post("/api/owner/step-down", headers=key), 403, "denied")
            body = {"plan": plan("write a"), "registerRepo": True}
            refusal(await at.client.post("/api/plans", json=body, headers=key), 403, "denied")
            refused = await at.client.post("/api/plans", json={"plan": plan("write a")}, headers=key)
            refusal(refused, 422, "bad_input", "repoPath")
            assert not at.stepped_down

    run(journey())


def test_a_plan_of_a_key_belongs_to_its_user() -> None:
    async def journey() -> None:
        async with inside() as at, await keyed(at, "bob", Scope.RUN) as bob:
            await at.client.post("/api/repos", json={"path": REPO})  # by the local user, so for everybody
            created = await bob.post("/api/plans", json={"plan": plan("write a")})
            assert created.status_code == 201, created.text
            plan_id = created.json()["planId"]
            assert await ended(at.services, plan_id) == "succeeded"
            row = (await bob.get(f"/api/runs/{plan_id}")).json()
            assert (row["owner"], row["cause"]) == ("bob", "http")
            assert [found["id"] for found in (await bob.get("/api/plans")).json()["plans"]] == [plan_id]
            refusal(await bob.delete("/api/repos", params={"path": REPO}), 403, "denied")

    run(journey())


def test_a_key_that_is_used_too_often_is_told_when_to_come_back_and_others_are_not() -> None:
    async def journey() -> None:
        async with (
            inside() as at,
            await keyed(at, "bob", Scope.READ) as bob,
            await keyed(at, "bob", Scope.READ) as other,
        ):
            for _ in range(10 * int(DEFAULT_RATE.burst)):
                answered = await bob.get("/healthz")
                if answered.status_code != 200:
                    break
            refusal(answered, 429, "too_many_requests")
            assert int(answered.headers["retry-after"]) >= 1
            assert (await other.get("/healthz")).status_code == 200

    run(journey())


def test_the_rate_in_the_settings_is_the_one_that_is_meant_by_default() -> None:
    assert per_minute(Settings.model_fields["key_rate"].default) == DEFAULT_RATE


def test_what_a_key_opened_ends_when_it_is_revoked(tmp_path: Path) -> None:
    async def journey() -> None:
        async with served(tmp_path, keepalive=0.01) as at, at.browser() as client:
            made = await at.services.keys.create("n", LOCAL, (Scope.READ,))
            client.headers["authorization"] = f"Bearer {made.key}"
            run_id = await submit(at.services, "hang")
            await happened(at.services, run_id, "LOG_APPENDED")
            async with client.stream("GET", "/api/events", headers=SSE, timeout=PATIENCE_S) as response:
                stream = events(response)
                assert await anext(stream) == ": connected"
                await at.client.delete(f"/api/keys/{made.info.id}")
                await at.services.runs.control(run_id, "cancel")
                rest = [sent async for sent in stream]  # it ends, and without an error
            assert not [sent for sent in rest if isinstance(sent, Sent) and sent.event != "hello"]
            await ended(at.services, run_id)

    run(journey())


def test_the_document_says_how_to_show_a_key() -> None:
    async def journey() -> None:
        async with inside() as at:
            document = (await at.client.get("/openapi.json")).json()
            schemes = document["components"]["securitySchemes"]
            assert {(one["type"], one.get("name") or one.get("scheme")) for one in schemes.values()} == {
                ("apiKey", "x-api-key"),
                ("http", "bearer"),
            }

    run(journey())
