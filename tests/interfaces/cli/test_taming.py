"""What a command printed, on a terminal: shown, not obeyed."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.interfaces.cli.conftest import Say
from tests.interfaces.cli.fake_owner import FakeOwner
from tests.interfaces.cli.story import PLAN_ID, Story, job

from pilothouse.interfaces.cli.words import tame

CONTROLS = tuple("\x1b\x07\x18\x9b\x9c\x9d\x7f\x00\u202e\r\n\t")
PIECES = ("\x1b[", "\x1b[1;31m", "\x1b]52;c;", *"[]1;m?>JP\\( aé")
NASTY = st.lists(st.sampled_from(CONTROLS + PIECES)).map("".join)
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


@given(NASTY | st.text())
def test_nothing_a_terminal_obeys_is_left_but_colours(text: str) -> None:
    coloured, _ = tame(text, colour=True)
    plain, _ = tame(text, colour=False)
    assert COLOUR.sub("", coloured) == plain
    assert all(unicodedata.category(one) != "Cc" for one in plain if one not in "\n\t")


@given(NASTY, NASTY)
def test_pieces_are_tamed_as_the_whole_is(first: str, second: str) -> None:
    shown, held = tame(first, colour=True)
    rest, left = tame(held + second, colour=True)
    assert (shown + rest, left) == tame(first + second, colour=True)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]) | st.sampled_from("\n\t")))
def test_text_stays_as_it_is(text: str) -> None:
    assert tame(text, colour=True) == (text, "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"),
        ("\x1b]0;title\x07a\x1b]52;c;Y2xpcA==\x1b\\b", "ab"),
        ("\x1b[2J\x1b[Ha\x1b[?1049hb\x1b[>4;1mc", "abc"),
        ("\x1bPpayload\x1b\\a\x1b_b\x1b\\c", "ac"),
        ("\x1bca\x1b(0b\x1b7c", "abc"),
        ("\x1b]0;never closed\nnext\n", "\nnext\n"),
        ("10%\r100%\r\nnext\r\n", "10%\n100%\nnext\n"),
        ("a\x9b2Jb\x9dc", "a2Jbc"),
    ],
)
def test_sequences_are_left_out_whole(text: str, shown: str) -> None:
    assert tame(text, colour=True) == (shown, "")


def test_a_sequence_that_ends_in_the_next_piece_is_held_back() -> None:
    assert tame("a\x1b[3", colour=True) == ("a", "\x1b[3")
    assert tame("a\x1b]0;tit", colour=True) == ("a", "\x1b]")
    assert tame("a\r", colour=True) == ("a", "\r")


@pytest.fixture
def owner(owner: FakeOwner) -> FakeOwner:
    story = Story([job("api"), job("web")]).start().begin("api").begin("web")
    owner.stories = {PLAN_ID: story}
    owner.output = {name: f"\x1b]0;evil\x07\x1b[2J\x1b[31m{name}\n" for name in ("api", "web")}
    owner.output |= {"n1": owner.output["api"], "n2": owner.output["web"]}
    owner.answers[("GET", f"/api/plans/{PLAN_ID}/nodes/api/diff")] = (200, {"diff": "+\x1b[2J\x1b[31mx\n"})
    story.print("api", 20).print("web", 20).succeed("api").succeed("web").finish()
    return owner


@pytest.fixture
def terminal(say: Say, monkeypatch: pytest.MonkeyPatch) -> Say:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    return say


API, WEB = "\x1b[31mapi\n\x1b[0m", "\x1b[31mweb\n\x1b[0m"


def test_on_a_terminal_output_keeps_its_colours_to_itself(owner: FakeOwner, terminal: Say) -> None:
    assert terminal("plan", "logs", "last").out == f"==> api <==\n{API}==> web <==\n{WEB}"
    assert terminal("plan", "diff", "last", "api").out == "+\x1b[31mx\n\x1b[0m"
    assert terminal("plan", "logs", "last", "--follow").out == (
        f"==> api, work, attempt 1 <==\n{API}==> web, work, attempt 1 <==\n{WEB}"
    )


def test_without_colours_none_are_passed_on(owner: FakeOwner, terminal: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal("plan", "logs", "last", "api").out == "api\n"
    assert terminal("plan", "logs", "last", "api", "--follow").out == "api\n"


def test_into_a_pipe_output_stays_as_it_is(owner: FakeOwner, say: Say) -> None:
    assert say("plan", "logs", "last", "api").out == owner.output["api"]
    assert say("plan", "logs", "last", "api", "--follow").out == owner.output["api"]
    assert say("plan", "diff", "last", "api").out == "+\x1b[2J\x1b[31mx\n"


def test_an_error_that_quotes_foreign_text_is_tamed(owner: FakeOwner, say: Say) -> None:
    owner.answers[("GET", "/api/plans")] = (409, {"detail": "no: \x1b[2J\x9bx", "code": "refused"})
    assert say("plan", "list").err == "error: no: x\n"


def test_json_holds_nothing_a_terminal_obeys(owner: FakeOwner, say: Say) -> None:
    owner.answers[("GET", "/api/repos")] = (200, {"repos": ["\x9b2J\x7f"]})
    assert '"\\u009b2J\\u007f"' in say("repo", "list", "--json").out
