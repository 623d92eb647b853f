"""The page of the client says what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import pilothouse
from pilothouse import client as room
from pilothouse.client import groups

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text("utf-8")


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_every_example_is_python_and_imports_what_exists(example: str) -> None:
    imports: list[ast.stmt] = [node for node in ast.parse(example).body if isinstance(node, ast.ImportFrom)]
    assert imports
    exec(compile(ast.Module(imports, []), "example", "exec"), {})


@pytest.mark.parametrize("name", ["chats", "plans", "workflows", "runs", "approvals"])
def test_every_call_is_on_the_page(name: str) -> None:
    row = re.search(rf"^\| `client\.{name}` \| `([^`]*)` \|$", PAGE, re.MULTILINE)
    assert row is not None
    there = {key for key, value in vars(getattr(groups, name.capitalize())).items() if callable(value)}
    assert set(row[1].split()) == there


def test_what_is_public_is_there_and_nothing_else_is() -> None:
    assert all(getattr(room, name) is not None for name in room.__all__)
    assert pilothouse.Client is room.Client
    with pytest.raises(AttributeError):
        _ = pilothouse.Clients  # type: ignore[attr-defined]  # that there is none is what is tested
    stub = (Path(room.__file__).with_suffix(".pyi")).read_text("utf-8")
    assert set(re.findall(r"import (\w+) as", stub)) == set(room.__all__)
