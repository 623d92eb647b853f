"""``pilothouse chats …``: the conversations there are, to be found again, read and deleted."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from pilothouse.interfaces.cli.client import Client, segment
from pilothouse.interfaces.cli.finding import find_chat
from pilothouse.interfaces.cli.listing import ListsByDefault
from pilothouse.interfaces.cli.options import AsJson, ChatId, DataDir
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import print_json, print_output, print_table
from pilothouse.interfaces.cli.words import ago, short

app = typer.Typer(
    help="Conversations: which there are, what was said.",
    rich_markup_mode=None,
    add_completion=False,
    cls=ListsByDefault,
)


@app.command("list")
def list_chats(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")] = 50,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Conversations, the last used first: `pilothouse chat --chat ID` goes on with one."""
    found = connect(data_dir).get("/api/copilot/chats", limit=limit)
    if as_json:
        print_json(found)
        return
    now = int(time.time() * 1000)
    rows = (
        (short(chat["id"]), ago(chat["updatedAt"], now), "yes" if chat["activeStreamId"] else "", chat["title"])
        for chat in found["chats"]
    )
    print_table(("ID", "USED", "LIVE", "TITLE"), rows, empty="no conversations yet; `pilothouse chat` begins one")


@app.command()
def show(chat: ChatId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """What was said and done in one, as Markdown; with --json all there is of it."""
    client = connect(data_dir)
    path = f"{_at(client, chat)}/export"
    if as_json:
        print_json(client.get(path))
    else:
        print_output(client.text(path, format="markdown"))


@app.command()
def delete(chat: ChatId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Delete one with all that was said in it."""
    client = connect(data_dir)
    path = _at(client, chat)
    found: dict[str, Any] = client.get(path)
    client.delete(path)
    if as_json:
        print_json({"id": found["id"], "deleted": True})
    else:
        print(f"deleted: {found['id']}")


def _at(client: Client, given: str) -> str:
    return f"/api/copilot/chats/{segment(find_chat(client, given))}"
