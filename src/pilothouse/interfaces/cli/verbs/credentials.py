"""``pilothouse credentials …``: values for ``{{NAME}}``, keys and accounts of services. Secrets come from stdin or a
prompt, never from the command line, which other users of the machine can see."""

from __future__ import annotations

import sys
import time
import webbrowser
from typing import Annotated, Any, Literal

import typer

from pilothouse.errors import BadInput
from pilothouse.interfaces.cli.callback import listening
from pilothouse.interfaces.cli.client import segment
from pilothouse.interfaces.cli.door import note
from pilothouse.interfaces.cli.listing import ListsByDefault
from pilothouse.interfaces.cli.options import AsJson, DataDir
from pilothouse.interfaces.cli.owners import connect as owner_of
from pilothouse.interfaces.cli.printing import print_json, print_table
from pilothouse.interfaces.cli.words import ago

app = typer.Typer(
    help="Values, keys and accounts of services that tools use.",
    rich_markup_mode=None,
    add_completion=False,
    cls=ListsByDefault,
)

CredentialId = Annotated[
    str, typer.Argument(metavar="ID", help="As `credentials list` shows it: env:NAME, slack:acme.")
]
ServiceName = Annotated[str, typer.Argument(metavar="SERVICE", help="slack, github, google, or one that is set up.")]
Account = Annotated[str | None, typer.Option("--account", metavar="NAME", help="What to call it.")]


@app.command("list")
def list_credentials(as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """What there is, without what it hides."""
    found = owner_of(data_dir).get("/api/credentials")
    if as_json:
        print_json(found)
        return
    now = int(time.time() * 1000)
    rows = (
        (
            one["id"],
            one["kind"],
            "yes" if one["default"] else "",
            one["state"] if one["kind"] != "value" else "",
            ago(one["createdAt"], now),
            " ".join(one["scopes"]),
        )
        for one in found["credentials"]
    )
    print_table(("ID", "KIND", "DEFAULT", "STATE", "MADE", "SCOPES"), rows, empty="no credentials")


@app.command("set")
def set_value(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What stands between the braces: API_KEY.")],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Keep what stands for {{NAME}} in tools' arguments; read from stdin."""
    _kept(
        owner_of(data_dir).post(
            "/api/credentials", {"name": name, "value": _secret(f"value of {name}", f"set {name}")}
        ),
        as_json,
    )


@app.command()
def add(service: ServiceName, account: Account = None, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Keep a key or token that was made at a service; read from stdin."""
    body = {"service": service, "value": _secret(f"key of {service}", f"add {service}")} | _given(account)
    _kept(owner_of(data_dir).post("/api/credentials", body), as_json)


@app.command()
def connect(
    service: ServiceName,
    account: Account = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Where to listen for the answer; by default a free port.")
    ] = 0,
    host: Annotated[
        Literal["127.0.0.1", "localhost"],
        typer.Option("--host", help="What the service was told that this machine is called."),
    ] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print where to go.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Connect an account: a browser of this machine asks its person to agree."""
    owner = owner_of(data_dir)
    with listening(port) as callback:
        body = {"service": service, "redirectUri": callback.url(host)} | _given(account)
        begun = owner.post("/api/credentials/connect", body)
        callback.state = begun["state"]
        note(f"Agree in a browser on this machine: {begun['authorizeUrl']}")
        if not no_browser:
            webbrowser.open(begun["authorizeUrl"])
        code = callback.code(max(0.0, begun["expiresAt"] / 1000 - time.time()))
        made = owner.post("/api/credentials/connected", {"state": begun["state"], "code": code}, timeout=90.0)
    _kept(made, as_json, "connected")


@app.command()
def default(account: CredentialId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Mean this account where none of its service is named."""
    _kept(owner_of(data_dir).post(f"/api/credentials/{segment(account)}/default"), as_json, "default")


@app.command()
def remove(credential: CredentialId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Forget one; the service of an account is told to forget it too."""
    owner_of(data_dir).delete(f"/api/credentials/{segment(credential)}")
    if as_json:
        print_json({"id": credential, "removed": True})
    else:
        print(f"removed: {credential}")


def _secret(what: str, verb: str) -> str:
    """From a prompt that shows nothing, or all of stdin without the line break at its end. Raises ``BadInput``, which
    says how the ``verb`` is given a value."""
    if sys.stdin.isatty():
        given = str(typer.prompt(what, hide_input=True, err=True))
    else:
        try:
            given = sys.stdin.read()
        except UnicodeDecodeError:
            raise BadInput("is no text", field="stdin", fix="text in UTF-8") from None
        given = given.removesuffix("\n").removesuffix("\r")
    if not given:
        raise BadInput(f"there is no {what} on stdin", fix=f"as in: pilothouse credentials {verb} <file")
    return given


def _given(account: str | None) -> dict[str, str]:
    return {} if account is None else {"account": account}


def _kept(made: dict[str, Any], as_json: bool, what: str = "kept") -> None:
    if as_json:
        print_json(made)
    else:
        print(f"{what}: {made['id']}")
