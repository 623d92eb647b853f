"""The directory in which the Gemini CLI keeps all that is its own, and the settings in it.

One of ours, where it needs no login. Else the user's; and where ours must count before the settings in that, for a run
one that shows what is in the user's, with other settings: the files that would go over those of a user it takes from
the administrator of the machine alone.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.adapters.agents.reading import NOT_JSON

SETTINGS = "settings.json"
_OWN = ".gemini"
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def settle(file: Path, settings: Mapping[str, Any]) -> None:
    """Raises ``OSError``."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.encode(settings))


def own(home: str, settings: Mapping[str, Any]) -> None:
    """A home of ours. Raises ``OSError``."""
    settle(Path(home, _OWN, SETTINGS), settings)


def lent(home: str, usual: str, defaults: Mapping[str, Any], servers: Mapping[str, Any], instead: str) -> None:
    """A home with all that is in the usual one: its logins, its conversations; its settings over ``defaults``, and
    ``servers`` among the servers of tools there, but not one called ``instead``. Raises ``OSError``."""
    place, shown = Path(home, _OWN), Path(usual, _OWN)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        for entry in shown.iterdir():
            with contextlib.suppress(FileExistsError):
                (place / entry.name).symlink_to(entry)
    settings = {**defaults, **json_object(shown / SETTINGS)}
    theirs = settings.get("mcpServers")
    others = theirs.items() if isinstance(theirs, dict) else ()
    settings["mcpServers"] = {**{name: server for name, server in others if name != instead}, **servers}
    (place / SETTINGS).unlink(missing_ok=True)
    settle(place / SETTINGS, settings)


def json_object(file: Path) -> dict[str, Any]:
    """What a file holds, which may have comments; empty when it is none."""
    try:
        text = _COMMENT.sub(lambda found: found[1] or "", file.read_text(encoding="utf-8"))
        found = msgspec.json.decode(text)
    except (OSError, *NOT_JSON):
        return {}
    return found if isinstance(found, dict) else {}
