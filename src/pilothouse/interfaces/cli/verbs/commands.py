"""``pilothouse commands …``: what a message can be sent with."""

from __future__ import annotations

import typer

from pilothouse.interfaces.cli.listing import ListsByDefault
from pilothouse.interfaces.cli.options import AsJson, DataDir
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import print_json, print_table

app = typer.Typer(
    help="Commands that a message can be sent with.", rich_markup_mode=None, add_completion=False, cls=ListsByDefault
)


@app.callback()
def commands() -> None:
    """There will be more to do with them than to list them."""


@app.command("list")
def list_commands(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Every command: `pilothouse chat --command ID`."""
    found = connect(data_dir).get("/api/commands")
    if as_json:
        print_json(found)
        return
    rows = ((each["id"], each["mode"] or "", each["description"]) for each in found["commands"])
    print_table(("COMMAND", "MODE", "DOES"), rows, empty="there are no commands")
