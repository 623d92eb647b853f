"""A plan as a model needs it: how it stands and what is wrong, without the figures that people look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_NODES = 200
_LONGEST = 1_000


def plan_shown(view: Mapping[str, Any]) -> dict[str, Any]:
    """Of a view of a plan (``core/plan/view``). Nodes that need attention come first when there are too many."""
    nodes = sorted(view["nodes"], key=_quiet) if len(view["nodes"]) > MOST_NODES else view["nodes"]
    shown = {
        **brief_shown(view),
        "targetBranch": view["targetBranch"],
        "nodes": [_node(node) for node in nodes[:MOST_NODES]],
        "more": f"{len(nodes) - MOST_NODES} more nodes" if len(nodes) > MOST_NODES else "",
        "waits": [_wait(wait) for wait in view["waits"]],
        "note": view["note"],
    }
    return {name: value for name, value in shown.items() if value not in ("", None, [])}


def brief_shown(brief: Mapping[str, Any]) -> dict[str, Any]:
    """A plan in a list."""
    shown = {
        "planId": brief["planId"],
        "name": brief["name"],
        "status": brief["status"],
        "counts": {status: count for status, count in brief["counts"].items() if count},
        "error": _cut(brief["error"]),
    }
    return {name: value for name, value in shown.items() if value not in ("", None)}


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    shown = {
        "node": node["producerId"],
        "status": str(node["status"]),
        "dependencies": node["dependencies"],
        "attempts": node["attempts"],
        "error": _cut(node["error"]),
        "completedCommit": node["completedCommit"],
        "waits": [_wait(wait) for wait in node["waits"]],
    }
    return {name: value for name, value in shown.items() if value not in ("", None, [])}


def _wait(wait: Mapping[str, Any]) -> dict[str, Any]:
    """That a person is asked; the answer is theirs to give."""
    return {"kind": str(wait["kind"]), "waitsFor": "a person"}


def _quiet(node: Mapping[str, Any]) -> bool:
    return not (node["error"] or node["waits"])


def _cut(text: str | None) -> str:
    return "" if not text else text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
