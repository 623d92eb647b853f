"""Ways to make a workflow, or what may be done to one, in a test."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

from pilothouse.core.workflow.document import Workflow
from pilothouse.core.workflow.reading import read_workflow

IDS = ["a", "b", "c", "d", "g/a", "g/h/a", "g/b"]
"""Few, so that operations meet; some stand in groups, where names hide each other."""


def block(id: str, command: str = "true", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "shell", "task": f"do {id}", "config": {"command": command}, **more}


def workflow(*blocks: dict[str, Any], edges: str = "", **more: Any) -> Workflow:
    """``edges`` are written ``a>b b>c``."""
    pairs = [edge.split(">") for edge in edges.split()]
    return read_workflow(
        {
            "name": "test",
            "blocks": list(blocks),
            "edges": [{"source": source, "target": target} for source, target in pairs],
            **more,
        }
    )


def chain(*ids: str) -> Workflow:
    return workflow(*map(block, ids), edges=" ".join(f"{one}>{two}" for one, two in itertools.pairwise(ids)))


ids = st.sampled_from(IDS)
configs = st.dictionaries(
    st.sampled_from(["command", "timeout", "on_interrupted", "instructions", "nonsense"]),
    st.sampled_from(["true", "rerun", 5, -1, None]),
    max_size=2,
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["shell", "agent", "join", "process", "tool", None]),
        "name": st.sampled_from(["A name", " ", None]),
        "task": st.sampled_from(["Do it", "", None]),
        "config": configs,
        "group": st.sampled_from(["g", "x/y", None]),
        "postchecks": st.sampled_from(["make test", "@agent look", None]),
        "position": st.sampled_from([{"x": 1, "y": 2.5}, {"x": "1"}, None]),
        "base_branch": st.sampled_from(["main", None]),
    },
)
options = st.fixed_dictionaries(
    {},
    optional={
        "maxParallel": st.sampled_from([2, -1, None]),
        "target_branch": st.sampled_from(["feature/x", "..", None]),
        "env": st.sampled_from([{"A": "b"}, {"1": "x"}, None]),
    },
)
operations = st.one_of(
    st.builds(lambda id, more: {"op": "add_block", "block": block(id) | more}, ids, fields),
    st.builds(lambda id: {"op": "add_block", "block": block(id)}, ids),
    st.builds(lambda id, after: {"op": "add_block", "block": block(id), "after": [after]}, ids, ids),
    st.builds(lambda id, more: {"op": "update_block", "id": id, "set": more}, ids, fields),
    st.builds(lambda id: {"op": "remove_block", "id": id}, ids),
    st.builds(lambda id, to: {"op": "rename_block", "id": id, "to": to}, ids, ids),
    st.builds(lambda one, two: {"op": "connect", "source": one, "target": two}, ids, ids),
    st.builds(lambda one, two: {"op": "disconnect", "source": one, "target": two}, ids, ids),
    st.builds(lambda more: {"op": "set_options", "set": more}, options),
    st.builds(lambda to: {"op": "rename", "to": to}, st.sampled_from(["other", ""])),
)
