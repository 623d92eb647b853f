"""The table of what agents used."""

from __future__ import annotations

from typing import Any

from pilothouse.core.run.usage import Tally, Usage, usage_view
from pilothouse.interfaces.cli.usage import cost, usage_table


def node(name: str, **models: Usage) -> dict[str, Any]:
    tally = Tally()
    for model, usage in models.items():
        tally.add(model, usage)
    return {"producerId": name, "usage": usage_view(tally)}


def view(*nodes: dict[str, Any], total: Usage | None = None) -> dict[str, Any]:
    tally = Tally()
    if total is not None:
        tally.add("m", total)
    return {"nodes": list(nodes), "usage": usage_view(tally)}


def test_a_plan_without_agents_has_no_table() -> None:
    assert usage_table(view({"producerId": "a", "usage": {}}))[1] == []


def test_each_node_has_a_row_and_all_together_one() -> None:
    used = Usage(input_tokens=1200, cached_tokens=200, output_tokens=34, turns=2)
    head, rows = usage_table(view(node("api", gpt=used), {"producerId": "sh", "usage": {}}, total=used))
    assert head == ("USAGE", "MODEL", "INPUT", "CACHED", "OUTPUT", "REASONING", "TURNS")
    assert rows == [
        ("api", "gpt", "1,200", "200", "34", "0", "2"),
        ("all", "", "1,200", "200", "34", "0", "2"),
    ]


def test_a_node_that_used_several_models_has_a_row_for_each() -> None:
    one, two = Usage(input_tokens=1), Usage(input_tokens=2)
    rows = usage_table(view(node("api", big=one, small=two), total=one + two))[1]
    assert [row[:3] for row in rows] == [
        ("api", "2 models", "3"),
        ("", "big", "1"),
        ("", "small", "2"),
        ("all", "", "3"),
    ]


def test_a_cost_that_is_not_known_in_full_says_so_and_one_that_is_unknown_says_nothing() -> None:
    assert cost({"cost": 0.5, "unpricedTokens": 0}) == "$0.5000"
    assert cost({"cost": 0.5, "unpricedTokens": 3}) == "$0.5000+"
    assert cost({"cost": 0, "unpricedTokens": 3}) == ""
