"""The reference of plan files names every field, and its examples are plans."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from pilothouse.core.plan.spec_file import (
    AgentFile,
    BudgetFile,
    Fields,
    GroupFile,
    JobFile,
    PlanFile,
    ProcessFile,
    SandboxFile,
    ShellFile,
)
from pilothouse.core.plan.spec_parse import parse_plan

PAGE = (Path(__file__).parents[3] / "docs/plan-files.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
# A second name of verifyRi that one of the sources uses.
UNMENTIONED = {"verifyRiSpec"}


@pytest.mark.parametrize(
    "model", [PlanFile, JobFile, GroupFile, ProcessFile, ShellFile, AgentFile, BudgetFile, SandboxFile]
)
def test_every_field_is_in_the_reference(model: type[Fields]) -> None:
    names = {to_camel(name) for name in model.model_fields} | model.unbuilt - UNMENTIONED
    assert {name for name in names if f"`{name}`" not in PAGE} - {"type"} == set()


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_plan(example: str) -> None:
    assert parse_plan(example).jobs


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 4
