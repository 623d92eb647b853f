"""The live tree, as a picture of text, at several sizes of the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.interfaces.cli.story import BEGAN, Story, job

from pilothouse.interfaces.cli.live import LiveScreen
from pilothouse.interfaces.cli.words import ago, duration, last_line, one_line

NOW = BEGAN + 12_000


def picture(story: Story, *, width: int = 80, height: int = 24, unicode: bool = True) -> str:
    screen = LiveScreen(unicode=unicode)
    out = io.StringIO()
    screen._console = Console(file=out, width=width, height=height, force_terminal=False)
    screen.output("n2", "step 3 of 7")
    screen._console.print(screen.render(story.state, NOW))
    return out.getvalue()


def some() -> Story:
    jobs = [job("schema", group="backend/data"), job("api", "schema", group="backend"), job("web"), job("docs", "web")]
    return Story(jobs).start().begin("schema").succeed("schema").begin("api").begin("web").fail("web")


def test_the_tree_stands_in_the_order_of_the_plan() -> None:
    assert picture(some()) == (
        "● running  add-search  12s  0193b2c4-5d6e\n"
        "● backend/    running 1/2        11s\n"
        "  ✓ data/     succeeded 1/1     0.4s\n"
        "    ✓ schema  succeeded         0.4s\n"
        "  ● api       running: work      11s  step 3 of 7\n"
        "✗ web         failed            0.4s  work exited with 1\n"
        "· docs        pending\n"
        "1 succeeded · 1 running · 1 pending · 1 failed\n"
    )


def test_a_narrow_terminal_keeps_names_and_states() -> None:
    drawn = picture(some(), width=40)
    assert drawn == (
        "● running  add-search  12s  0193b2c4-5d…\n"
        "● backend/    running 1/2   11s\n"
        "  ✓ data/     succeeded 1/1 0.4s\n"
        "    ✓ schema  succeeded     0.4s\n"
        "  ● api       running: work 11s\n"
        "✗ web         failed        0.4s\n"
        "· docs        pending\n"
        "1 succeeded · 1 running · 1 pending · 1…\n"
    )


def test_a_terminal_without_unicode_gets_plain_letters() -> None:
    drawn = picture(some(), unicode=False)
    assert drawn.isascii()
    assert "* api" in drawn and "x web" in drawn


@pytest.mark.parametrize(("width", "height"), [(80, 10), (40, 5), (10, 3), (200, 50)])
def test_the_picture_is_never_larger_than_the_terminal(width: int, height: int) -> None:
    story = Story([job(f"a-job-with-a-long-name-{number}", group=f"g{number // 10}") for number in range(100)]).start()
    for number in (7, 55, 99):
        story.begin(f"a-job-with-a-long-name-{number}")
    lines = picture(story, width=width, height=height).splitlines()
    assert len(lines) <= max(4, height - 1)
    assert max(map(len, lines)) <= width


def test_what_needs_eyes_stays_when_there_is_not_room_for_all() -> None:
    story = Story([job(f"j{number}") for number in range(1000)]).start()
    story.begin("j700").begin("j900").fail("j900")
    drawn = picture(story, height=8)
    assert "● j700" in drawn
    assert "✗ j900" in drawn
    assert "… and 996 more" in drawn


def test_what_waits_for_a_person_is_said_below_with_the_command() -> None:
    told = "api: waits for a review: What happened? `pilothouse approvals answer w1 rerun` (or accept)"
    story = some().ask("api", "What happened?")
    assert told in picture(story, width=120)
    assert told in " ".join(picture(story, width=40).split())


def test_a_name_that_says_more_than_the_id_stands_beside_it() -> None:
    jobs = [
        job("node-01", called="Build the index"),
        job("node-02", called="x" * 1000),
        job("g/c", group="g", called="c"),
    ]
    drawn = picture(Story(jobs).start(), width=100)
    assert "○ node-01  Build the index" in drawn
    assert f"node-02  {'x' * 20}" in drawn
    assert "○ c   " in drawn
    assert max(map(len, drawn.splitlines())) <= 100
    assert picture(Story(jobs).start(), unicode=False).isascii()


def test_what_is_blocked_says_so_once() -> None:
    story = Story([job("a"), job("b", "a")]).start().begin("a").fail("a").block("b", "Blocked: dependency 'a' failed")
    assert "b  blocked           dependency 'a' failed" in picture(story)


def test_foreign_text_in_a_message_is_not_obeyed() -> None:
    screen = LiveScreen()
    screen.say("the stop: \x1b[2J\x9bboom")
    assert screen._said == "the stop:  boom"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0.0s"), (9_940, "9.9s"), (9_960, "10s"), (61_000, "1m 01s"), (7_620_000, "2h 07m"), (-5, "0.0s")],
)
def test_durations_are_short(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_instants_are_told_from_now() -> None:
    assert [ago(NOW - passed * 1000, NOW) for passed in (0, 59, 60, 3600, 90_000)] == [
        "0s ago",
        "59s ago",
        "1m ago",
        "1h ago",
        "1d ago",
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\ntwo\n\n", "two"),
        ("10%\r50%\r100%\r", "100%"),
        ("\x1b[31mred\x1b[0m\n", "red"),
        ("\x1b]0;evil\x07ok", "ok"),
        ("", ""),
    ],
)
def test_the_last_line_is_what_a_terminal_would_show(text: str, shown: str) -> None:
    assert last_line(text) == shown


def test_marks_that_reorder_text_are_taken_out() -> None:
    assert one_line("a\u202eb\x00c") == "a b c"
