"""``pilothouse mcp``: the server's tools over standard input and output, and the entry in the configuration of whoever
starts it so."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, ClassVar

import platformdirs
import typer

from pilothouse.client import owners
from pilothouse.errors import Unavailable
from pilothouse.interfaces.cli.door import note
from pilothouse.interfaces.cli.listing import ListsByDefault
from pilothouse.interfaces.cli.mcp_clients import CLIENTS, ClientName, enter, snippet
from pilothouse.interfaces.cli.options import AsJson, DataDir, DataDirFromNowhere
from pilothouse.interfaces.cli.printing import print_json

BRIDGE = "bridge"
INSTALL = "pip install 'pilothouse[mcp]'"


class _BridgesByDefault(ListsByDefault):
    default: ClassVar[str] = BRIDGE


app = typer.Typer(
    help="The server's tools for editors and agents that speak MCP.",
    rich_markup_mode=None,
    add_completion=False,
    cls=_BridgesByDefault,
)


@app.command(BRIDGE)
def bridge(as_json: AsJson = False, data_dir: DataDirFromNowhere = None) -> None:
    """Speak MCP over standard input and output, until the input ends. This is what MCP clients start; it is meant when
    nothing else is said. No `.env` of the current directory is read."""
    from pilothouse import app as wiring

    assert data_dir is not None, "verbs are always handed a directory"
    _need_sdk()
    if sys.stdin.isatty():
        note("this speaks MCP over standard input and output; `pilothouse mcp install` tells a client to start it")
    place = data_dir
    found = owners.find_owner(place, note)  # what is wrong with it is said now, not to the first request
    first = iter([found.socket])
    wiring.bridge(lambda: next(first, "") or owners.find_owner(place, note).socket)


@app.command()
def install(
    client: Annotated[ClientName, typer.Argument(metavar="CLIENT", help=f"Which: {', '.join(CLIENTS)}.")],
    only_print: Annotated[bool, typer.Option("--print", help="Only print what would be entered, and where.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Enter Pilothouse into the configuration of an MCP client: of this directory, or of its user where it has none of
    a directory (copilot, codex). What else is in there stays."""
    assert data_dir is not None, "verbs are always handed a directory"
    chosen, argv = CLIENTS[client], _command_line(data_dir)
    if only_print and not as_json:
        note(f"in {chosen.place()}:")
        print(snippet(chosen, argv), end="")
        return
    entered = enter(chosen, argv)
    written = entered.changed and not only_print
    if written:
        entered.write()
    if as_json:
        print_json({"client": client, "path": str(entered.path), "entry": chosen.entry(argv), "written": written})
    else:
        print(f"{'entered into' if written else 'already in'} {entered.path}")


def _command_line(data_dir: Path) -> list[str]:
    """What starts the bridge, wherever and by whom it is started: editors know little of somebody's shell."""
    script = Path(sys.executable).with_name("pilothouse")
    argv = [str(script)] if script.is_file() else [sys.executable, "-P", "-m", "pilothouse.interfaces.cli.main"]
    where = [] if data_dir == _default() else ["--data-dir", str(data_dir)]
    return [*argv, "mcp", *where]


def _default() -> Path | None:
    """Where it is for everybody of this user; None where that is said by the shell."""
    moved = os.environ.get("XDG_DATA_HOME")
    return None if moved else Path(platformdirs.user_data_dir("pilothouse", appauthor=False))


def _need_sdk() -> None:
    """Raises ``Unavailable``: the owner would say so too, but to the client, which shows nobody."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise Unavailable(f"MCP needs a package that is not installed: {INSTALL}")
