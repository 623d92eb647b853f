"""The map in ``docs/architecture.md`` shows the rooms that are there, and calls later what is not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| `(?P<room>[a-z]+(?:/[a-z]+)?)/` \| (?P<later>\*later:\*)?", re.MULTILINE)


def rooms_with_code() -> set[str]:
    source = ROOT / "src/pilothouse"
    floors = ("core", "adapters", "interfaces")
    return {
        str(folder.relative_to(source))
        for folder in [source / "client", *(room for floor in floors for room in (source / floor).iterdir())]
        if folder.is_dir() and any(path.name != "__init__.py" for path in folder.rglob("*.py"))
    }


def rooms_on_the_map() -> dict[str, bool]:
    """Room → whether the map says that it is there."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    return {found["room"]: not found["later"] for found in ROW.finditer(text)}


def test_every_room_is_on_the_map() -> None:
    present = {room for room, there in rooms_on_the_map().items() if there}
    assert rooms_with_code() <= present


def test_what_the_map_calls_later_is_not_there_yet() -> None:
    later = {room for room, there in rooms_on_the_map().items() if not there}
    assert later
    assert not later & rooms_with_code()
