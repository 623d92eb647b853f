"""Filling ``{message}``, ``{results.create_workflow.id}`` and their like into a script's texts and arguments.

Pure. Braces that name nothing known stay as they are, so that JSON and code can be written plainly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_PLACE = re.compile(r"\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")
_MISSING = object()


def fill(text: str, values: Mapping[str, Any]) -> str:
    """``text`` with every known place filled; what is no text is written as JSON."""
    return _PLACE.sub(lambda found: _shown(_find(found[1], values), found[0]), text)


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """The same for all texts within a JSON value. A text that is one place alone becomes what stands there."""
    if isinstance(value, str):
        if whole := _PLACE.fullmatch(value):
            found = _find(whole[1], values)
            return value if found is _MISSING else found
        return fill(value, values)
    if isinstance(value, Mapping):
        return {key: filled(one, values) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [filled(one, values) for one in value]
    return value


def _find(path: str, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for part in path.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list | tuple) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return _MISSING
    return found


def _shown(value: Any, otherwise: str) -> str:
    if value is _MISSING:
        return otherwise
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
