"""OAuth as values: the RFCs' own example, each service's address, and what its answers mean."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pilothouse.core.credentials.oauth import (
    GrantRefused,
    authorize_url,
    challenge_of,
    exchange_form,
    read_grant,
    refresh_form,
    text_of,
)
from pilothouse.core.credentials.services import PUBLIC, Given, Service, find, services
from pilothouse.errors import BackendFailed, BadInput

NOW = 1_700_000_000_000
SLACK, GITHUB, GOOGLE = PUBLIC["slack"], PUBLIC["github"], PUBLIC["google"]


def registered(name: str, client_secret: str = "", authorize_url: str = "") -> Service:
    given = Given(client_id="client", client_secret=client_secret, authorize_url=authorize_url)
    return services({name: given})[name]


def asked(service: Service) -> dict[str, str]:
    url = authorize_url(service, redirect_uri="http://127.0.0.1:1/callback", state="s", verifier="v" * 64)
    assert url.startswith(f"{service.authorize_url.partition('?')[0]}?")
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def test_the_challenge_is_that_of_the_rfc() -> None:
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_random_bytes_make_verifiers_and_states_of_letters_that_need_no_escaping() -> None:
    text = text_of(bytes(range(200, 248)))
    assert len(text) == 64
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize("name", PUBLIC)
def test_a_person_is_sent_with_a_challenge_and_never_with_a_verifier_or_a_secret(name: str) -> None:
    query = asked(registered(name, client_secret="planted"))
    assert query["response_type"] == "code"
    assert query["code_challenge_method"] == "S256"
    assert query["code_challenge"] == challenge_of("v" * 64)
    assert query["redirect_uri"] == "http://127.0.0.1:1/callback"
    assert "planted" not in str(query) and "v" * 64 not in str(query)


def test_each_service_is_asked_for_scopes_in_its_own_way() -> None:
    assert "chat:write" in asked(registered("slack"))["user_scope"].split(",")
    assert asked(registered("github"))["scope"] == "repo read:user"
    google = asked(registered("google"))
    assert (google["access_type"], google["prompt"]) == ("offline", "consent")
    assert all(scope.startswith("https://www.googleapis.com/auth/gmail.") for scope in google["scope"].split(" "))


def test_what_an_address_asks_already_stays() -> None:
    query = asked(registered("github", authorize_url="https://ghe.example/authorize?tenant=a"))
    assert (query["tenant"], query["client_id"]) == ("a", "client")


def test_settings_change_a_public_service_and_make_others() -> None:
    found = services(
        {
            "github": Given(client_id="c", api_url="https://ghe.example/api/v3", scopes=("repo",)),
            "acme": Given(client_id="a", authorize_url="https://a.example/a", token_url="https://a.example/t"),
        }
    )
    assert found["github"].authorize_url == GITHUB.authorize_url
    assert (found["github"].api_url, found["github"].scopes) == ("https://ghe.example/api/v3", ("repo",))
    assert found["acme"].title == "Acme"
    assert set(found) == {"acme", "github", "google", "slack"}
    with pytest.raises(BadInput, match="one of acme, github, google, slack"):
        find(found, "nonsense")
    for name in ("env", "Slack", "a:b", ""):
        with pytest.raises(BadInput):
            services({name: Given()})


def test_forms_carry_the_secret_only_where_there_is_one() -> None:
    form = exchange_form(registered("google"), code="c", verifier="v", redirect_uri="r")
    assert form == {
        "grant_type": "authorization_code",
        "code": "c",
        "redirect_uri": "r",
        "code_verifier": "v",
        "client_id": "client",
    }
    assert refresh_form(registered("google", client_secret="s"), "r")["client_secret"] == "s"


@pytest.mark.parametrize(
    ("service", "body", "token", "refresh", "ends", "scopes"),
    [
        (
            GOOGLE,
            {"access_token": "ya29", "expires_in": 3599, "refresh_token": "r", "scope": "x y", "token_type": "Bearer"},
            *("ya29", "r", NOW + 3_599_000, ("x", "y")),
        ),
        (GOOGLE, {"access_token": "ya29", "expires_in": "3600"}, "ya29", "", NOW + 3_600_000, ()),
        (GITHUB, {"access_token": "gho_1", "scope": "repo,gist"}, "gho_1", "", None, ("repo", "gist")),
        (GITHUB, {"access_token": "gho_1", "expires_in": "nonsense", "refresh_token": 7}, "gho_1", "", None, ()),
        (GITHUB, {"access_token": "gho_1", "expires_in": float("nan")}, "gho_1", "", None, ()),
        (
            SLACK,
            {"ok": True, "authed_user": {"id": "U1", "scope": "chat:write", "access_token": "xoxp-1"}},
            *("xoxp-1", "", None, ("chat:write",)),
        ),
        (
            SLACK,
            {"ok": True, "access_token": "xoxb-1", "scope": "chat:write", "authed_user": {"id": "U1"}},
            *("xoxb-1", "", None, ("chat:write",)),
        ),
        (
            SLACK,
            {"ok": True, "access_token": "xoxe-2", "refresh_token": "xoxe-1-2", "expires_in": 43200},
            *("xoxe-2", "xoxe-1-2", NOW + 43_200_000, ()),
        ),
    ],
)
def test_tokens_are_found_where_each_service_puts_them(
    service: Service, body: Any, token: str, refresh: str, ends: int | None, scopes: tuple[str, ...]
) -> None:
    grant = read_grant(service, 200, body, NOW)
    assert (grant.token, grant.refresh_token, grant.expires_at, grant.scopes) == (token, refresh, ends, scopes)
    assert token not in repr(grant)


@pytest.mark.parametrize(
    ("service", "status", "body", "kind"),
    [
        (GOOGLE, 400, {"error": "invalid_grant", "error_description": "planted"}, GrantRefused),
        (GITHUB, 200, {"error": "bad_refresh_token", "error_description": "planted"}, GrantRefused),
        (SLACK, 200, {"ok": False, "error": "invalid_refresh_token"}, GrantRefused),
        (GOOGLE, 401, {"error": "invalid_client"}, BadInput),
        (GITHUB, 200, {"error": "incorrect_client_credentials"}, BadInput),
        (SLACK, 200, {"ok": False, "error": "bad_client_secret"}, BadInput),
        (GOOGLE, 503, {"error": "invalid_grant"}, BackendFailed),
        (GOOGLE, 429, {"error": "invalid_grant"}, BackendFailed),
        (SLACK, 200, {"ok": False, "error": "ratelimited"}, BackendFailed),
        (SLACK, 200, {"ok": False}, BackendFailed),
        (GITHUB, 200, {"error": {"planted": "planted"}}, BackendFailed),
        (GITHUB, 200, {"error": "planted " * 20}, BackendFailed),
        (GITHUB, 200, {"access_token": ""}, BackendFailed),
        (GITHUB, 200, {"access_token": 7}, BackendFailed),
        (GITHUB, 200, {}, BackendFailed),
        (GITHUB, 200, None, BackendFailed),
        (GITHUB, 200, ["planted"], BackendFailed),
        (GITHUB, 200, "planted", BackendFailed),
    ],
)
def test_a_refusal_is_told_from_our_own_fault_and_from_trouble_and_repeats_nothing(
    service: Service, status: int, body: Any, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as refused:
        read_grant(service, status, body, NOW)
    assert type(refused.value) is kind
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize("service", PUBLIC.values())
def test_no_service_is_registered_without_settings_and_none_prints_its_secret(service: Service) -> None:
    assert (service.client_id, service.client_secret) == ("", "")
    assert "planted" not in repr(services({service.name: Given(client_secret="planted")})[service.name])
    assert "planted" not in repr(Given(client_secret="planted"))
