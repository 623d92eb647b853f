"""What is installed is declared, locked and justified."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RUNTIME = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
EXTRAS = [Requirement(line) for lines in PROJECT["project"]["optional-dependencies"].values() for line in lines]
DEVELOPMENT = [Requirement(line) for line in PROJECT["dependency-groups"]["dev"]]


def locked(name: str) -> dict[str, list[str]]:
    """Package → the versions a lock file pins it to (several when they depend on the platform)."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", line):
            found.setdefault(canonicalize_name(match[1]), []).append(match[2])
    return found


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [("requirements.lock", RUNTIME), ("requirements-dev.lock", [*RUNTIME, *EXTRAS, *DEVELOPMENT])],
)
def test_the_lock_satisfies_what_is_declared(lock: str, requirements: list[Requirement]) -> None:
    pinned = locked(lock)
    unmet = [
        str(requirement)
        for requirement in requirements
        if not any(
            requirement.specifier.contains(version) for version in pinned.get(canonicalize_name(requirement.name), [])
        )
    ]
    assert not unmet, f"{lock} does not satisfy {unmet}: run ./dev lock"


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_the_lock_names_no_index(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_every_dependency_is_justified() -> None:
    page = (ROOT / "docs/decisions/dependencies.md").read_text(encoding="utf-8")
    justified = re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE)
    assert sorted(justified) == sorted(requirement.name for requirement in [*RUNTIME, *EXTRAS, *DEVELOPMENT])
