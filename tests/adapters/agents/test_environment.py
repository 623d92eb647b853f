"""Which values are blacked out, in whatever form a program prints them."""

from __future__ import annotations

import json

import pytest

from pilothouse.adapters.agents.environment import HostEnvironment
from pilothouse.core.run.output import Redactor

KEY = "-----BEGIN KEY-----\nfirst-line-of-the-key\nsecond-line-of-the-key\n-----END KEY-----\n"
SECRETS = ["plain-secret", 'with "quotes" and \\', "mit Ümläuten", KEY]


def shown(secret: str, text: str) -> str:
    redactor = Redactor(HostEnvironment({"MY_TOKEN": secret}).redact({}))
    return (redactor.feed(text.encode()) + redactor.flush()).decode()


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("in_ascii", [True, False])
def test_a_secret_is_hidden_as_it_is_and_in_json_and_in_json_within_json(secret: str, in_ascii: bool) -> None:
    once = json.dumps({"output": f"a {secret} b"}, ensure_ascii=in_ascii)
    twice = json.dumps({"line": once}, ensure_ascii=in_ascii)
    for text in (f"a {secret} b", once, twice):
        told = shown(secret, text)
        assert told != text
        for form in (secret, json.dumps(secret, ensure_ascii=in_ascii)[1:-1]):
            assert form not in told
    assert json.loads(shown(secret, once)) == {"output": "a [redacted] b"}


def test_of_a_key_of_many_lines_each_line_is_hidden_and_its_frame_is_not() -> None:
    assert shown(KEY, "x second-line-of-the-key -----END KEY-----") == "x [redacted] -----END KEY-----"


def test_what_is_short_stays_readable() -> None:
    assert HostEnvironment({"MY_KEY": "ab\ncd", "OTHER_KEY": "1234567"}).redact({}) == ()


def test_the_keys_of_endpoints_are_hidden_whatever_they_are_called() -> None:
    assert HostEnvironment({"ENDPOINT": "some-long-value"}, ["ENDPOINT", ""]).redact({}) == ("some-long-value",)
