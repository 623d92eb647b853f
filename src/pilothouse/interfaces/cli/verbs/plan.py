"""``pilothouse plan …``: plans and their nodes."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from pilothouse.errors import BadInput
from pilothouse.interfaces.cli.client import Client, segment
from pilothouse.interfaces.cli.door import ExitCode, note
from pilothouse.interfaces.cli.finding import find_plan
from pilothouse.interfaces.cli.listing import ListsByDefault
from pilothouse.interfaces.cli.options import AsJson, DataDir, NoColor, NodeName, PlanId, Timeout
from pilothouse.interfaces.cli.owners import connect
from pilothouse.interfaces.cli.printing import colours, end_output, print_json, print_output, print_table
from pilothouse.interfaces.cli.stopping import await_end, report_end
from pilothouse.interfaces.cli.summary import print_summary
from pilothouse.interfaces.cli.usage import usage_table
from pilothouse.interfaces.cli.words import ago, counted, duration, one_line, short, title

app = typer.Typer(
    help="List, show and control plans and their nodes.",
    rich_markup_mode=None,
    add_completion=False,
    cls=ListsByDefault,
)

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow it to its end; Ctrl-C leaves it running.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start over in a clean worktree.")]


@app.command("list")
def list_plans(
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="Only plans in this state, such as `running`.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")] = 50,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Plans, newest first."""
    found = connect(data_dir).get("/api/plans", status=status, limit=limit)
    if as_json:
        print_json(found)
        return
    now = int(time.time() * 1000)
    rows = (
        (short(plan["id"]), plan["status"], f"{plan['progress']}%", ago(plan["createdAt"], now), plan["name"])
        for plan in found["plans"]
    )
    print_table(("ID", "STATUS", "DONE", "CREATED", "NAME"), rows, empty="no plans yet; `pilothouse run` starts one")


@app.command()
def show(
    plan: PlanId,
    follow: Follow = False,
    no_color: NoColor = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> int:
    """A plan with its nodes, now or until its end."""
    client = connect(data_dir)
    plan_id = find_plan(client, plan)
    if follow:
        now = _seq(client, plan_id)
        return _follow(client, data_dir, plan_id, seen=now, ended=now, as_json=as_json, no_color=no_color)
    view = client.get(f"/api/plans/{plan_id}")
    if as_json:
        print_json(view)
        return ExitCode.SUCCEEDED
    print_summary(view, color=colours(no_color))
    print()
    _print_nodes(view["nodes"])
    head, rows = usage_table(view)
    if rows:
        print()
        print_table(head, rows, empty="")
    return ExitCode.SUCCEEDED


def _print_nodes(nodes: list[dict[str, Any]]) -> None:
    head = ("NODE", "STATUS", "TRIES", "TOOK", "GROUP", "NAME")
    rows = [
        (
            node["producerId"],
            _status(node),
            str(node["attempts"]),
            _took(node),
            node.get("group") or "",
            title(node["producerId"], node["name"]),
        )
        for node in nodes
    ]
    columns = len(head) if any(row[-1] for row in rows) else len(head) - 1
    print_table(head[:columns], [row[:columns] for row in rows], empty="no nodes")


def _status(node: dict[str, Any]) -> str:
    return "waiting" if node["waits"] else str(node["status"])


def _took(node: dict[str, Any]) -> str:
    """How long the last attempt took: between attempts a node may have waited for days."""
    begun = min((phase["startedAt"] for phase in node["phases"].values() if phase["startedAt"]), default=None)
    ended = int(time.time() * 1000) if node["status"] == "running" else node["endedAt"]
    return duration(ended - begun) if ended and begun else ""


def _seq(client: Client, plan_id: str) -> int:
    return int(client.get(f"/api/runs/{plan_id}")["seq"])


def _follow(
    client: Client, data_dir: Any, plan_id: str, *, seen: int, ended: int, as_json: bool, no_color: bool
) -> int:
    from pilothouse.interfaces.cli.following import only_follow

    return only_follow(client, data_dir, plan_id, seen=seen, ended=ended, as_json=as_json, no_color=no_color)


@app.command()
def logs(
    plan: PlanId,
    node: Annotated[str | None, typer.Argument(metavar="NODE", help="Only this node; else all, one by one.")] = None,
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="PHASE", help="Only prechecks, work or postchecks.")
    ] = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", min=1, help="This attempt; else the last one.")
    ] = None,
    tail: Annotated[int | None, typer.Option("--tail", metavar="N", min=1, help="Only the last lines.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Agents as their programs printed it.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is printed, to the end.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """What the commands of a plan printed, and what its agents told."""
    client = connect(data_dir)
    plan_id = find_plan(client, plan)
    if follow:
        if as_json:
            raise BadInput("output that is followed is no one JSON value", fix="leave --json or --follow out")
        from pilothouse.interfaces.cli.tailing import follow_logs

        assert data_dir is not None, "verbs are always handed a directory"
        follow_logs(client, data_dir, plan_id, node, phase=phase, tail=tail, raw=raw)
        return
    names = (
        [node] if node is not None else [each["producerId"] for each in client.get(f"/api/plans/{plan_id}")["nodes"]]
    )
    found = [
        client.get(f"/api/plans/{plan_id}/nodes/{segment(name)}/logs", phase=phase, attempt=attempt, tail=tail, raw=raw)
        for name in names
    ]
    if as_json:
        print_json(found[0] if node is not None else {"planId": plan_id, "logs": found})
        return
    for name, part in zip(names, found, strict=True):
        if node is None and part["text"]:
            print(f"==> {one_line(name)} <==")
        _print_text(part["text"])
    if not any(part["text"] for part in found):
        # What failed without a word, such as the setup of a worktree, is looked for here too.
        error = client.get(f"/api/plans/{plan_id}/nodes/{segment(node)}").get("error") if node is not None else None
        note(f"nothing was printed; {node}: {one_line(error)}" if error else "nothing was printed")


@app.command()
def diff(plan: PlanId, node: NodeName, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """What a node changed."""
    client = connect(data_dir)
    found = client.get(f"/api/plans/{find_plan(client, plan)}/nodes/{segment(node)}/diff")
    if as_json:
        print_json(found)
    elif found["diff"]:
        _print_text(found["diff"])
    else:
        note("it changed nothing")


@app.command()
def graph(plan: PlanId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """A plan as a Mermaid graph."""
    client = connect(data_dir)
    found = client.get(f"/api/plans/{find_plan(client, plan)}/graph")
    if as_json:
        print_json(found)
    else:
        _print_text(found["mermaid"])


@app.command()
def pause(plan: PlanId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Start no further nodes; those that run finish."""
    client = connect(data_dir)
    _told(client.post(f"/api/runs/{find_plan(client, plan)}/pause"), as_json=as_json)


@app.command()
def resume(
    plan: PlanId, follow: Follow = False, no_color: NoColor = False, as_json: AsJson = False, data_dir: DataDir = None
) -> int:
    """Go on after a pause or a stop, or start what was to wait."""
    client = connect(data_dir)
    plan_id = find_plan(client, plan)
    before = _seq(client, plan_id)
    row = client.post(f"/api/runs/{plan_id}/resume")
    if follow:
        return _follow(client, data_dir, plan_id, seen=before, ended=before + 1, as_json=as_json, no_color=no_color)
    _told(row, as_json=as_json)
    return ExitCode.SUCCEEDED


@app.command()
def stop(plan: PlanId, timeout: Timeout = 10.0, as_json: AsJson = False, data_dir: DataDir = None) -> int:
    """Stop a plan cleanly; `resume` goes on later. Waits until nothing of it is left alive."""
    client = connect(data_dir)
    plan_id = find_plan(client, plan)
    client.post(f"/api/runs/{plan_id}/stop")
    return report_end(await_end(client, plan_id, timeout), as_json=as_json)


@app.command()
def cancel(
    plan: PlanId,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="Only this node.")] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Only this group, by its path.")] = None,
    timeout: Timeout = 10.0,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> int:
    """End a plan for good, or a node or group of it; what depends on that is blocked."""
    if node is not None and group is not None:
        raise BadInput("--node and --group exclude each other", fix="give one of them")
    client = connect(data_dir)
    plan_id = find_plan(client, plan)
    if node is not None:
        found = client.post(f"/api/plans/{plan_id}/nodes/{segment(node)}/cancel")
    elif group is not None:
        found = client.post(f"/api/plans/{plan_id}/groups/cancel", {"group": group})
    else:
        client.post(f"/api/runs/{plan_id}/cancel")
        return report_end(await_end(client, plan_id, timeout), as_json=as_json)
    _said(found, f"canceled: {node or group}", as_json=as_json)
    return ExitCode.SUCCEEDED


@app.command()
def retry(
    plan: PlanId,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="NODE", help="Only this node; may be given again.")
    ] = None,
    fresh: Fresh = False,
    follow: Follow = False,
    no_color: NoColor = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> int:
    """Try again what failed, or the nodes named, also canceled ones; what they blocked waits again."""
    client = connect(data_dir)
    plan_id = find_plan(client, plan)
    before = _seq(client, plan_id)
    found = client.post(f"/api/plans/{plan_id}/retry", {"nodes": node or [], "fresh": fresh})
    if follow:
        return _follow(client, data_dir, plan_id, seen=before, ended=before + 1, as_json=as_json, no_color=no_color)
    _said(found, f"tries again: {', '.join(node) if node else 'what failed'}", as_json=as_json)
    return ExitCode.SUCCEEDED


@app.command()
def delete(plan: PlanId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """Delete a plan that has ended: its log, output and worktrees. Branches and saved edits stay."""
    client = connect(data_dir)
    plan_id = find_plan(client, plan)
    client.delete(f"/api/plans/{plan_id}")
    _said({"planId": plan_id, "deleted": True}, f"deleted: {plan_id}", as_json=as_json)


@app.command()
def export(plan: PlanId, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """The plan file of a plan, to run it again."""
    from pilothouse.interfaces.cli.exporting import plan_file, to_yaml

    client = connect(data_dir)
    found = plan_file(client, find_plan(client, plan))
    if as_json:
        print_json(found)
    else:
        print(to_yaml(found), end="")


def _print_text(text: str) -> None:
    if text:
        print_output(text)
        end_output()
        print(end="" if text.endswith("\n") else "\n")


def _told(row: dict[str, Any], *, as_json: bool) -> None:
    _said(row, f"{one_line(row['name'])}: {row['lifecycle'].lower()} ({counted(row['counts'])})", as_json=as_json)


def _said(found: Any, text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print(text)
