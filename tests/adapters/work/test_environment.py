"""Which variables reach a command."""

from __future__ import annotations

import pytest

from pilothouse.adapters.work.environment import command_environment, expand
from pilothouse.core.run.secret_names import is_withheld
from pilothouse.errors import BadInput

HOST = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "PILOTHOUSE_URL": "http://",
    "GITHUB_TOKEN": "t",
    "aws_secret_access_key": "s",
    "MyPassword": "p",
    "SSH_AUTH_SOCK": "/run/agent",
    "GIT_AUTHOR_NAME": "me",
    "PLAIN": "from the vault",
}


@pytest.mark.parametrize(
    "name",
    [
        "PILOTHOUSE_DATA_DIR",
        "pilothouse_x",
        "API_KEY",
        "GITHUB_TOKEN",
        "npm_config__authToken",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "SMTP_PASSWD",
        "DB_PASS",
        "pass",
        "MYSQL_PWD",
        "GPG_PASSPHRASE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "HTTP_AUTHORIZATION",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "BASIC_AUTH",
    ],
)
def test_own_variables_and_those_named_like_secrets_are_withheld(name: str) -> None:
    assert is_withheld(name)


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LANG", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "VIRTUAL_ENV", "PWD", "OLDPWD", "COMPASS"]
)
def test_everything_else_is_inherited(name: str) -> None:
    assert not is_withheld(name)


def test_a_command_inherits_what_is_not_withheld() -> None:
    assert command_environment(HOST, vault={"PLAIN"}) == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "GIT_AUTHOR_NAME": "me",
    }


def test_a_plan_may_ask_for_a_variable_by_name_and_a_missing_one_is_left_out() -> None:
    result = command_environment(HOST, inherit=["SSH_AUTH_SOCK", "NO_SUCH_TOKEN"])
    assert result["SSH_AUTH_SOCK"] == "/run/agent"
    assert "NO_SUCH_TOKEN" not in result


@pytest.mark.parametrize("name", ["PILOTHOUSE_URL", "PLAIN"])
def test_own_variables_and_the_vault_cannot_be_asked_for(name: str) -> None:
    with pytest.raises(BadInput, match=r"inheritEnv\[0\]"):
        command_environment(HOST, inherit=[name], vault={"PLAIN"})


def test_values_of_a_plan_expand_against_what_the_command_may_see() -> None:
    result = command_environment(
        HOST,
        {"PATH": "${HOME}/bin:$PATH", "STOLEN": "<$GITHUB_TOKEN>", "AGENT": "$SSH_AUTH_SOCK"},
        ["SSH_AUTH_SOCK"],
    )
    assert (result["PATH"], result["STOLEN"], result["AGENT"]) == ("/home/me/bin:/bin", "<>", "/run/agent")


def test_values_of_a_plan_do_not_see_each_other() -> None:
    assert command_environment({}, {"A": "1", "B": "$A"})["B"] == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$A", "1"),
        ("${A}b", "1b"),
        ("$Ab", ""),
        ("$A$A", "11"),
        ("cost: 5$", "cost: 5$"),
        ("$1 ${} ${A", "$1 ${} ${A"),
        ("$MISSING", ""),
    ],
)
def test_references_are_names_with_or_without_braces(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "\0"}])
def test_what_is_no_environment_is_refused(env: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        command_environment({}, env)
