"""docs/command-line.md names every verb in a row of its own, with every option and argument it takes, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from pilothouse.interfaces.cli.main import app

PAGE = (Path(__file__).parents[3] / "docs" / "command-line.md").read_text("utf-8")
COMMON = {"--json", "--data-dir", "--help"}


def verbs(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from verbs(command.get_command(context, name), f"{path} {name}".strip())


VERBS = dict(verbs(typer.main.get_command(app), ""))


def row(verb: str) -> str:
    found = re.findall(rf"^\| `{verb}(?: [^`]*)?` \|.*$", PAGE, re.MULTILINE)
    assert len(found) == 1, f"{verb} stands in {len(found)} rows"
    return str(found[0])


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_a_row_with_all_it_takes(verb: str) -> None:
    told = row(verb)
    taken = {option for one in VERBS[verb].params for option in one.opts if option.startswith("-")} - COMMON
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", told)) == taken
    arguments = [one.metavar or one.name.upper() for one in VERBS[verb].params if not one.opts[0].startswith("-")]
    assert re.findall(r"[A-Z]+", told.split("`")[1]) == arguments


def test_no_row_is_about_a_verb_that_is_not_there() -> None:
    rows = re.findall(r"^\| `([a-z]+(?: [a-z]+)?)[^`]*` \|.*\|.*\|$", PAGE, re.MULTILINE)
    assert set(rows) == set(VERBS)


def test_every_verb_has_the_common_options() -> None:
    for verb, command in VERBS.items():
        options = {option for one in command.params for option in one.opts}
        assert {"--json", "--data-dir"} <= options, verb
