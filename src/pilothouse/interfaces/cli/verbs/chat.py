"""``pilothouse chat``: one message and its answer, or a conversation."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pilothouse.errors import BadInput
from pilothouse.interfaces.cli.door import ExitCode, note, patience
from pilothouse.interfaces.cli.finding import find_chat
from pilothouse.interfaces.cli.options import AsJson, DataDir, NoColor, path_given
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import print_json
from pilothouse.interfaces.cli.words import short

if TYPE_CHECKING:
    from pilothouse.client.chats import Saying
    from pilothouse.client.clients import Client
    from pilothouse.interfaces.cli.chatting_screen import ChatScreen

app = typer.Typer(rich_markup_mode=None, add_completion=False)

MAX_STDIN = 1 << 20


class OnApproval(StrEnum):
    WAIT = "wait"
    REFUSE = "refuse"
    RUN = "run"


@app.command()
def chat(
    message: Annotated[
        list[str] | None, typer.Argument(metavar="MESSAGE", help="What is said; `-` stands for what stdin has.")
    ] = None,
    chat_id: Annotated[
        str,
        typer.Option("--chat", metavar="ID", help="A conversation to go on with: its id, the beginning of it, `last`."),
    ] = "",
    workflow: Annotated[str, typer.Option("--workflow", metavar="ID", help="The workflow that tools work on.")] = "",
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", metavar="PATH", help="A registered repository to work in.", parser=path_given),
    ] = None,
    command: Annotated[
        str, typer.Option("--command", metavar="ID", help="What kind of turn it is: `agent`, `ask`, `plan`, a command.")
    ] = "",
    model: Annotated[str, typer.Option("--model", metavar="M", help="The model that answers.")] = "",
    on_approval: Annotated[
        OnApproval,
        typer.Option("--on-approval", help="What becomes of tool calls that a person has to allow."),
    ] = OnApproval.WAIT,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, max=3600, help="How long a turn may take.")
    ] = 300.0,
    no_color: NoColor = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> int:
    """Say something and see the answer as it comes. Without MESSAGE a conversation is held, at a terminal.

    The answer goes to stdout, what happens beside it to stderr. A tool that needs an approval asks at the terminal, and
    waits otherwise. Ctrl-C ends the turn; a second one leaves it.

    Exit code: 0 answered, 1 failed, 2 refused before anything happened, 130 stopped.
    """
    from pilothouse.client.clients import Client
    from pilothouse.interfaces.cli.chatting_screen import ChatScreen

    assert data_dir is not None, "verbs are always handed a directory"
    text = _message(message or [])
    with Client(data_dir=data_dir) as client:
        saying: Saying = {
            "chat_id": find_chat(connect(data_dir), chat_id) if chat_id else None,
            "workflow_id": workflow or None,
            "workspace": str(workspace.expanduser().absolute()) if workspace is not None else None,
            "command": command or None,
            "model": model or None,
            "timeout": timeout,
        }
        screen = ChatScreen(answers=not as_json, no_color=no_color)
        if text is None:
            if as_json:
                raise BadInput("--json is for one message", fix="give MESSAGE")
            from pilothouse.interfaces.cli.chatting_talk import Talk

            return Talk(client, screen, data_dir / "chat-history", on_approval.value, saying).go()
        return _one(client, screen, text, on_approval, saying, as_json=as_json)


def _one(
    client: Client, screen: ChatScreen, text: str, on_approval: OnApproval, saying: Saying, *, as_json: bool
) -> int:
    from pilothouse.interfaces.cli.chatting import TurnWatch, begin
    from pilothouse.interfaces.cli.chatting_ends import told_end

    with patience("waiting for the server"):
        turn, pressed = begin(client, text, on_approval.value, saying)
    outcome = TurnWatch(turn, screen, pressed=pressed).follow()
    if as_json and outcome.end is not None:
        import msgspec

        print_json(msgspec.to_builtins(turn.result()))
    code = told_end(turn, outcome)
    if code == ExitCode.SUCCEEDED and not as_json and not saying.get("chat_id") and sys.stdout.isatty():
        note(f"`pilothouse chat --chat {short(turn.chat_id)} MESSAGE` goes on from here")
    return code


def _message(words: list[str]) -> str | None:
    """What is to be said; None: hold a conversation. Raises ``BadInput``."""
    if not words and sys.stdin.isatty():
        return None
    parts = [_stdin() if word == "-" else word for word in words or ["-"]]
    text = ("\n\n" if "-" in words else " ").join(part for part in parts if part).strip()
    if not text:
        raise BadInput("there is nothing to say", field="MESSAGE", fix="give a message, or something on stdin")
    return text


def _stdin() -> str:
    data = sys.stdin.buffer.read(MAX_STDIN + 1)
    if len(data) > MAX_STDIN:
        raise BadInput(f"stdin has more than {MAX_STDIN >> 20} MiB", field="MESSAGE", fix="say less")
    return data.decode("utf-8", "replace").strip()
