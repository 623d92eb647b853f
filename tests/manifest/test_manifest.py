"""Every clause of the four design documents is listed, and each one called built is shown by a test that exists.

``clauses/<document>.toml`` holds one table per clause: ``[document.part.clause]`` with ``text`` (one sentence),
``status`` (``built`` or ``later``) and, when built, ``tests`` (``path::function``, or ``path::Class::function``).
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CLAUSES = Path(__file__).parent / "clauses"
DOCUMENTS = frozenset({"plan-engine", "runtime", "chat-server", "agent-commands"})


@dataclass(frozen=True)
class Clause:
    id: str
    text: str
    status: str
    tests: list[str] = field(default_factory=list)


def clauses_in(table: dict[str, Any], prefix: str = "") -> Iterator[Clause]:
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else key
        assert isinstance(value, dict), f"{name} is not a table"
        if "text" in value:
            yield Clause(name, **value)
        else:
            yield from clauses_in(value, name)


def read_clauses() -> list[Clause]:
    return [
        clause
        for path in sorted(CLAUSES.glob("*.toml"))
        for clause in clauses_in(tomllib.loads(path.read_text(encoding="utf-8")))
    ]


@cache
def find_tests(path: Path) -> frozenset[str]:
    """The tests of one file, as ``function`` or ``Class::function``, without running it."""
    if not path.is_file():
        return frozenset()
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{item.name}" for item in node.body if isinstance(item, ast.FunctionDef)}
    return frozenset(name for name in found if name.rpartition("::")[2].startswith("test_"))


def faults(clause: Clause, root: Path = ROOT) -> list[str]:
    """What is wrong with one clause, as sentences."""
    if not clause.text.strip():
        return [f"{clause.id} says nothing"]
    match clause.status:
        case "later":
            return [f"{clause.id} is for later but names tests"] if clause.tests else []
        case "built" if not clause.tests:
            return [f"{clause.id} is called built but names no test"]
        case "built":
            return [
                f"{clause.id} names {test}, which does not exist"
                for test in clause.tests
                if test.partition("::")[2] not in find_tests(root / test.partition("::")[0])
            ]
        case other:
            return [f"{clause.id} has the unknown status {other!r}"]


def test_every_clause_called_built_is_shown_by_a_test_that_exists() -> None:
    broken = [fault for clause in read_clauses() for fault in faults(clause)]
    assert not broken, "\n" + "\n".join(broken)


def test_every_design_document_is_listed_in_its_own_file() -> None:
    assert {path.stem for path in CLAUSES.glob("*.toml")} == DOCUMENTS
    for path in CLAUSES.glob("*.toml"):
        assert list(tomllib.loads(path.read_text(encoding="utf-8"))) == [path.stem]


def test_the_manifest_can_be_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    count = Counter((clause.id.partition(".")[0], clause.status) for clause in read_clauses())
    with capsys.disabled():
        parts = (
            f"{name} {count[name, 'built']}/{count[name, 'built'] + count[name, 'later']}" for name in sorted(DOCUMENTS)
        )
        print(f"\nclauses shown by a test: {', '.join(parts)}")  # noqa: T201 - the summary is for a person
    assert count.total() > 0


@pytest.mark.parametrize(
    ("clause", "fault"),
    [
        (Clause("d.a", "", "later"), "says nothing"),
        (Clause("d.a", "x", "soon"), "unknown status"),
        (Clause("d.a", "x", "built"), "names no test"),
        (Clause("d.a", "x", "later", ["test_x.py::test_it_works"]), "for later"),
        (Clause("d.a", "x", "built", ["test_x.py::test_gone"]), "does not exist"),
        (Clause("d.a", "x", "built", ["test_y.py::test_it_works"]), "does not exist"),
        (Clause("d.a", "x", "built", ["test_x.py::helper"]), "does not exist"),
    ],
)
def test_a_faulty_clause_is_named(clause: Clause, fault: str, tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_it_works(): ...\ndef helper(): ...\n", encoding="utf-8")
    assert [fault in sentence for sentence in faults(clause, tmp_path)] == [True]


def test_a_sound_clause_has_no_fault(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("class TestIt:\n    def test_works(self): ...\n", encoding="utf-8")
    assert faults(Clause("d.a", "x", "built", ["test_x.py::TestIt::test_works"]), tmp_path) == []
