"""What to say to names nobody knows: the nearest one, or all there are. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pilothouse.errors import BadInput, NotFound

MANY = 40
"""Names a message lists at most."""


def near(name: str, known: Iterable[str]) -> str:
    """``did you mean 'NAME'?``, or nothing."""
    by_lower = {known_name.lower(): known_name for known_name in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"did you mean {by_lower[found[0]]!r}?" if found else ""


def unknown_agent(name: str, known: Iterable[str]) -> BadInput:
    """For a plan that names an agent there is no driver for."""
    names = sorted(known)
    return BadInput(f"there is no agent {name!r}; there are: {', '.join(names)}", field="agent", fix=near(name, names))


def unlisted(name: str, known: Iterable[str]) -> NotFound:
    """For a person who asks after such an agent."""
    hint = near(name, known)
    return NotFound(f"there is no agent {name!r}" + (f" ({hint})" if hint else ""))


def unknown_model(model: str, agent: str, models: Iterable[str]) -> BadInput:
    names = list(models)
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    listed = ", ".join(names[:MANY])
    return BadInput(
        f"{agent} does not offer the model {model!r}; it offers: {listed}{more}", field="model", fix=near(model, names)
    )
