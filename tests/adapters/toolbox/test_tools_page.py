"""The page of tools names every one, and says what each touches; descriptions are short and have an example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pilothouse.adapters.toolbox.opening import ToolboxConfig, open_toolbox
from pilothouse.core.tools.policy import DEFAULTS, Mode
from pilothouse.core.tools.spec import ToolSpec, Touches
from pilothouse.engine.own_tools.plans import (
    GetPlanLogsTool,
    GetPlanStatusTool,
    ListPlansTool,
    RetryPlanTool,
    StopPlanTool,
)
from pilothouse.engine.own_tools.shell import LookShellTool, ShellTool
from pilothouse.engine.own_tools.workflow_runs import GetWorkflowRunTool, RunWorkflowTool
from pilothouse.engine.own_tools.workflows import (
    CreateWorkflowTool,
    EditWorkflowTool,
    GetWorkflowTool,
    ListWorkflowsTool,
    RevertWorkflowTool,
)

PAGE = (Path(__file__).parents[3] / "docs" / "tools.md").read_text(encoding="utf-8")
ENGINE = (
    *(ListWorkflowsTool, GetWorkflowTool, CreateWorkflowTool, EditWorkflowTool, RevertWorkflowTool),
    *(RunWorkflowTool, GetWorkflowRunTool, ShellTool, LookShellTool),
    *(ListPlansTool, GetPlanStatusTool, GetPlanLogsTool, StopPlanTool, RetryPlanTool),
)
SPECS: list[ToolSpec] = [*(tool.spec for tool in open_toolbox(ToolboxConfig())), *(tool.spec for tool in ENGINE)]
ROWS = [row.split("|") for row in PAGE.splitlines() if row.startswith("| `")]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_tool_is_on_the_page_with_what_it_touches(spec: ToolSpec) -> None:
    (row,) = [row for row in ROWS if f"`{spec.name}`" in row[1]]
    assert row[3].strip().startswith(spec.touches)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_description_is_short_and_its_parameters_are_described(spec: ToolSpec) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", spec.name)
    assert 20 < len(spec.description) < 500
    properties = spec.parameters["properties"]
    assert "Example" in spec.description or not spec.parameters.get("required")
    assert set(spec.secrets) <= set(properties)


def test_the_table_of_modes_is_that_of_the_policy() -> None:
    columns = [
        Touches(name.strip()) for name in next(r for r in PAGE.splitlines() if r.startswith("| mode")).split("|")[2:-1]
    ]
    seen = set()
    for row in ROWS:
        modes = [Mode(name) for name in re.findall(r"`(\w+)`", row[1]) if name in set(Mode)]
        for mode in modes:
            cells = [DEFAULTS[mode].get(touches, "–") for touches in columns]
            assert [cell.strip() for cell in row[2:-1]] == cells
            seen.add(mode)
    assert seen == set(Mode)
