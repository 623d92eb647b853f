"""``pilothouse models``: which models answer in conversations, and which the installed agents offer."""

from __future__ import annotations

from typing import Annotated

import typer

from pilothouse.interfaces.cli.door import ExitCode, note, patience
from pilothouse.interfaces.cli.options import AsJson, DataDir
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import print_json, print_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def models(
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only those of this agent.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Ask again, instead of what was said within the hour.")
    ] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> int:
    """Models that answer in conversations, and that agents offer. Exit code 1 when nobody tells of any."""
    client = connect(data_dir)
    with patience("asking for their models"):
        found = client.get("/api/models", agent=agent, fresh=fresh, timeout=120)
    code = ExitCode.SUCCEEDED if found["models"] or found.get("chatModels") else ExitCode.FAILED
    if as_json:
        print_json(found)
        return code
    if chats := found.get("chatModels"):
        answering = (
            (model["id"], model["backend"], "yes" if model["default"] else "", model["name"]) for model in chats
        )
        print_table(("IN CONVERSATIONS", "BACKEND", "DEFAULT", "NAME"), answering, empty="")
        print()
    elif problem := found.get("chatProblem"):
        note(f"nobody says which models answer in conversations: {problem}")
    elif agent is None:
        note("who answers in conversations does not tell which models there are")
    rows = (
        (
            model["id"],
            model["agent"],
            model["vendor"],
            model["tier"],
            "yes" if model["default"] else "",
            "yes" if model["priced"] else "",
        )
        for model in found["models"]
    )
    who = f"{agent} does not tell" if agent else "no agent tells"
    print_table(
        ("MODEL", "AGENT", "VENDOR", "TIER", "DEFAULT", "PRICED"),
        rows,
        empty=f"{who} which models it offers; `pilothouse agents` shows what is installed",
    )
    return code
