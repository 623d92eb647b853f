"""``pilothouse serve``: the server in the foreground."""

from __future__ import annotations

import sys
import webbrowser
from typing import Annotated

import typer

from pilothouse import app as wiring
from pilothouse.interfaces.cli.door import note
from pilothouse.interfaces.cli.options import AsJson, DataDir
from pilothouse.interfaces.cli.printing import print_json

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="Address to listen on [127.0.0.1].")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port [8484]; 0 takes a free one.")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Serve HTTP in the foreground. Until Ctrl-C; prints the URL with a login token that works once."""

    def announce(url: str) -> None:
        if as_json:
            print_json({"url": url})
            sys.stdout.flush()  # who reads a pipe waits for it
        else:
            print(url, flush=True)
            if sys.stdout.isatty():
                note("it logs a browser in, once; Ctrl-C ends the server")
        if not no_open:
            webbrowser.open(url)

    wiring.serve(host=host, port=port, data_dir=data_dir, announce=announce)
