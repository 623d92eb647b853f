"""Secrets that pass the redaction of bytes, because they come in pieces or in other letters."""

from __future__ import annotations

from collections.abc import Iterable

from pilothouse.adapters.agents.lines import LineReader, encode
from pilothouse.adapters.agents.redacted import RedactedReader
from pilothouse.core.run.agents import News, Noted, Reasoning, Text, ToolEnded, ToolStarted, Used
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.usage import Usage

SECRET = "sk-planted-0123456789"
EXIT = Exit(reason=ExitReason.EXITED, code=0)


def told(*lines: bytes | News, secrets: tuple[str, ...] = (SECRET,)) -> list[News]:
    reader = RedactedReader(LineReader(), secrets)
    read = (reader.line(line if isinstance(line, bytes) else encode(line)) for line in lines)
    return [*(news for line in read for news in line), *reader.end(EXIT, "").news]


def said(news: Iterable[News]) -> str:
    return "".join(one.text for one in news if isinstance(one, Text | Reasoning))


def test_a_secret_that_is_said_letter_by_letter_is_hidden() -> None:
    assert said(told(*(Text(text=letter) for letter in f"it is {SECRET}!"))) == "it is [redacted]!"


def test_what_only_begins_like_a_secret_is_told_in_its_place_and_in_the_end() -> None:
    begins = SECRET[:5]
    news = told(Text(text=begins), ToolStarted(call_id="1", tool="t"), Reasoning(text=begins), Text(text=begins))
    assert [type(one) for one in news] == [Text, ToolStarted, Reasoning, Text]
    assert said(news) == 3 * begins


def test_letters_that_json_spells_out_are_hidden_too() -> None:
    spelt = "".join(f"\\u{ord(letter):04x}" for letter in SECRET).encode()
    news = told(
        b'{"type":"text","text":"' + spelt + b'"}',
        b'{"type":"toolEnded","call_id":"1","output":"x ' + spelt + b' y"}',
        b'{"type":"used","model":"' + spelt + b'","usage":{"turns":1}}',
    )
    assert news == [
        Text(text="[redacted]"),
        ToolEnded(call_id="1", output="x [redacted] y"),
        Used(model="[redacted]", usage=Usage(turns=1)),
    ]


def test_the_error_it_ends_with_is_hidden_too() -> None:
    reader = RedactedReader(LineReader(), (SECRET,))
    assert SECRET not in reader.end(Exit(reason=ExitReason.EXITED, code=1), f"bad key {SECRET}").error


def test_without_secrets_everything_is_told_as_it_comes() -> None:
    assert told(Text(text="a"), Noted(text="b"), secrets=()) == [Text(text="a"), Noted(text="b")]
