"""The tool ``search_patterns``: workflows that have proved themselves, to begin with."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta

from pilothouse.adapters.toolbox.index import Index, Section
from pilothouse.core.tools.parameters import Parameters, read, schema_of
from pilothouse.core.tools.spec import ToolAnswer, ToolContext, ToolSpec, Touches

FOLDER = Path(__file__).with_name("patterns")


class Pattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file. ``workflow`` is what ``create_workflow`` takes; what is to be put in stands there in CAPITALS."""

    id: str
    title: str
    when: str
    tags: tuple[str, ...]
    workflow: dict[str, Any]
    adapt: str = ""


class SearchPatterns(Parameters, frozen=True, kw_only=True):
    query: Annotated[str, Meta(description="What the workflow is for; empty lists all patterns.", max_length=500)] = ""
    limit: Annotated[int, Meta(description="Most patterns that are answered in full.", ge=1, le=5)] = 2


class SearchPatternsTool:
    spec = ToolSpec(
        name="search_patterns",
        description=(
            "Search proven workflow patterns. Answers whole workflows, to be adapted and handed to create_workflow. "
            'Example: {"query": "review by several agents"}'
        ),
        parameters=schema_of(SearchPatterns),
        touches=Touches.NOTHING,
    )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolAnswer:
        given = read(SearchPatterns, arguments)
        return await asyncio.to_thread(_search, given)


def _search(given: SearchPatterns) -> ToolAnswer:
    patterns, index = _indexed()
    keys = [found.key for found in index.find(given.query, given.limit)]
    others = [pattern for key, pattern in patterns.items() if key not in keys]
    result = {
        "patterns": [msgspec.to_builtins(patterns[key]) for key in keys],
        "others": [{"id": one.id, "title": one.title, "when": one.when} for one in others],
    }
    return ToolAnswer(ok=True, result=result)


@functools.cache
def read_patterns() -> dict[str, Pattern]:
    """By id. Blocking, the first time."""
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        pattern = msgspec.convert({"id": path.stem, **data}, Pattern)
        found[pattern.id] = pattern
    return found


@functools.cache
def _indexed() -> tuple[dict[str, Pattern], Index]:
    patterns = read_patterns()
    sections = (
        Section(one.id, f"{one.title} {' '.join(one.tags)}", f"{one.when} {_tasks(one)}") for one in patterns.values()
    )
    return patterns, Index(sections)


def _tasks(pattern: Pattern) -> str:
    return " ".join(block.get("task", "") for block in pattern.workflow["blocks"])
