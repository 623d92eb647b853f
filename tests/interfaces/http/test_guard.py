"""Who is let in: peers by their uid, browsers by their session, and nobody from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from http.cookies import SimpleCookie

import pytest
from tests.interfaces.http.doors import client_of, from_user, inside, run
from tests.interfaces.http.test_plans import logged_in, refusal

from pilothouse.errors import Denied
from pilothouse.interfaces.http.guard import OPEN_PATHS
from pilothouse.interfaces.http.logins import FAILURES, IDLE_S, WINDOW_S, Logins
from pilothouse.interfaces.http.origins import Origins
from pilothouse.interfaces.http.problems import NoCredential, TooManyTries


@pytest.mark.parametrize("uid", [os.getuid() + 1, None])
def test_the_unix_socket_admits_nobody_else(uid: int | None) -> None:
    async def journey() -> None:
        async with inside() as at, client_of(from_user(at.guard.unix(at.app), uid)) as stranger:
            for path in ("/api/plans", "/healthz"):
                refusal(await stranger.get(path), 403, "denied")

    run(journey())


def test_nothing_is_served_that_came_in_by_no_door() -> None:
    async def journey() -> None:
        async with inside() as at, client_of(at.app) as client:
            refusal(await client.post("/api/repos", json={"path": "/repo"}), 401, "no_credential")

    run(journey())


def test_over_tcp_only_health_is_shown_without_a_credential() -> None:
    async def journey() -> None:
        async with inside() as at:
            at.guard.listening("127.0.0.1", 80)
            async with client_of(at.guard.tcp(at.app), "http://127.0.0.1") as stranger:
                assert (await stranger.get("/healthz")).status_code == 200
                assert (await stranger.get("/readyz")).status_code == 200
                document = (await at.client.get("/openapi.json")).json()
                for path, methods in document["paths"].items():
                    for method in methods:
                        if path in OPEN_PATHS:
                            continue
                        refusal(await stranger.request(method, path), 401, "no_credential")
                for path in (
                    "/docs",
                    "/openapi.json",
                    "/nope",
                    "/api/login/",
                    "/healthz/x",
                    "/api/oauth/x/callback/",
                    "/api/oauth/x/y/callback",
                ):
                    refusal(await stranger.get(path), 401, "no_credential")

    run(journey())


def test_before_it_listens_the_tcp_door_lets_nobody_in() -> None:
    async def journey() -> None:
        async with inside() as at, client_of(at.guard.tcp(at.app), "http://127.0.0.1") as stranger:
            refusal(await stranger.get("/healthz"), 403, "denied")
            refusal(await at.client.post("/api/login", json={"token": at.guard.new_token()}), 503, "unavailable")

    run(journey())


def test_a_token_logs_in_once_and_the_cookie_is_kept_from_scripts_and_other_sites() -> None:
    async def journey() -> None:
        async with inside() as at:
            at.guard.listening("127.0.0.1", 8484)
            async with client_of(at.guard.tcp(at.app), "http://127.0.0.1:8484") as browser:
                token = at.guard.new_token()
                answered = await browser.get(f"/login?token={token}")
                assert (answered.status_code, answered.headers["location"]) == (303, "/docs")
                assert answered.headers["referrer-policy"] == "no-referrer"
                (cookie,) = SimpleCookie(answered.headers["set-cookie"]).values()
                assert (cookie.key, cookie["path"], cookie["samesite"]) == ("pilothouse-8484", "/", "strict")
                assert cookie["httponly"]
                assert (await browser.get("/api/plans")).status_code == 200
                refusal(await browser.get(f"/login?token={token}"), 401, "no_credential")
                assert (await browser.get("/api/plans")).status_code == 200
                assert (await browser.post("/api/logout")).status_code == 204
                refusal(await browser.get("/api/plans"), 401, "no_credential")
                browser.cookies.set("pilothouse-8484", cookie.value)
                refusal(await browser.get("/api/plans"), 401, "no_credential")

    run(journey())


def test_a_failed_login_says_why_and_too_many_are_slowed_down() -> None:
    async def journey() -> None:
        async with inside() as at:
            browser = await logged_in(at)
            for _ in range(FAILURES):
                response = await browser.post("/api/login", json={"token": "guess"})
                refusal(response, 401, "no_credential")
                assert response.headers["www-authenticate"]
            limited = await browser.post("/api/login", json={"token": "guess"})
            refusal(limited, 429, "too_many_tries")
            assert limited.headers["retry-after"]
            # Whoever has a token cannot be locked out by others who guess.
            assert (await browser.post("/api/login", json={"token": at.guard.new_token()})).status_code == 204

    run(journey())


def test_cookies_of_other_programs_on_this_host_do_no_harm() -> None:
    async def journey() -> None:
        async with inside() as at:
            browser = await logged_in(at)
            header = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
            for odd in ('a={"b": [1]}', "é=1", ";;;", 'x="'):
                response = await browser.get("/api/plans", headers={b"cookie": f"{odd}; {header}".encode()})
                assert response.status_code == 200, odd

    run(journey())


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ({}, True),  # a program: browsers say where they come from
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://127.0.0.1"}, True),
        ({"origin": "http://localhost"}, True),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "http://evil.example", "sec-fetch-site": "same-origin"}, False),
        ({"origin": "null"}, False),
        ({"host": "evil.example"}, False),
    ],
)
def test_a_request_that_changes_something_must_come_from_a_page_of_ours(
    headers: dict[str, str], admitted: bool
) -> None:
    async def journey() -> None:
        async with inside() as at:
            browser = await logged_in(at)
            response = await browser.post("/api/stop-everything", headers=headers)
            assert response.status_code == (200 if admitted else 403), response.text

    run(journey())


@pytest.mark.parametrize(
    ("bound", "port", "host", "ours"),
    [
        ("127.0.0.1", 8484, "127.0.0.1:8484", True),
        ("127.0.0.1", 8484, "LOCALHOST:8484", True),
        ("127.0.0.1", 8484, "[::1]:8484", True),
        ("127.0.0.1", 8484, "127.0.0.1", False),
        ("127.0.0.1", 8484, "127.0.0.1:80", False),
        ("127.0.0.1", 80, "127.0.0.1", True),
        ("::1", 80, "[::1]", True),
        ("127.0.0.1", 8484, "127.0.0.1.evil.example:8484", False),
        ("127.0.0.1", 8484, "evil.example:8484", False),
        ("127.0.0.1", 8484, "", False),
        ("127.0.0.1", 8484, "192.168.1.2:8484", False),
        ("build.lan", 8484, "build.lan:8484", True),
        ("0.0.0.0", 8484, "192.168.1.2:8484", True),
        ("::", 8484, "[fe80::1]:8484", True),
        ("0.0.0.0", 8484, "evil.example:8484", False),
    ],
)
def test_a_server_answers_to_its_own_names_only(bound: str, port: int, host: str, ours: bool) -> None:
    def asked(call: Callable[[], None]) -> bool:
        try:
            call()
        except Denied:
            return False
        return True

    origins = Origins(bound, port)
    assert asked(lambda: origins.check("GET", host, None, None)) is ours
    assert asked(lambda: origins.check("POST", host, f"http://{host}", None)) is ours
    assert not asked(lambda: origins.check("GET", host, f"https://{host}", None))


class Hand:
    """A clock that is moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_when_it_is_not_used() -> None:
    clock = Hand()
    logins = Logins(clock)
    session = logins.log_in(logins.new_token())
    for _ in range(3):
        clock.now += IDLE_S - 1
        assert logins.knows(session)
    clock.now += IDLE_S + 1
    assert not logins.knows(session)
    assert not logins.knows("another")


def test_failures_are_forgiven_after_a_while() -> None:
    clock = Hand()
    logins = Logins(clock)
    for _ in range(FAILURES):
        with pytest.raises(NoCredential):
            logins.log_in("guess")
    with pytest.raises(TooManyTries):
        logins.log_in("guess")
    clock.now += WINDOW_S + 1
    with pytest.raises(NoCredential):
        logins.log_in("guess")


def test_neither_tokens_nor_sessions_are_kept_in_the_clear() -> None:
    logins = Logins(Hand())
    token, kept = logins.new_token(), logins.new_token()
    session = logins.log_in(token)
    said = repr(vars(logins))
    assert not any(secret in said for secret in (token, kept, session))
