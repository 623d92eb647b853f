"""The front door: ``pilothouse VERB …``, and the table of its verbs.

A verb's module is imported only when that verb is used, so that help, completion and mistakes cost nothing. Knows
nothing of what verbs do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pilothouse.interfaces.cli.door import guarded
from pilothouse.interfaces.cli.options import DataDir
from pilothouse.interfaces.cli.places import Session

VERBS = {
    "chat": "Say something and see the answer as it comes.",
    "chats": "Conversations: which there are, what was said.",
    "run": "Run a plan to its end, with live progress.",
    "plan": "List, show and control plans and their nodes.",
    "runs": "Every run, whatever its kind, one way.",
    "agents": "Agents that can be given work, installed or not.",
    "models": "Models that answer in conversations, and that agents offer.",
    "commands": "Commands that a message can be sent with.",
    "approvals": "What waits for a person, and answers to it.",
    "repo": "Repositories that plans may name over HTTP.",
    "keys": "API keys, by which programs come in over HTTP.",
    "credentials": "Values, keys and accounts of services that tools use.",
    "mcp": "The server's tools for editors and agents that speak MCP.",
    "serve": "Serve HTTP in the foreground.",
    "doctor": "Check whether this machine has what Pilothouse needs.",
}
"""Every verb with its one line of help; module ``verbs.<name>`` has it as a typer ``app``."""


class LazyGroup(TyperGroup):
    """The root: lists its verbs from the table, and imports one to run it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {name: TyperGroup(name=name, help=text) for name, text in VERBS.items()}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        module = import_module(f"pilothouse.interfaces.cli.verbs.{cmd_name}")
        command: Any = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


app = typer.Typer(cls=LazyGroup, rich_markup_mode=None, no_args_is_help=True)


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        print(version("pilothouse"))
        raise typer.Exit


@app.callback(help="Let many agents work at once, watch them, stop them, and trust what you see.")
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """The options before the verb act in their callbacks."""


def run_line(arguments: Sequence[str]) -> int:
    """Run one command line in this process; answers its exit code. Raises nothing."""
    session = Session()
    command = typer.main.get_command(app)
    return guarded(
        session,
        lambda: command.main(list(arguments), prog_name="pilothouse", standalone_mode=False, obj=session),
    )


def main() -> None:
    """The console entry point."""
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that this terminal cannot show must not end a run
    sys.exit(run_line(sys.argv[1:]))


def _open_closed() -> None:
    """Whoever starts us with a stream closed, as daemons and ``>&-`` do, means that nobody is there. What is opened
    takes the number that is free, so that no file of ours ends up as somebody's output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # lives as long as the process


if __name__ == "__main__":
    main()
