"""What the bridge process is told on its standard input: everything it needs to have one agent do one piece of work.

The bridge inherits the agent's environment, so that nothing secret is among these values.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.run.agents import Permissions

TEXT_OPTIONS = ("model", "thought_level", "mode")
"""Categories of what a session can be set to, in the order in which they are set: what there is may depend on the
model."""


class Errand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of an agent that speaks the Agent Client Protocol."""

    argv: tuple[str, ...]
    """What starts the agent."""
    title: str
    """What people call it."""
    prompt: str
    worktree: str
    """An absolute path without symbolic links."""
    folders: tuple[str, ...] = ()
    """Others that it may read and write; absolute."""
    urls: tuple[str, ...] = ()
    """What it may fetch unasked: addresses, or hosts with all that is on them."""
    run: str
    """The directory of this run. Answers to its requests are left below it, in ``answers/<request id>.json``."""
    permissions: Permissions = Permissions.ALLOW
    session_id: str = ""
    """The conversation to go on with; empty: a new one."""
    prompt_anew: str = ""
    """The prompt for a new conversation, begun because that one cannot be gone on with."""
    options: dict[str, str] = {}
    """What to set the session to, by category (see ``TEXT_OPTIONS``)."""
    model: str = ""
    """The model it was started with, for the records; where the session itself can tell, that is told."""
    meter: str = ""
    """Where its own records of tokens are read, by a name of ``meters``; empty: what it tells counts."""
    auth: str = ""
    """The method by which it authenticates without anybody's help; empty: none, or as its own list of methods says."""
    says_errors: bool = False
    """Whether an error is only the last thing that it says, in a turn that ends as any other."""
    login: str = ""
    """How a person logs in to it, said when it must be."""
    tools: str = ""
    """What it is told that the server of tools is called which it is given; empty: none. Somebody else tells of its
    calls."""
    titles: str = ""
    """How its program titles calls, by a name of ``served.TITLES``."""
    tools_command: tuple[str, ...] = ()
    """What starts that server; empty when the agent is told so in another way."""
    meta: dict[str, Any] = {}
    """What is said to it beside the protocol when a session is opened."""
