"""The house as it stands keeps every rule, and every rule can fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.architecture import rules
from tests.architecture.graph import Module, read_tree

SOURCE = Path(__file__).parents[2] / "src"

Rule = Callable[[rules.Modules], list[str]]


@pytest.fixture(scope="module")
def house() -> dict[str, Module]:
    return read_tree(SOURCE)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(rule: Rule, house: dict[str, Module]) -> None:
    broken = rule(house)
    assert not broken, "\n" + "\n".join(broken)


def test_the_reader_sees_the_house(house: dict[str, Module]) -> None:
    assert "pilothouse.engine.ports" in house
    assert "pilothouse.core.run.commands" in house["pilothouse.engine.ports"].imports


def test_the_warden_starts_on_a_bare_interpreter(house: dict[str, Module]) -> None:
    present = [name for name in rules.WARDEN if name in house]
    code = f"import sys; sys.path.append({str(SOURCE)!r}); import {', '.join(['sys', *present])}"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def write_tree(root: Path, files: dict[str, str]) -> dict[str, Module]:
    for name, text in files.items():
        path = root / "pilothouse" / name
        for folder in [path.parent, *path.parent.parents]:
            if not folder.is_relative_to(root / "pilothouse"):
                break
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    return read_tree(root)


# (the rule, a tree that breaks it, what its message must name)
BREAKS: list[tuple[Rule, dict[str, str], str]] = [
    (rules.floors_are_known, {"helpers/text.py": ""}, "helpers"),
    (
        rules.arrows_point_down,
        {"engine/loop.py": "from pilothouse.adapters.git import merge", "adapters/git/merge.py": ""},
        "engine may not import adapters",
    ),
    (
        rules.arrows_point_down,
        {
            "interfaces/http/plans.py": "import pilothouse.adapters.store.sqlite",
            "adapters/store/sqlite.py": "",
        },
        "interfaces may not import adapters",
    ),
    (
        rules.arrows_point_down,
        {"adapters/git/run.py": "from ...engine import ports", "engine/ports.py": ""},
        "adapters may not import engine",
    ),
    (
        rules.arrows_point_down,
        {"engine/loop.py": "from pilothouse.settings import Settings", "settings.py": "Settings = 1"},
        "engine may not import settings",
    ),
    (
        rules.arrows_point_down,
        {
            "core/run/a.py": (
                "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pilothouse.engine import b"
            ),
            "engine/b.py": "",
        },
        "core may not import engine",
    ),
    (
        rules.arrows_point_down,
        {
            "engine/loop.py": "import importlib\nimportlib.import_module('pilothouse.adapters.git')",
            "adapters/git/run.py": "",
        },
        "engine may not import adapters",
    ),
    (
        rules.arrows_point_down,
        {"engine/loop.py": "def later():\n    import pilothouse.app", "app.py": ""},
        "engine may not import app",
    ),
    (
        rules.arrows_point_down,
        {"client/plans.py": "from pilothouse.engine import plans", "engine/plans.py": ""},
        "client may not import engine",
    ),
    (
        rules.rooms_do_not_know_each_other,
        {"adapters/git/run.py": "from pilothouse.adapters.work import x", "adapters/work/x.py": ""},
        "adapters/git may not use adapters/work",
    ),
    (
        rules.rooms_do_not_know_each_other,
        {"core/plan/build.py": "from ..chat import turn", "core/chat/turn.py": ""},
        "core/plan may not use core/chat",
    ),
    (
        rules.rooms_do_not_know_each_other,
        {"interfaces/cli/x.py": "import pilothouse.interfaces.http.app", "interfaces/http/app.py": ""},
        "interfaces/cli may not use interfaces/http",
    ),
    (rules.the_engine_is_built_upwards, {"engine/loops/plan.py": ""}, "loops has no place in the engine"),
    (
        rules.the_engine_is_built_upwards,
        {"engine/driving/hub.py": "from pilothouse.engine.plans import logs", "engine/plans/logs.py": ""},
        "engine/driving may not use engine/plans",
    ),
    (
        rules.nothing_goes_in_circles,
        {
            "core/run/a.py": "from pilothouse.core.run import b",
            "core/run/b.py": "def f():\n    from .c import x",
            "core/run/c.py": ("import typing\nif typing.TYPE_CHECKING:\n    import pilothouse.core.run.a\nx = 1"),
        },
        "pilothouse.core.run.a ↔ pilothouse.core.run.b ↔ pilothouse.core.run.c",
    ),
    (rules.modules_fit_one_sitting, {"core/run/long.py": "x = 1\n" * 401}, "401 lines"),
    (rules.core_is_pure, {"core/run/a.py": "import asyncio"}, "asyncio"),
    (rules.core_is_pure, {"core/run/a.py": "from pathlib import Path"}, "pathlib.Path"),
    (rules.core_is_pure, {"core/run/a.py": "from os import path"}, "os.path"),
    (rules.core_is_pure, {"core/run/a.py": "async def f():\n    pass"}, "asynchronous"),
    (rules.core_is_pure, {"core/run/a.py": "import datetime\nx = datetime.datetime.now()"}, "clock"),
    (rules.core_is_pure, {"core/run/a.py": "def f(p):\n    return open(p)"}, "open()"),
    (rules.warden_stands_alone, {"adapters/work/keeper.py": "import msgspec"}, "msgspec"),
    (
        rules.warden_stands_alone,
        {"adapters/work/warden.py": "", "adapters/work/__init__.py": "import msgspec"},
        "msgspec",
    ),
    (
        rules.warden_stands_alone,
        {
            "adapters/work/warden.py": "from pilothouse.core.run import lifecycle",
            "core/run/lifecycle.py": "",
        },
        "pilothouse.core.run.lifecycle",
    ),
    (
        rules.warden_stands_alone,
        {
            "adapters/work/keeper.py": "from pilothouse.adapters.work import spool",
            "adapters/work/spool.py": "from pilothouse.core.run import output",
            "core/run/output.py": "from pilothouse import errors",
            "errors.py": "import pydantic",
        },
        "pilothouse.errors:1 imports pydantic",
    ),
]


@pytest.mark.parametrize(("rule", "files", "named"), BREAKS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_tree_that_breaks_the_rule_is_named(rule: Rule, files: dict[str, str], named: str, tmp_path: Path) -> None:
    broken = rule(write_tree(tmp_path, files))
    assert any(named in sentence for sentence in broken), broken


def test_every_rule_is_shown_to_fail() -> None:
    assert {rule for rule, _, _ in BREAKS} == set(rules.RULES)


# Imports the design allows, so that a rule that forbids everything would be noticed.
ALLOWED = {
    "app.py": "from pilothouse.adapters.git import run\nfrom pilothouse.interfaces.http import server",
    "settings.py": "from pilothouse.errors import BadInput",
    "errors.py": "class BadInput(Exception): ...",
    "core/run/events.py": "import msgspec\nfrom pathlib import PurePosixPath",
    "core/tools/spec.py": "from pilothouse.core.run import events",
    "core/plan/build.py": "from pilothouse.core.run.events import msgspec\nfrom pilothouse.core.tools import spec",
    "engine/ports.py": "from pilothouse.core.plan import build",
    "adapters/git/run.py": "from pilothouse.core.plan import build",
    "adapters/work/warden.py": "import asyncio\nfrom pilothouse.adapters.work import protocol",
    "adapters/work/protocol.py": "import json",
    "adapters/agents/scripted/script.py": "from pilothouse.adapters.work import protocol",
    "adapters/toolbox/files.py": "from pilothouse.adapters.git import run",
    "interfaces/http/server.py": "from pilothouse.engine import ports\nfrom pilothouse.settings import BadInput",
    "client/reading.py": "from pilothouse.core.run import events\nimport pilothouse.owner",
    "interfaces/cli/verb.py": "from pilothouse.client import reading",
    "interfaces/cli/main.py": "def serve():\n    from pilothouse import app",
}


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_what_the_design_allows_breaks_no_rule(rule: Rule, tmp_path: Path) -> None:
    assert rule(write_tree(tmp_path, ALLOWED)) == []
