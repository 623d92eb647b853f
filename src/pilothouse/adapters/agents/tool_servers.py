"""How an agent is given a server of tools: a command that holds no secret, and a private file that does.

Agents hand on what they are told of a server in ways of their own: on command lines, in the environment of every
command they run, in records of a conversation. None of that is to hold the secret, so no agent is told it.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.reading import bounded
from pilothouse.core.run.agents import Noted, ToolServer

PATIENCE_MS = 24 * 60 * 60 * 1000
"""For a call's answer: a person may have to allow it first."""
START_MS = 120 * 1000
"""For its first answer: whoever serves the tools may just be starting again. Agents that do not wait by themselves go
on without any tools."""
_FILE = "tools.env"
_START = '. "$0" && exec "$@"'


def known_as(server: ToolServer) -> str:
    """What an agent is told that the server is called, where it would mix it with one of that name which the user has
    set up: a name that nobody gives."""
    return f"{server.name}_tools"


def sealed(work: AgentWork) -> tuple[str, ...]:
    """What to start instead of the server's own command: it is the same program with its own environment, which is read
    from a file of this run. Empty when there is no server. Raises ``OSError``."""
    if work.tools is None:
        return ()
    place = Path(work.run, _FILE)
    place.unlink(missing_ok=True)
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in work.tools.env.items())
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.writelines(lines)
    return "/bin/sh", "-c", _START, str(place), *work.tools.command


def unserved(why: str) -> Noted:
    """For an agent that says that its server of tools did not start."""
    return Noted(
        text=bounded(f"it works without the tools of this server, which did not start: {why}"), level="warning"
    )
