"""A plan followed by a verb, from the first event to what is printed at the end: ``run``, ``retry --follow`` …

Chooses the screen, and turns how the plan ended into an answer and an exit code.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.door import ExitCode, note
from pilothouse.interfaces.cli.feed import Presses, interrupts
from pilothouse.interfaces.cli.printing import colours, print_json
from pilothouse.interfaces.cli.summary import print_summary
from pilothouse.interfaces.cli.telling import LineScreen
from pilothouse.interfaces.cli.watching import EXIT_CODES, Screen, Watch, left_note
from pilothouse.interfaces.cli.words import has_unicode


def choose_screen(*, as_json: bool, no_color: bool) -> Screen:
    """A tree that is drawn again and again where that works, else lines: on stderr when stdout is for JSON."""
    if as_json:
        return LineScreen(sys.stderr)
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown"):
        from pilothouse.interfaces.cli.live import LiveScreen

        return LiveScreen(no_color=not colours(no_color), unicode=has_unicode())
    return LineScreen(sys.stdout)


def only_follow(
    client: Client, data_dir: Path, plan_id: str, *, seen: int, ended: int, as_json: bool, no_color: bool
) -> int:
    """The same of a plan that goes on without whoever looks: Ctrl-C leaves it. See ``Watch`` for the rest."""
    presses = Presses()
    with interrupts(presses.press):
        return follow_plan(
            client,
            data_dir,
            plan_id,
            presses,
            as_json=as_json,
            no_color=no_color,
            stops=False,
            seen=seen,
            ended=ended,
        )


def follow_plan(
    client: Client,
    data_dir: Path,
    plan_id: str,
    presses: Presses,
    *,
    as_json: bool,
    no_color: bool,
    stops: bool,
    seen: int = 0,
    ended: int = 0,
) -> int:
    """Follow a plan to its end, print what came of it, answer the exit code. See ``Watch`` for the rest."""
    screen = choose_screen(as_json=as_json, no_color=no_color)
    watched = Watch(client, data_dir, plan_id, screen, presses, stops=stops, seen=seen, ended=ended).follow()
    if watched.left:
        note(left_note(plan_id, stopping=watched.stopping))
        return ExitCode.INTERRUPTED
    lifecycle = watched.state.common.lifecycle
    view = watched.client.get(f"/api/plans/{plan_id}")
    if as_json:
        print_json(view)
    else:
        print_summary(view, color=colours(no_color), tree_above=screen.redraws)
    return EXIT_CODES.get(lifecycle, ExitCode.FAILED)
