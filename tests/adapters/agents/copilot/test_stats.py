"""The statistics that Copilot prints for people, in every form it has had."""

from __future__ import annotations

import pytest

from pilothouse.adapters.agents.copilot.stats import Stats, parse_stats
from pilothouse.core.run.usage import Tally, Usage

FULL = """\
[copilot] Total usage est:        3 Premium requests
[12:46 PM] [INFO] [copilot] API time spent:         32s
[12:46 PM] [INFO] [copilot] Total session time:     1m 5s
Total code changes:     +42 -17
Breakdown by AI model:
claude-opus-4.6         231.5k in, 1.3k out, 158.2k cached (Est. 2 Premium requests)
gpt-5-mini              1.2m in, 900 out, 0 cached (Est. 0.33 Premium requests)
"""
COMPACT = """\
Changes   +12 -5
Requests  1 Premium (5m 19s)
Tokens    ↑ 589.7k • ↓ 21.0k • 543.0k (cached)
"""
LATER_COMPACT = """\
Changes    +2 -0
Duration   1h 2m 3s
Tokens     ↑ 4.3k (2.6k cached) • ↓ 180 (40 reasoning)
Resume     copilot --resume=f8b5f433-ea4f-455c-95bb-d26ea0bc5cf8
"""
BY_MODEL = """\
Total duration (API): 4s
Total duration (wall): 6.5s
Total code changes: 1 lines added, 2 lines removed
Usage by model:
claude-sonnet-4.5  20.2k input, 117 output, 19.8k cache read (Est. 1 Premium request)
"""


def test_the_full_form_is_told_by_model_and_premium_requests_once() -> None:
    stats = parse_stats(FULL)

    assert stats is not None
    assert stats.wall_ms == 65_000
    assert stats.used.by_model["claude-opus-4.6"] == Usage(
        input_tokens=231_500, output_tokens=1_300, cached_tokens=158_200, premium_requests=2
    )
    assert stats.used.by_model["gpt-5-mini"] == Usage(input_tokens=1_200_000, output_tokens=900, premium_requests=0.33)
    assert stats.used.by_model[""].premium_requests == pytest.approx(0.67)
    assert stats.used.total.premium_requests == pytest.approx(3)
    assert stats.used.total.api_ms == 32_000
    assert (stats.used.total.lines_added, stats.used.total.lines_removed) == (42, 17)


def test_the_compact_form_does_not_say_which_model_it_was() -> None:
    usage = Usage(
        input_tokens=589_700,
        output_tokens=21_000,
        cached_tokens=543_000,
        premium_requests=1,
        lines_added=12,
        lines_removed=5,
    )

    assert parse_stats(COMPACT) == Stats(used=Tally({"": usage}), wall_ms=319_000)


def test_the_later_compact_form_has_its_notes_in_brackets() -> None:
    usage = Usage(input_tokens=4_300, output_tokens=180, cached_tokens=2_600, reasoning_tokens=40, lines_added=2)

    assert parse_stats(LATER_COMPACT) == Stats(used=Tally({"": usage}), wall_ms=3_723_000)


def test_the_form_with_durations_is_told_by_model() -> None:
    stats = parse_stats(BY_MODEL)

    assert stats is not None
    assert stats.wall_ms == 6_500
    assert stats.used.by_model == {
        "": Usage(api_ms=4_000, lines_added=1, lines_removed=2),
        "claude-sonnet-4.5": Usage(input_tokens=20_200, output_tokens=117, cached_tokens=19_800, premium_requests=1),
    }


@pytest.mark.parametrize("form", [FULL, COMPACT, LATER_COMPACT, BY_MODEL])
def test_they_are_found_among_anything_else_and_in_colours(form: str) -> None:
    coloured = "".join(f"\x1b[2m{line}\x1b[0m\n" for line in form.splitlines())

    assert parse_stats(f"All done.\n\n{coloured}bye\n") == parse_stats(form)


def test_a_text_without_any_has_none() -> None:
    assert parse_stats("I put 3 in, and took 2 out\nTokens are expensive\n") is None
    assert parse_stats("") is None
