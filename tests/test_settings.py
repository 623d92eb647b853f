"""Settings: read once, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilothouse.doctor import doctor
from pilothouse.errors import BadInput
from pilothouse.settings import read_settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PILOTHOUSE_LOG_LEVEL", "loud"),
        ("PILOTHOUSE_MAX_PARALLEL", "0"),
        ("PILOTHOUSE_PORT", "http"),
        ("PILOTHOUSE_ORPHAN_GRACE", "-1"),
    ],
)
def test_a_setting_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadInput) as refused:
        read_settings()
    assert refused.value.field == variable


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("baseURL = 'http://h'", "agents.codex.baseURL: there is no such setting (did you mean 'baseUrl'?)"),
        ("zzz = 1", "agents.codex.zzz: there is no such setting (there are command, acp, baseUrl, api, "),
        ("baseUrl = 'localhost:8000/v1'", "agents.codex.baseUrl: an address begins with http:// or https://"),
        ("baseUrl = 'http://[::1/v1'", "agents.codex.baseUrl: "),
        ("model = 1", "agents.codex.model: "),
    ],
)
def test_what_is_wrong_with_an_agents_setting_is_named_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str, said: str
) -> None:
    place = tmp_path / "config.toml"
    place.write_text(f"[agents.codex]\n{content}\n")
    monkeypatch.setenv("PILOTHOUSE_CONFIG", str(place))
    with pytest.raises(BadInput) as refused:
        read_settings()
    assert str(refused.value).startswith(said)


def test_agents_that_the_environment_gives_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_AGENTS", '{"codex": ')
    with pytest.raises(BadInput) as refused:
        read_settings()
    assert refused.value.field == "PILOTHOUSE_AGENTS"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("clientid = 'c'", "oauth.slack.clientid: there is no such setting (did you mean 'clientId'?)"),
        ("tokenUrl = 'http://slack.example/token'", "oauth.slack.tokenUrl: tokens go over https:// only"),
        ("tokenUrl = 'slack.example'", "oauth.slack.tokenUrl: an address begins with"),
        ("clientSecret = 7", "oauth.slack.clientSecret: "),
        ("scopes = 'chat:write'", "oauth.slack.scopes: "),
    ],
)
def test_what_is_wrong_with_a_services_setting_is_named_as_it_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str, said: str
) -> None:
    place = tmp_path / "config.toml"
    place.write_text(f"[oauth.slack]\n{content}\n")
    monkeypatch.setenv("PILOTHOUSE_CONFIG", str(place))
    with pytest.raises(BadInput) as refused:
        read_settings()
    assert str(refused.value).startswith(said)
    assert refused.value.fix


def test_services_that_the_environment_gives_are_json_and_keep_their_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_OAUTH", "planted")
    with pytest.raises(BadInput) as refused:
        read_settings()
    assert refused.value.field == "PILOTHOUSE_OAUTH"
    assert "planted" not in str(refused.value)
    given = (
        '{"slack": {"clientId": "c", "clientSecret": "planted", "tokenUrl": "http://127.0.0.1:1/t", "scopes": ["a"]}}'
    )
    monkeypatch.setenv("PILOTHOUSE_OAUTH", given)
    settings = read_settings()
    slack = settings.oauth_services["slack"]
    assert (slack.client_secret, slack.scopes, slack.token_url) == ("planted", ("a",), "http://127.0.0.1:1/t")
    assert "planted" not in f"{settings!r} {slack!r}"


def test_doctor_says_once_what_is_wrong_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_PORT", "http")
    [wrong] = [check for check in doctor() if "PILOTHOUSE_PORT" in check.detail]
    assert (wrong.name, wrong.ok, wrong.needed) == ("settings", False, True)


@pytest.mark.parametrize(
    "content", [b"port = [", b"a = \xff", b"a = " + b"[" * 20_000, b"port = " + b"9" * 5_000], ids=range(4)
)
def test_a_file_that_is_no_toml_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "config.toml"
    place.write_bytes(content)
    monkeypatch.setenv("PILOTHOUSE_CONFIG", str(place))
    with pytest.raises(BadInput) as refused:
        read_settings()
    assert (refused.value.field, str(place) in str(refused.value)) == ("PILOTHOUSE_CONFIG", True)


def test_a_log_level_may_be_written_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_LOG_LEVEL", "debug")
    assert read_settings().log_level == "DEBUG"


def test_a_flag_goes_before_the_environment_and_none_means_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_PORT", "1234")
    assert (read_settings(port=None).port, read_settings(port=4321).port) == (1234, 4321)


def test_a_file_of_replies_is_the_one_of_where_it_was_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PILOTHOUSE_SCRIPT", "replies.yaml")
    settings = read_settings()
    monkeypatch.chdir("/")  # as a server in the background does
    assert settings.script == tmp_path / "replies.yaml"


@pytest.mark.parametrize(
    ("given", "on"), [("true", True), ("false", False), ("True", False), ("1", False), ("", False)]
)
@pytest.mark.parametrize("flag", ["COPILOT_USE_SERVER_ORCHESTRATOR", "COPILOT_ENABLE_HEADLESS_API"])
def test_only_the_word_true_means_on(monkeypatch: pytest.MonkeyPatch, flag: str, given: str, on: bool) -> None:
    assert getattr(read_settings(), flag.lower()) is True
    monkeypatch.setenv(flag, given)
    assert getattr(read_settings(), flag.lower()) is on


def test_keys_are_not_shown_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOTHOUSE_LLM_API_KEY", "sk-planted")
    monkeypatch.setenv("PILOTHOUSE_BACKEND_API_KEY", "sk-planted")
    assert "sk-planted" not in repr(read_settings())
