"""The page about workflows names every operation and field, and its examples work as they are typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.interfaces.http.test_docs import typed

from pilothouse.core.workflow.changes import Changes
from pilothouse.core.workflow.operations import OPERATIONS
from pilothouse.core.workflow.reading import BLOCK_FIELDS, read_workflow
from pilothouse.core.workflow.to_plan import check_workflow

PAGE = (Path(__file__).parents[3] / "docs/workflows.md").read_text(encoding="utf-8")


def test_the_page_names_every_operation_with_its_fields() -> None:
    rows = {
        op: row.split("|")[2]
        for row in re.findall(r"^\| `.*", PAGE, re.MULTILINE)
        for op in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    for op, kind in OPERATIONS.items():
        assert {name.rstrip("?") for name in re.findall(r"`(\w+\??)`", rows[op])} == set(kind.__struct_fields__)


def test_the_page_names_every_field_and_every_change() -> None:
    assert {name for name in {*BLOCK_FIELDS, *Changes.__struct_encode_fields__} if f"`{name}`" not in PAGE} == set()


def test_its_document_is_a_workflow() -> None:
    (document,) = [text for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) if '"blocks"' in text]
    check_workflow(read_workflow(json.loads(document)))


def test_every_example_works_as_it_is_typed(tmp_path: Path) -> None:
    said = typed(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL), tmp_path)
    assert "the blocks form a cycle: hello → both → hello" in said
    assert "was refused" in said
    assert "RUN_FINISHED" in said
