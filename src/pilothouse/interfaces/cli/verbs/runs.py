"""``pilothouse runs …``: every run, whatever its kind, one way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from pilothouse.errors import BadInput
from pilothouse.interfaces.cli.door import ExitCode
from pilothouse.interfaces.cli.finding import find_run
from pilothouse.interfaces.cli.listing import ListsByDefault
from pilothouse.interfaces.cli.options import AsJson, DataDir, NoColor, RunId, Timeout
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import colours, print_fields, print_json, print_json_line, print_table, state
from pilothouse.interfaces.cli.stopping import await_end, report_end
from pilothouse.interfaces.cli.words import ago, counted, how_to_answer, one_line, short

app = typer.Typer(
    help="Every run, whatever its kind, one way.", rich_markup_mode=None, add_completion=False, cls=ListsByDefault
)


_GO_ON = {"FAILED": "retry", "PARTIAL": "retry", "STOPPED": "resume", "PAUSED": "resume"}

Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Follow it to its end: a plan's progress, or an answer as it comes.")
]


@app.command("list")
def list_runs(
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="Only runs of this kind: plan, turn.")
    ] = None,
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="Only runs in this state.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only runs that wait for a person.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")] = 50,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Runs, newest first."""
    found = connect(data_dir).get("/api/runs", kind=kind, status=status, waiting=waiting or None, limit=limit)
    if as_json:
        print_json(found)
        return
    now = int(time.time() * 1000)
    rows = (
        (short(row["id"]), row["lifecycle"].lower(), row["kind"], ago(row["createdAt"], now), row["name"])
        for row in found["runs"]
    )
    print_table(("ID", "STATUS", "KIND", "CREATED", "NAME"), rows, empty="no runs")


@app.command()
def show(run: RunId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """One run at a glance."""
    client = connect(data_dir)
    row = client.get(f"/api/runs/{find_run(client, run)}")
    if as_json:
        print_json(row)
        return
    print(f"{state(row['lifecycle'].lower(), color=colours())}  {one_line(row['name'])}")
    print_fields(
        (
            ("run", row["id"]),
            ("kind", row["kind"]),
            ("parts", counted(row["counts"])),
            ("error", one_line(row["error"] or "")),
            *(line for wait in row["waits"] for line in _waiting(wait)),
            ("next", _next(row)),
        )
    )


@app.command()
def events(
    run: RunId,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", min=0, help="Only events after this number.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on to the end, one JSON value a line.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """The events of a run, as recorded: one JSON value a line, with --json all in one value."""
    if follow and as_json:
        raise BadInput("events that are followed are no one JSON value", fix="leave --json or --follow out")
    client = connect(data_dir)
    run_id = find_run(client, run)
    if follow:
        from pilothouse.interfaces.cli.streaming import print_events

        assert data_dir is not None, "verbs are always handed a directory"
        print_events(client, data_dir, run_id, after)
        return
    found: list[Any] = []
    page: dict[str, Any] = {"next": after}
    while page.get("next") is not None:
        page = client.get(f"/api/runs/{run_id}/events", after=page["next"])
        if as_json:
            found += page["events"]
        else:
            for event in page["events"]:
                print_json_line(event)
    if as_json:
        print_json({"events": found})


@app.command()
def stop(run: RunId, timeout: Timeout = 10.0, as_json: AsJson = False, data_dir: DataDir = None) -> int:
    """Stop a run cleanly, and wait until nothing of it is left alive."""
    return _end(run, "stop", timeout, as_json, data_dir)


@app.command()
def cancel(run: RunId, timeout: Timeout = 10.0, as_json: AsJson = False, data_dir: DataDir = None) -> int:
    """End a run for good."""
    return _end(run, "cancel", timeout, as_json, data_dir)


@app.command()
def discard(run: RunId, timeout: Timeout = 10.0, as_json: AsJson = False, data_dir: DataDir = None) -> int:
    """Give up an interrupted run for good, and clean up after it."""
    return _end(run, "discard", timeout, as_json, data_dir)


@app.command()
def pause(run: RunId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Start nothing new; what runs finishes."""
    _control(run, "pause", as_json, data_dir)


@app.command()
def resume(
    run: RunId, follow: Follow = False, no_color: NoColor = False, as_json: AsJson = False, data_dir: DataDir = None
) -> int:
    """Go on after a pause or a stop."""
    return _go_on(run, "resume", follow, no_color, as_json, data_dir)


@app.command()
def retry(
    run: RunId, follow: Follow = False, no_color: NoColor = False, as_json: AsJson = False, data_dir: DataDir = None
) -> int:
    """Try again what failed."""
    return _go_on(run, "retry", follow, no_color, as_json, data_dir)


@app.command()
def skip(run: RunId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Skip the step a task run is at."""
    _control(run, "skip", as_json, data_dir)


@app.command()
def takeover(run: RunId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Take the controls of a task run."""
    _control(run, "takeover", as_json, data_dir)


@app.command()
def release(run: RunId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Give the controls of a task run back."""
    _control(run, "release", as_json, data_dir)


def _next(row: dict[str, Any]) -> str:
    """The command that goes on with what came to no good end."""
    verb = _GO_ON.get(row["lifecycle"])
    return f"pilothouse runs {verb} {short(row['id'])} --follow" if verb else ""


def _waiting(wait: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "waits", wait["question"] or wait["kind"]
    yield "", how_to_answer(wait["id"], wait["options"]) if wait["options"] else ""


def _go_on(run: str, verb: str, follow: bool, no_color: bool, as_json: bool, data_dir: Any) -> int:
    if not follow:
        _control(run, verb, as_json, data_dir)
        return ExitCode.SUCCEEDED
    client = connect(data_dir)
    run_id = find_run(client, run)
    row = client.get(f"/api/runs/{run_id}")
    if row["kind"] == "turn" and as_json:
        raise BadInput("an answer that is followed is no one JSON value", fix="leave --json or --follow out")
    client.post(f"/api/runs/{run_id}/{verb}")
    if row["kind"] == "turn":
        from pilothouse.interfaces.cli.chatting_ends import follow_turn

        return follow_turn(data_dir, run_id, row["seq"], no_color=no_color)
    from pilothouse.interfaces.cli.following import only_follow

    before = row["seq"]
    return only_follow(client, data_dir, run_id, seen=before, ended=before + 1, as_json=as_json, no_color=no_color)


def _control(run: str, verb: str, as_json: bool, data_dir: Any) -> None:
    client = connect(data_dir)
    row = client.post(f"/api/runs/{find_run(client, run)}/{verb}")
    if as_json:
        print_json(row)
    else:
        print(f"{one_line(row['name'])}: {row['lifecycle'].lower()}")


def _end(run: str, verb: str, timeout: float, as_json: bool, data_dir: Any) -> int:
    client = connect(data_dir)
    run_id = find_run(client, run)
    client.post(f"/api/runs/{run_id}/{verb}")
    return int(report_end(await_end(client, run_id, timeout), as_json=as_json) or ExitCode.SUCCEEDED)
