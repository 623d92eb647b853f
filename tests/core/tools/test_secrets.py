"""A reference becomes its value where that is meant to be, and no value is left where somebody may look."""

from __future__ import annotations

import base64
import html
import json
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.tools.secrets import SHORTEST, Hider, names_in, reference, resolve
from pilothouse.errors import BadInput

VALUES = {"TOKEN": "s3cr3t/öne+two three", "OTHER": "value-{{TOKEN}}"}
HIDER = Hider(VALUES)


def test_references_are_replaced_deep_exact_and_embedded() -> None:
    arguments = {"headers": {"Authorization": "Bearer {{ TOKEN }}"}, "body": [{"a": "{{TOKEN}}"}, 1, None], "n": 1}
    assert resolve(arguments, ("headers", "body"), VALUES) == {
        "headers": {"Authorization": f"Bearer {VALUES['TOKEN']}"},
        "body": [{"a": VALUES["TOKEN"]}, 1, None],
        "n": 1,
    }
    assert arguments["headers"] == {"Authorization": "Bearer {{ TOKEN }}"}


def test_a_value_that_looks_like_a_reference_is_not_looked_up_again() -> None:
    assert resolve({"a": "{{OTHER}}"}, ("a",), VALUES) == {"a": "value-{{TOKEN}}"}


@pytest.mark.parametrize("text", ["$TOKEN", "${TOKEN}", "TOKEN", "{TOKEN}", "{{}}", "{{ a b }}", "{{user.name}}"])
def test_nothing_else_is_a_reference(text: str) -> None:
    assert resolve({"a": text}, ("a",), VALUES) == {"a": text}
    assert names_in({"a": text}, ("a",)) == frozenset()


def test_what_people_will_read_keeps_its_references() -> None:
    assert resolve({"text": "{{TOKEN}}", "key": "{{TOKEN}}"}, ("key",), VALUES)["text"] == "{{TOKEN}}"
    assert names_in({"text": "{{A}}", "key": [{"b": "{{B}}{{ C }}"}]}, ("key", "none")) == {"B", "C"}


@pytest.mark.parametrize("url", ["http://{{KEY}}/", "https://x.{{KEY}}.example", " HTTP://u:{{KEY}}@a.example/{{KEY}}"])
def test_a_value_never_stands_in_a_host_which_name_servers_and_errors_would_tell(url: str) -> None:
    with pytest.raises(BadInput, match="cannot stand in the host") as refused:
        resolve({"url": url}, ("url",), {"KEY": "abc/def+ghi"})
    assert refused.value.field == "url"


@pytest.mark.parametrize(
    "text", ["https://a.example/{{KEY}}", "https://a.example?k={{KEY}}", "{{KEY}}", "x http://{{KEY}}"]
)
def test_a_value_may_stand_behind_a_host_and_be_a_whole_address(text: str) -> None:
    assert resolve({"url": text}, ("url",), {"KEY": "v"}) == {"url": text.replace("{{KEY}}", "v")}


def test_a_missing_value_is_an_error_that_names_the_field_and_the_fix() -> None:
    with pytest.raises(BadInput) as refused:
        resolve({"headers": {"X": ["{{NONE}}"]}}, ("headers",), VALUES)
    assert refused.value.field == "headers.X[0]"
    assert "{{NONE}}" in refused.value.message
    assert "NONE" in refused.value.fix


def coded(value: str, before: str, after: str) -> str:
    return base64.b64encode(f"{before}{value}{after}".encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        VALUES["TOKEN"],
        json.dumps({"a": VALUES["TOKEN"]}),
        json.dumps({"a": VALUES["TOKEN"]}, ensure_ascii=False),
        json.dumps(json.dumps({"a": VALUES["TOKEN"]})),
        quote(VALUES["TOKEN"]),
        quote(VALUES["TOKEN"], safe="").lower(),
        quote_plus(VALUES["TOKEN"]),
        urlencode({"a": VALUES["TOKEN"]}),
        html.escape(VALUES["TOKEN"]),
        VALUES["TOKEN"].encode().hex(),
        coded(VALUES["TOKEN"], "", ""),
        coded(VALUES["TOKEN"], "a:", ""),
        coded(VALUES["TOKEN"], "me:", "!"),
        coded(VALUES["TOKEN"], "some:", "!!"),
        base64.urlsafe_b64encode(VALUES["TOKEN"].encode()).decode(),
    ],
)
def test_a_value_is_found_however_it_was_written(text: str) -> None:
    hidden = HIDER.text(f"before {text} after")
    assert "{{TOKEN}}" in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    for part in (VALUES["TOKEN"], coded(VALUES["TOKEN"], "", "")[4:-4], quote(VALUES["TOKEN"])):
        assert part not in hidden


def test_keys_numbers_and_what_is_no_json_value_yet_are_looked_at() -> None:
    class Answer(msgspec.Struct):
        key: str

    hider = Hider({"PIN": "12345678", "KEY": "abcdefgh"})
    given: dict[str, Any] = {"abcdefgh": [12345678, 1234.5, True, None], "in": Answer("abcdefgh")}
    assert hider.hide(given) == {"{{KEY}}": ["{{PIN}}", 1234.5, True, None], "in": {"key": "{{KEY}}"}}


def test_values_that_overlap_are_covered_as_a_whole() -> None:
    hider = Hider({"A": "first-second", "B": "second-third"})
    assert hider.text("x first-second-third y") == "x {{A}} y"
    assert Hider({"A": "aaaaaaaa"}).text("b" + "a" * 100_003 + "b") == "b{{A}}b"


def test_each_line_of_a_private_key_is_a_value_and_its_frame_is_not() -> None:
    lines = [
        "-----BEGIN PRIVATE KEY-----",
        "MIIEvQIBADANBgkqhkiG9w0B",
        "AQEFAASCBKcwggSjAgEAAoIB",
        "-----END PRIVATE KEY-----",
    ]
    hidden = Hider({"PEM": "\n".join(lines) + "\n"}).text("\n".join(f"{n}\t{line}" for n, line in enumerate(lines)))
    assert hidden == "0\t-----BEGIN PRIVATE KEY-----\n1\t{{PEM}}\n2\t{{PEM}}\n3\t-----END PRIVATE KEY-----"


@pytest.mark.parametrize("value", ["", " ", "1", "true", "x" * (SHORTEST - 1)])
def test_trivial_values_do_not_black_out_everything(value: str) -> None:
    hider = Hider({"SHORT": value})
    assert not hider
    assert hider.hide({"a": f"is {value}!"}) == {"a": f"is {value}!"}


@given(st.text(min_size=SHORTEST, max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_value_survives(value: str, before: str, after: str) -> None:
    hidden = Hider({"V": value}).text(before + value + after)
    left = hidden.replace(reference("V"), "\0")
    assert value not in left or value in (before + after) or "\0" in value


@given(st.binary(min_size=12, max_size=40), st.binary(max_size=5), st.binary(max_size=5))
def test_no_value_survives_in_base64(value: bytes, before: bytes, after: bytes) -> None:
    text = value.hex()
    line = base64.b64encode(before + text.encode() + after).decode()
    assert "{{V}}" in Hider({"V": text}).text(line)
