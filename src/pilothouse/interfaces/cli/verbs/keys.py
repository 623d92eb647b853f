"""``pilothouse keys …``: API keys, by which programs come in over HTTP."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from pilothouse.core.auth.principals import DEFAULT_SCOPES, MEANINGS, Scope
from pilothouse.interfaces.cli.client import segment
from pilothouse.interfaces.cli.door import note
from pilothouse.interfaces.cli.listing import ListsByDefault
from pilothouse.interfaces.cli.options import AsJson, DataDir, KeyId
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import print_json, print_table
from pilothouse.interfaces.cli.words import ago

app = typer.Typer(
    help="API keys, by which programs come in over HTTP.",
    rich_markup_mode=None,
    add_completion=False,
    cls=ListsByDefault,
)

_SCOPES = "; ".join(f"{scope}: {meaning}" for scope, meaning in MEANINGS.items())

KeyName = Annotated[str, typer.Option("--name", metavar="NAME", help="What it is for.")]
User = Annotated[str | None, typer.Option("--user", metavar="USER", help="Who whoever shows it is; by default you.")]
Scopes = Annotated[
    list[Scope],
    typer.Option("--scope", metavar="SCOPE", help=f"How far it goes, each including the ones before it. {_SCOPES}."),
]


@app.command()
def create(
    name: KeyName,
    user: User = None,
    scope: Scopes = [*DEFAULT_SCOPES],  # noqa: B006  # typer hands a fresh list to every call
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Make an API key. It is shown once."""
    body = {"name": name, "scopes": [str(one) for one in scope]} | ({} if user is None else {"user": user})
    made = connect(data_dir).post("/api/keys", body)
    if as_json:
        print_json({field: made[field] for field in ("id", "name", "key")})
        return
    print(made["key"])
    note(
        f"This is {made['id']}, as {made['user']}, to {', '.join(made['scopes'])}. It is shown only now; keep it safe."
    )


@app.command("list")
def list_keys(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """API keys that were not revoked."""
    found = connect(data_dir).get("/api/keys")
    if as_json:
        print_json(found)
        return
    now = int(time.time() * 1000)
    rows = (
        (
            key["id"],
            key["user"],
            ",".join(key["scopes"]),
            ago(key["createdAt"], now),
            "never" if key["lastUsedAt"] is None else ago(key["lastUsedAt"], now),
            key["name"],
        )
        for key in found["keys"]
    )
    print_table(("ID", "USER", "SCOPES", "MADE", "USED", "NAME"), rows, empty="no API keys")


@app.command()
def revoke(key: KeyId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Revoke a key, at once and for good."""
    connect(data_dir).delete(f"/api/keys/{segment(key)}")
    if as_json:
        print_json({"id": key, "revoked": True})
    else:
        print(f"revoked: {key}")
