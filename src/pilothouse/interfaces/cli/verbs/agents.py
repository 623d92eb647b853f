"""``pilothouse agents``: which agents this server can give work to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pilothouse.interfaces.cli.door import note, patience
from pilothouse.interfaces.cli.options import AsJson, DataDir
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import print_json, print_table

app = typer.Typer(rich_markup_mode=None, add_completion=False)

Fresh = Annotated[bool, typer.Option("--fresh", help="Look again, instead of what was found within the hour.")]


@app.command()
def agents(fresh: Fresh = False, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Agents that can be given work, installed or not."""
    client = connect(data_dir)
    with patience("asking the programs that are here what they can do"):
        found = client.get("/api/agents", fresh=fresh, timeout=120)
    if as_json:
        print_json(found)
        return
    head = ("AGENT", "VERSION", "LOGIN", "RESUMES", "ASKS", "ACP", "MODELS", "PROGRAM")
    print_table(head, (_row(agent) for agent in found["agents"]), empty="no agents")
    for agent in found["agents"]:
        if agent["problem"]:
            note(f"{agent['name']}: {agent['problem']}")


def _row(agent: dict[str, Any]) -> tuple[str, ...]:
    return (
        agent["name"],
        (agent["version"] or "installed") if agent["installed"] else "-",
        _login(agent) if agent["installed"] else "",
        _yes(agent["resumes"]),
        _yes(agent["asks"]),
        _yes(agent["acp"]),
        "" if agent["models"] is None else str(agent["models"]),
        agent["path"],
    )


def _login(agent: dict[str, Any]) -> str:
    word = {True: "yes", False: "no", None: "unknown"}[agent["loggedIn"]]
    return f"{word} ({agent['login']})" if agent["login"] else word


def _yes(value: bool) -> str:
    return "yes" if value else "no"
