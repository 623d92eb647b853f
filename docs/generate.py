"""Fills the generated blocks of the documentation from the code: ``python -m docs.generate [--check]``.

A block stands between ``<!-- generated:NAME -->`` and ``<!-- /generated:NAME -->`` in any Markdown file below
``docs/`` or in the README. ``--check`` changes nothing and fails when a block is out of date. This file knows how to
draw; what is drawn lives in the code alone.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- generated:(?P<name>[a-z-]+) -->\n)(?P<body>.*?)(<!-- /generated:(?P=name) -->)", re.DOTALL)
NOT_BUILT = "*Not built yet.*"


class NotBuilt(Exception):
    """Raised when the code a block is drawn from does not exist yet."""


def find(path: str) -> Any:
    """The object ``module:name``. Raises ``NotBuilt`` when that module does not exist."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            raise NotBuilt(module) from error
        raise


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def first_line(doc: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((doc or "").strip().partition("\n\n")[0].split())


def mermaid(path: str) -> str:
    return f"```mermaid\n{find(path)().rstrip()}\n```"


def lifecycle() -> str:
    return mermaid("pilothouse.core.run.lifecycle:mermaid")


def node_states() -> str:
    return mermaid("pilothouse.core.plan.states:mermaid")


def call_states() -> str:
    return mermaid("pilothouse.core.chat.call_states:mermaid")


def events() -> str:
    """One table per room of the core that has events."""
    core = importlib.import_module("pilothouse.core")
    event = find("pilothouse.core.run.events:Event")
    parts = []
    for room in sorted(module.name for module in pkgutil.iter_modules(core.__path__)):
        found: list[Any] = [
            kind
            for module in event_modules(f"pilothouse.core.{room}")
            for kind in vars(module).values()
            if isinstance(kind, type) and issubclass(kind, event) and kind.__module__ == module.__name__
        ]
        kinds = [kind for kind in found if kind.type_name().isupper()]  # what is only a base has no type of its own
        if not kinds:
            continue
        rows = (
            (f"`{kind.type_name()}`", fields_of(kind), "yes" if kind.durable else "no", first_line(kind.__doc__))
            for kind in kinds
        )
        parts.append(f"### {room}\n\n" + table(("type", "fields", "synced first", "meaning"), rows))
    return "\n\n".join(parts)


def event_modules(room: str) -> Iterator[ModuleType]:
    """``events`` of a room first, then what stands beside it as ``…_events``."""
    names = [module.name for module in pkgutil.iter_modules(importlib.import_module(room).__path__)]
    for name in sorted((name for name in names if name == "events" or name.endswith("_events")), key=len):
        yield importlib.import_module(f"{room}.{name}")


def fields_of(kind: type) -> str:
    names: tuple[str, ...] = kind.__struct_encode_fields__  # type: ignore[attr-defined]  # msgspec structs have it
    return ", ".join(f"`{name}`" for name in names) or "–"


def settings() -> str:
    model = find("pilothouse.settings:Settings")
    prefix = model.model_config.get("env_prefix", "")

    def rows() -> Iterator[tuple[str, ...]]:
        for name, field in model.model_fields.items():
            variable = field.validation_alias if isinstance(field.validation_alias, str) else f"{prefix}{name}"
            default = "" if field.is_required() else display(field.get_default(call_default_factory=False))
            if field.default_factory is not None:
                default = "the platform's"  # it differs from user to user, so no one value can stand here
            yield f"`{variable.upper()}`", default, " ".join((field.description or "").split())

    return table(("environment", "default", "meaning"), rows())


def display(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "–" if value is None or not text else f"`{text}`"


BLOCKS: dict[str, Callable[[], str]] = {
    "lifecycle": lifecycle,
    "node-states": node_states,
    "call-states": call_states,
    "events": events,
    "settings": settings,
}


def draw(name: str) -> str:
    try:
        return BLOCKS[name]()
    except NotBuilt:
        return NOT_BUILT


def fill(text: str) -> str:
    """``text`` with every block drawn anew. Raises ``KeyError`` for a block nobody can draw."""
    return BLOCK.sub(lambda found: f"{found[1]}{draw(found['name'])}\n{found[4]}", text)


def pages() -> Iterator[Path]:
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield ROOT / "README.md"


def main(arguments: typing.Sequence[str]) -> int:
    stale = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        drawn = fill(text)
        if drawn != text:
            stale.append(str(page.relative_to(ROOT)))
            if "--check" not in arguments:
                page.write_text(drawn, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"out of date: {', '.join(stale)} (./dev fix draws them anew)", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
