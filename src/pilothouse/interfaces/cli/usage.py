"""What the agents of a plan used, as a table. ``usage`` values are those of the plan's JSON; absent ones are empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pilothouse.interfaces.cli.words import duration

# fmt: off
HEAD = (
    "USAGE", "MODEL", "INPUT", "CACHED", "OUTPUT", "REASONING", "REQUESTS", "TURNS", "TOOLS", "API", "TIME", "LINES",
    "COST",
)
# fmt: on
_ALWAYS = 6


def usage_table(view: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows: a row per node, below it one per model where it used several, and the sum. No rows when no agent
    used anything. Columns in which there is nothing are left out, the first six excepted."""
    rows = [row for node in view["nodes"] if node["usage"] for row in _node_rows(node)]
    if not rows:
        return HEAD, []
    rows.append(_row("all", "", view["usage"]))
    shown = [column for column in range(len(HEAD)) if column < _ALWAYS or any(row[column] for row in rows)]
    return tuple(HEAD[c] for c in shown), [tuple(row[c] for c in shown) for row in rows]


def _node_rows(node: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    usage = node["usage"]
    models = usage["models"]
    only = models[0]["model"] if len(models) == 1 else f"{len(models)} models" if models else ""
    yield _row(node["producerId"], only, usage)
    if len(models) > 1:
        for model in models:
            yield _row("", model["model"], model)


def _row(name: str, model: str, usage: Mapping[str, Any]) -> tuple[str, ...]:
    added, removed = usage["linesAdded"], usage["linesRemoved"]
    return (
        name,
        model,
        _count(usage["inputTokens"]) or "0",
        _count(usage["cachedTokens"]) or "0",
        _count(usage["outputTokens"]) or "0",
        _count(usage["reasoningTokens"]) or "0",
        f"{usage['premiumRequests']:g}" if usage["premiumRequests"] else "",
        _count(usage["turns"]),
        _count(usage["toolCalls"]),
        duration(usage["apiMs"]) if usage["apiMs"] else "",
        duration(usage["wallMs"]) if usage["wallMs"] else "",
        f"+{added} -{removed}" if added or removed else "",
        cost(usage),
    )


def cost(usage: Mapping[str, Any]) -> str:
    """In US dollars; with a + when some of it was used with models of unknown price; empty when nothing is known."""
    known, unpriced = usage.get("cost", 0), usage.get("unpricedTokens", 0)
    return f"${known:.4f}{'+' if unpriced else ''}" if known else ""


def _count(value: int) -> str:
    return f"{value:,}" if value else ""
