"""Options and arguments that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from pilothouse.errors import PilothouseError
from pilothouse.interfaces.cli.places import Session, absolute


def session_of(context: typer.Context) -> Session:
    found = context.find_root().obj
    return found if isinstance(found, Session) else Session()


def path_given(text: str | Path) -> Path:
    """A path as it was typed. An empty one, as from a shell variable that is not set, must not mean ``here``."""
    if text == "":
        raise typer.BadParameter("it is empty")
    return Path(text)


def _resolve(context: typer.Context, value: Path | None) -> Path | None:
    """The option counts on either side of the verb; the later one wins. A verb is always handed a directory."""
    session = session_of(context)
    if value is not None:
        session.data_dir = absolute(value)
    return value if context.parent is None or context.resilient_parsing else session.place()


def _resolve_from_nowhere(context: typer.Context, value: Path | None) -> Path | None:
    """As ``_resolve``, for what editors start in whatever folder they opened: no file of it, such as its ``.env``, may
    say which programs a server of this user starts, whom it asks with which key, or what it keeps where."""
    given = None if value is None else absolute(value)
    os.chdir("/")
    return _resolve(context, given)


def _data_dir(callback: Callable[[typer.Context, Path | None], Path | None]) -> Any:
    return typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Where everything is kept (PILOTHOUSE_DATA_DIR).",
        callback=callback,
        parser=path_given,
    )


DataDir = Annotated[Path | None, _data_dir(_resolve)]
DataDirFromNowhere = Annotated[Path | None, _data_dir(_resolve_from_nowhere)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on stdout, messages on stderr.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colours (as with NO_COLOR).")]


def _complete(path: str, key: str) -> Callable[[typer.Context, str], list[str]]:
    """Names from a live owner; none is started for it."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from pilothouse.interfaces.cli.finding import find_plan
        from pilothouse.interfaces.cli.owners import live_owner

        client = live_owner(session_of(ctx).place())
        if client is None:
            return []
        try:
            plan = find_plan(client, ctx.params["plan"]) if "{plan}" in path else ""
            found = client.get(path.format(plan=plan))[key]
        except (PilothouseError, KeyError):
            return []
        return [name for item in found if (name := item.get("producerId") or item["id"]).startswith(incomplete)]

    return complete


_WHICH = "its id, the beginning of it (4 characters or more), or `last`"
PlanId = Annotated[
    str, typer.Argument(metavar="ID", help=f"The plan: {_WHICH}.", autocompletion=_complete("/api/plans", "plans"))
]
RunId = Annotated[
    str, typer.Argument(metavar="ID", help=f"The run: {_WHICH}.", autocompletion=_complete("/api/runs", "runs"))
]
ChatId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help=f"The conversation: {_WHICH}.", autocompletion=_complete("/api/copilot/chats", "chats")
    ),
]
NodeName = Annotated[
    str,
    typer.Argument(
        metavar="NODE", help="The node: its producer id or id.", autocompletion=_complete("/api/plans/{plan}", "nodes")
    ),
]
WaitId = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The wait, as `approvals list` shows it, or the node that waits.",
        autocompletion=_complete("/api/approvals", "approvals"),
    ),
]
KeyId = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="The key, as `keys list` shows it.", autocompletion=_complete("/api/keys", "keys")
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0, max=3600, help="How long to wait.")]
