"""``pilothouse repo …``: the repositories that plans may name over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pilothouse.interfaces.cli.listing import ListsByDefault
from pilothouse.interfaces.cli.options import AsJson, DataDir, path_given
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.places import absolute
from pilothouse.interfaces.cli.printing import print_json, print_table

app = typer.Typer(
    help="Repositories that plans may name over HTTP.",
    rich_markup_mode=None,
    add_completion=False,
    cls=ListsByDefault,
)

RepoPath = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="The repository; the current directory by default.", parser=path_given),
]


@app.command("list")
def list_repos(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Registered repositories."""
    found = connect(data_dir).get("/api/repos")
    if as_json:
        print_json(found)
        return
    rows = (((repo if isinstance(repo, str) else repo["path"]),) for repo in found["repos"])
    print_table(("PATH",), rows, empty="no repositories; `pilothouse repo add PATH` registers one")


@app.command()
def add(path: RepoPath = Path(), as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Register a repository."""
    where = str(absolute(path))
    found = connect(data_dir).post("/api/repos", {"path": where})
    if as_json:
        print_json(found)
    else:
        print(f"registered: {found.get('path', where) if isinstance(found, dict) else where}")


@app.command()
def remove(path: RepoPath = Path(), as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Unregister a repository; nothing in it changes."""
    where = str(absolute(path))
    connect(data_dir).delete("/api/repos", path=where)
    if as_json:
        print_json({"path": where, "removed": True})
    else:
        print(f"no longer registered: {where}")
