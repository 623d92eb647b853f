"""``pilothouse approvals …``: what waits for a person."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from pilothouse.interfaces.cli.chatting_asking import told_arguments
from pilothouse.interfaces.cli.client import segment
from pilothouse.interfaces.cli.door import note
from pilothouse.interfaces.cli.finding import find_wait
from pilothouse.interfaces.cli.listing import ListsByDefault
from pilothouse.interfaces.cli.options import AsJson, DataDir, WaitId
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import print_fields, print_json
from pilothouse.interfaces.cli.words import ago, one_line

app = typer.Typer(
    help="What waits for a person, and answers to it.",
    rich_markup_mode=None,
    add_completion=False,
    cls=ListsByDefault,
)


@app.command("list")
def list_approvals(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Everything that waits for an answer."""
    found = connect(data_dir).get("/api/approvals")
    if as_json:
        print_json(found)
        return
    now = int(time.time() * 1000)
    if not found["approvals"]:
        note("nothing waits for an answer")
    for number, wait in enumerate(found["approvals"]):
        if number:
            print()
        print(f"{wait['id']}  {wait['kind']}, {ago(wait['openedAt'], now)}, {one_line(wait['runName'])}")
        print_fields(
            (
                ("question", wait["question"]),
                *told_arguments((wait.get("detail") or {}).get("arguments") or {}),
                ("answers", ", ".join(wait["options"])),
            )
        )
    if found["approvals"] and sys.stdout.isatty():
        note("`pilothouse approvals answer ID ANSWER` answers one; the beginning of its id will do")


@app.command()
def answer(
    wait: WaitId,
    answer: Annotated[str, typer.Argument(metavar="ANSWER", help="One of its answers.")],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Answer what waits. The first answer counts."""
    client = connect(data_dir)
    row = client.post(f"/api/approvals/{segment(find_wait(client, wait))}", {"answer": answer})
    if as_json:
        print_json(row)
    else:
        print(f"{one_line(row['name'])}: answered {answer}")
