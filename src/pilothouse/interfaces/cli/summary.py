"""What came of a plan, for people: the end of ``run`` and the beginning of ``plan show``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pilothouse.interfaces.cli.printing import print_fields, state
from pilothouse.interfaces.cli.words import counted, duration, how_to_answer, one_line, short

_MOST = 10
_USERS_PHASES = ("prechecks", "work", "postchecks")
"""Those in which what the plan says is done. Notes of the others are for whoever looks closer."""
_ENDED = frozenset({"succeeded", "partial", "failed", "stopped", "canceled"})


def print_summary(view: dict[str, Any], *, color: bool, tree_above: bool = False) -> None:
    """``view`` is the JSON of a plan. ``tree_above``: what the tree says is on the screen already."""
    if not tree_above:
        print(summary_head(view, color=color))
    print_fields((name, text) for name, text in summary_fields(view) if not (tree_above and name == "nodes"))


def summary_head(view: dict[str, Any], *, color: bool) -> str:
    """The plan in one line."""
    total = len(view["nodes"])
    took = ""
    if view.get("startedAt") is not None and view.get("endedAt") is not None:
        took = f" in {duration(view['endedAt'] - view['startedAt'])}"
    done = view["counts"].get("succeeded", 0)
    return f"{state(view['status'], color=color)}  {one_line(view['name'])}  {done} of {total} nodes succeeded{took}"


def summary_fields(view: dict[str, Any]) -> Iterable[tuple[str, str]]:
    plan = short(view["planId"])
    yield "plan", plan
    yield "result", _result(view)
    yield "note", one_line(view.get("note") or "")
    if view.get("halted"):
        yield "halted", f"{one_line(view['halted'])}; it is tried again by itself"
    if any(count for status, count in view["counts"].items() if status != "succeeded"):
        yield "nodes", counted(view["counts"])
    failed = [node for node in view["nodes"] if node["status"] == "failed"]
    if not failed and view["status"] == "failed":  # else it would say again what its nodes say
        yield "error", one_line(view.get("error") or "no reason given")
    for node in failed[:_MOST]:
        yield "failed", f"{node['producerId']}: {one_line(node.get('error') or 'no reason given')}"
        yield "", f"pilothouse plan logs {plan} {_quoted(node['producerId'])}"
        yield "worktree", node.get("worktreePath") or ""
    if len(failed) > _MOST:
        yield "", f"and {len(failed) - _MOST} more"
    for node in view["nodes"]:
        for phase in filter(None, map(node["phases"].get, _USERS_PHASES)):
            if phase["status"] == "succeeded" and phase["note"]:
                yield "note", f"{node['producerId']}: {one_line(phase['note'])}"
        if node.get("rescueRef") and node["status"] != "succeeded":
            yield "saved", f"{node['producerId']}: its edits are under {node['rescueRef']}"
    for wait in view.get("waits", []):
        yield "waits", f"{one_line(wait.get('question') or wait['kind'])}"
        yield "", how_to_answer(wait["id"], wait["options"]) if wait.get("options") else ""
    yield "next", _next(view["status"], plan)


def _result(view: dict[str, Any]) -> str:
    if not view.get("targetBranch"):
        return ""
    commit = f" at {view['targetCommit'][:12]}" if view.get("targetCommit") else ""
    merged = sum(bool(node.get("mergedToTarget")) for node in view["nodes"])
    nothing = " (nothing merged into it)" if view["status"] in _ENDED and not merged else ""
    return f"branch {view['targetBranch']}{commit} in {view.get('repoPath') or '?'}{nothing}"


def _next(status: str, plan: str) -> str:
    if status in ("created", "paused", "stopped"):
        return f"pilothouse plan resume {plan}"
    if status in ("failed", "partial"):
        return f"pilothouse plan retry {plan}"
    return ""


def _quoted(name: str) -> str:
    return f"'{name}'" if " " in name else name
