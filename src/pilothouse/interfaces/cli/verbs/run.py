"""``pilothouse run``: a plan from its file to its end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pilothouse.client.keys import fresh_key
from pilothouse.core.plan.spec_text import MAX_BYTES, read_data
from pilothouse.errors import BadInput, Unavailable
from pilothouse.interfaces.cli.client import Client
from pilothouse.interfaces.cli.door import note, patience
from pilothouse.interfaces.cli.feed import Presses, interrupts
from pilothouse.interfaces.cli.options import AsJson, DataDir, NoColor, path_given
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import print_json
from pilothouse.interfaces.cli.words import short

app = typer.Typer(rich_markup_mode=None, add_completion=False)

SUBMIT_PATIENCE = 120.0
"""Seconds: a large plan is checked, and the programs of its agents are asked for their versions."""


@app.command()
def run(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan file, YAML or JSON; `-` reads stdin.")],
    repo: Annotated[
        Path | None,
        typer.Option("--repo", metavar="PATH", help="The repository, whatever the file says.", parser=path_given),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Start it, print its id and leave.")] = False,
    update_checkout: Annotated[
        bool,
        typer.Option("--update-checkout", help="Fast-forward a clean checkout of the target branch to the result."),
    ] = False,
    no_color: NoColor = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> int:
    """Run a plan to its end, with live progress.

    Exit code: 0 succeeded, 1 failed, 2 refused before anything happened, 3 partial, 130 stopped. Ctrl-C stops the
    plan; a second one leaves it.
    """
    text, source, base = read_plan(plan)
    repo_path = choose_repo(text, source, base, repo)
    client = connect(data_dir)
    presses = Presses()
    with interrupts(presses.press):
        body = {"text": text, "repoPath": str(repo_path), "updateCheckout": update_checkout, "registerRepo": True}
        with patience("checking the plan and the programs of its agents"):
            client, view = _submit(client, data_dir, body)
        plan_id = str(view["planId"])
        name = short(plan_id)
        begun = "started"
        if view["status"] == "created":  # it said ``startPaused``
            begun = f"waits; `pilothouse plan resume {name}` starts it"
            if not detach:
                note(begun)
        if detach:
            note(f"{begun}; `pilothouse plan show {name} --follow` follows it, `pilothouse plan stop {name}` stops it")
            if as_json:
                print_json(view)
            else:
                print(plan_id)
            return 0
        # Only now: the plan is at work already while the screen is loaded.
        from pilothouse.interfaces.cli.following import follow_plan

        assert data_dir is not None, "verbs are always handed a directory"
        return follow_plan(client, data_dir, plan_id, presses, as_json=as_json, no_color=no_color, stops=True)


def _submit(client: Client, data_dir: Path | None, body: dict[str, object]) -> tuple[Client, dict[str, Any]]:
    """The plan, and a client of whoever runs it. A server that goes away meanwhile may have accepted it or not: the
    next one is asked under the same key, so that it runs once."""
    key = fresh_key()
    try:
        return client, client.post("/api/plans", body, timeout=SUBMIT_PATIENCE, key=key)
    except Unavailable:
        client = connect(data_dir)
        return client, client.post("/api/plans", body, timeout=SUBMIT_PATIENCE, key=key)


def read_plan(name: str) -> tuple[str, str, Path]:
    """(text, what to call it, the directory it is relative to) of a plan file. Raises ``BadInput``."""
    if not name:  # as from a shell variable that is not set
        raise BadInput("PLAN is empty", fix="give the path of a plan file, or - for stdin")
    try:
        if name == "-":
            data, source, base = sys.stdin.buffer.read(MAX_BYTES + 1), "stdin", Path.cwd()
        else:
            path = Path(name)
            with path.open("rb") as file:
                data, source, base = file.read(MAX_BYTES + 1), path.name, path.absolute().parent
    except FileNotFoundError:
        raise BadInput(f"{name} does not exist", fix="give the path of a plan file, or - for stdin") from None
    except IsADirectoryError:
        raise BadInput(f"{name} is a directory", fix="give the path of a plan file") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > MAX_BYTES:
        raise BadInput(f"{source} is larger than {MAX_BYTES >> 20} MiB", fix="a plan file is at most that large")
    try:
        return data.decode("utf-8-sig"), source, base
    except UnicodeDecodeError as error:
        raise BadInput(f"{source} is not text: byte {error.start} is not UTF-8", fix="save it as UTF-8") from None


def choose_repo(text: str, source: str, base: Path, given: Path | None) -> Path:
    """The repository, absolute: the one given, else the plan's (relative to its file), else the current directory."""
    data = read_data(text, source)
    named = data.get("repoPath", data.get("repo_path")) if isinstance(data, dict) else None
    if given is not None:
        return given.expanduser().absolute()
    if isinstance(named, str) and named:
        return base / Path(named).expanduser()
    return Path.cwd()
