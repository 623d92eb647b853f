from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.plan import spec_text
from pilothouse.core.plan.spec_text import check_values, read_data
from pilothouse.errors import BadInput

text = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)
documents = st.dictionaries(text, values, max_size=5)


@given(documents)
def test_json_is_read_as_it_was_written(data: dict[str, Any]) -> None:
    assert read_data(json.dumps(data), "plan.json") == data
    assert check_values(data) == []


@given(documents)
def test_yaml_is_read_as_it_was_written(data: dict[str, Any]) -> None:
    # The writer quotes what it takes for anything but text, and this reader takes less for anything else.
    assert read_data(yaml.safe_dump(data, allow_unicode=True), "plan.yaml") == data


@pytest.mark.parametrize(
    "words", ["no", "yes", "on", "1.10", "010", "0x1F", "+5", "1e3", ".inf", "12:30", "2024-01-01", "1_000"]
)
def test_plain_yaml_words_stay_what_was_written(words: str) -> None:
    assert read_data(f"a: {words}", "plan") == {"a": words}


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-12", -12),
        ("'1'", "1"),
        ("!!str 1", "1"),
    ],
)
def test_plain_yaml_values_are_few(words: str, value: object) -> None:
    assert read_data(f"a: {words}", "plan") == {"a": value}


def test_keys_are_always_text() -> None:
    assert read_data("on: 1\n1: 2\nnull: 3", "plan") == {"on": 1, "1": 2, "null": 3}


def test_a_byte_order_mark_is_no_part_of_the_plan() -> None:
    assert read_data(b"\xef\xbb\xbfa: 1", "plan") == read_data("\ufeffa: 1", "plan") == {"a": 1}


def test_a_yaml_file_may_begin_with_a_brace() -> None:
    assert read_data("{a: 1, b: [x, y],}", "plan.yaml") == {"a": 1, "b": ["x", "y"]}


def test_json_may_be_indented_by_tabs() -> None:
    assert read_data('{\n\t"a": 1\n}', "plan.json") == {"a": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\x1a\n", "plan is not UTF-8 text (offset 0) (save the plan as UTF-8)"),
        (b"name: \xff", "plan is not UTF-8 text (offset 6) (save the plan as UTF-8)"),
        ("a: \ud800", "plan is not UTF-8 text (a lone surrogate) (save the plan as UTF-8)"),
        (b"ELF\0\0\0", "plan is a binary file (give a plan in YAML or JSON)"),
        (b"#" * 10_000_000, "plan is larger than 1 MiB (10,000,000 bytes) (split it, or move long texts into files)"),
        ("a: &x [1]\nb: *x", "plan: aliases are not supported ('*x', line 2) (write the value out)"),
        (
            "a: !!python/object/apply:os.system ['ls']",
            "plan: tags are not supported ('tag:yaml.org,2002:python/object/apply:os.system', line 1) (remove the tag)",
        ),
        ("a: !secret x", "plan: tags are not supported ('!secret', line 1) (remove the tag)"),
        ("a: 1\nb: 2\na: 3", "plan: 'a' appears twice in one mapping (line 3) (remove one of them)"),
        ('{"a": 1, "a": 2}', "plan: 'a' appears twice in one mapping (remove one of them)"),
        ("? [a]\n: 1", "plan: a key is a list or a mapping (line 1) (use plain text as key)"),
        ("a: 1\n---\nb: 2", "plan holds more than one document (keep one plan per file, remove the '---')"),
        ("[" * 100_000, "plan is nested more than 32 levels deep (flatten it)"),
        ("{a: " * 100_000, "plan is nested more than 32 levels deep (flatten it)"),
        ('{"a":' * 100_000, "plan is nested more than 32 levels deep (flatten it)"),
        ("- " * 100_000, "plan is nested more than 32 levels deep (flatten it)"),
        ("a: " + "9" * 50, f"plan, line 1: the number {'9' * 30!r}… is too large (put it in quotes if it is text)"),
        ('{"a": ' + "9" * 5000 + "}", f"plan: the number {'9' * 30!r}… is too large (put it in quotes if it is text)"),
        ('{"a": NaN}', "plan: NaN is not a number a plan can hold (use a whole number)"),
        ('{"a": -Infinity}', "plan: -Infinity is not a number a plan can hold (use a whole number)"),
    ],
)
def test_hostile_text_is_refused_with_one_clear_message(content: bytes | str, message: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_data(content, "plan")
    assert str(caught.value) == message


@pytest.mark.parametrize("content", ["name: [a", "a: 'b", "a: \x1b[31m", "a: b: c", "\ta: 1", "%YAML 9.9\n---\na: 1"])
def test_what_is_no_yaml_is_refused_with_what_the_parser_says_and_where(content: str) -> None:
    with pytest.raises(BadInput, match=r"^plan is not valid YAML: .*(line \d+, column \d+|position \d+)$"):
        read_data(content, "plan")


def test_a_file_called_json_is_judged_as_json() -> None:
    with pytest.raises(BadInput, match=r"^plan\.json is not valid JSON: .*, line 1, column 14$"):
        read_data('{"name": "x",', "plan.json")


def test_the_laughs_of_a_yaml_bomb_are_not_counted() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{after}: &{after} [{','.join([f'*{here}'] * 9)}]\n"
        for here, after in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(BadInput, match="aliases are not supported"):
        read_data(bomb, "plan")


@given(st.text() | st.binary() | st.text(alphabet="{}[]:,-#&*!|>'\"%@`?~ \n\tab1\ud800\0"))
def test_any_text_is_read_or_refused(content: str | bytes) -> None:
    for source in ("plan", "plan.json"):
        try:
            assert check_values(read_data(content, source)) is not None
        except BadInput as error:
            assert str(error).isprintable(), str(error)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": [1, "x\0y"]}, "a[1]: holds a control character ('\\x00') (remove it)"),
        ({"a b": {"c": "\x7f"}}, "['a b'].c: holds a control character ('\\x7f') (remove it)"),
        ({"a": "\ud800"}, "a: holds a control character ('\\ud800') (remove it)"),
        ({"a\x1b": 1}, "the key 'a\\x1b' holds a control character"),
        ({1: 2}, "the key '1' is not text (put it in quotes)"),
        ({"a": 2**63}, "a: is a number that is too large"),
        ({"a": float("nan")}, "a: is nan, not a number a plan can hold (use a whole number)"),
        ({"a": b"x"}, "a: is a bytes, not something a plan can hold"),
    ],
)
def test_data_no_plan_may_hold_is_named_with_its_place(data: object, message: str) -> None:
    assert [str(problem) for problem in check_values(data)] == [message]


def test_data_that_contains_itself_is_too_deep() -> None:
    data: dict[str, object] = {}
    data["a"] = data
    assert [problem.message for problem in check_values(data)] == ["the plan is nested more than 32 levels deep"]


def test_shared_data_counts_as_often_as_it_is_seen() -> None:
    data: list[object] = ["x"] * 10
    for _ in range(12):
        data = [data] * 10
    assert [problem.message for problem in check_values(data)] == ["the plan holds more than 1,000,000 values"]


@pytest.mark.parametrize("content", ["a: [b, {c: 1}]", "[" * 100, "a: &x 1\nb: *x", "a: 'b", "a: 1\na: 2"])
def test_the_parser_without_its_c_half_gives_the_same_data_and_refuses_the_same(
    content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome() -> object:
        try:
            return read_data(content, "plan")
        except BadInput as error:
            return error.message.partition(":")[0]

    fast = outcome()
    monkeypatch.setattr(spec_text, "_LOADER", yaml.SafeLoader)
    assert outcome() == fast
