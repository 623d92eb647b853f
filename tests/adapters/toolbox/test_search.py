"""Documentation and patterns are found by words, and every pattern is a workflow that runs as a plan."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from pilothouse.adapters.toolbox.search_documentation import SearchDocumentationTool
from pilothouse.adapters.toolbox.search_patterns import SearchPatternsTool, read_patterns
from pilothouse.core.tools.spec import ToolContext
from pilothouse.core.workflow.reading import read_workflow
from pilothouse.core.workflow.to_plan import compile_workflow
from pilothouse.errors import BadInput

CONTEXT = ToolContext(owner="local")


def found(tool: SearchDocumentationTool | SearchPatternsTool, **arguments: Any) -> Any:
    answer = asyncio.run(tool.run(arguments, CONTEXT))
    assert answer.ok
    return answer.result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "handbook"
    (place / "deep").mkdir(parents=True)
    (place / "deep" / "deploy.md").write_text(
        "Intro.\n\n# Deploying\n\nTo the zeppelin cluster.\n\n## Rolling back\n\n```sh\n# no heading\nrollback\n```\n"
    )
    (place / "binary.bin").write_bytes(b"zeppelin")
    (place / ".hidden").mkdir()
    (place / ".hidden" / "a.md").write_text("zeppelin")
    return place


def test_our_own_documentation_is_searched() -> None:
    sections = found(SearchDocumentationTool(), query="retry onInterrupted rerun", limit=3)["sections"]
    assert 0 < len(sections) <= 3
    assert all(section["path"].startswith("pilothouse/") for section in sections)


def test_the_users_folders_are_searched_by_sections(folder: Path) -> None:
    tool = SearchDocumentationTool([str(folder)])
    (section,) = found(tool, query="zeppelins")["sections"]
    assert (section["path"], section["title"], section["line"]) == ("handbook/deep/deploy.md", "Deploying", 3)
    assert section["text"] == "To the zeppelin cluster."
    (section,) = found(tool, query="rollback", limit=1)["sections"]
    assert section["title"] == "Deploying › Rolling back"
    assert "# no heading" in section["text"]


def test_what_changes_is_found_and_what_is_gone_is_not(folder: Path) -> None:
    tool = SearchDocumentationTool([str(folder)])
    assert len(found(tool, query="zeppelin")["sections"]) == 1
    (folder / "new.txt").write_text("another zeppelin")
    assert len(found(tool, query="zeppelin")["sections"]) == 2
    (folder / "deep" / "deploy.md").unlink()
    assert [section["path"] for section in found(tool, query="zeppelin")["sections"]] == ["handbook/new.txt"]


def test_a_link_out_of_a_folder_is_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("unfindable")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    assert found(SearchDocumentationTool([str(folder)]), query="unfindable")["sections"] == []


@pytest.mark.parametrize("query", ['"', "a AND (", "NEAR/3 *", "title:x", "---", "'; DROP TABLE sections", "é", "%"])
def test_no_query_is_an_error(folder: Path, query: str) -> None:
    assert isinstance(found(SearchDocumentationTool([str(folder)]), query=query)["sections"], list)


def test_a_folder_that_is_none_names_its_setting() -> None:
    with pytest.raises(BadInput) as refused:
        SearchDocumentationTool(["/no/such/folder"])
    assert refused.value.field == "PILOTHOUSE_DOCS"


@pytest.mark.parametrize("id", read_patterns())
def test_every_pattern_is_a_workflow_that_compiles_to_a_plan(id: str) -> None:
    pattern = read_patterns()[id]
    plan = compile_workflow(read_workflow(pattern.workflow))
    assert len(plan.jobs) == len(pattern.workflow["blocks"])
    assert pattern.title
    assert pattern.when
    assert pattern.tags
    text = str(pattern.workflow)
    if re.search(r"\b[A-Z]{2,}_?[A-Z]*\b", text):
        assert pattern.adapt


@pytest.mark.parametrize(
    ("query", "id"),
    [
        ("review by several agents", "several-reviewers"),
        ("the tests fail, fix them", "test-and-fix"),
        ("reproduce a reported bug", "bug-from-report"),
        ("upgrade a library", "upgrade-dependency"),
        ("parallel independent parts", "fan-out-and-merge"),
        ("lint test build", "lint-test-build"),
    ],
)
def test_a_pattern_is_found_by_what_it_is_for(query: str, id: str) -> None:
    result = found(SearchPatternsTool(), query=query, limit=1)
    assert [pattern["id"] for pattern in result["patterns"]] == [id]
    assert len(result["others"]) == len(read_patterns()) - 1


def test_without_a_query_all_patterns_are_named() -> None:
    result = found(SearchPatternsTool())
    assert result["patterns"] == []
    assert {pattern["id"] for pattern in result["others"]} == set(read_patterns())
