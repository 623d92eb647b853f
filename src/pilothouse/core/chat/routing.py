"""Who executes a tool call, and whether it may: decided when the call is told, and for good."""

from __future__ import annotations

from pilothouse.core.chat.backend import ToolCalled
from pilothouse.core.chat.calls import OnApproval, RunBy
from pilothouse.core.chat.state import ToolCall, TurnState
from pilothouse.core.tools.spec import Permit

SUBAGENTS = frozenset(
    {
        "debug",
        "edit",
        "build",
        "plan",
        "test",
        "deploy",
        "auth",
        "research",
        "knowledge",
        "custom_tool",
        "tour",
        "info",
        "workflow",
        "evaluate",
        "superagent",
        "discovery",
    }
)
"""Tools of the copilot backend that are agents of its own."""

SERVER = "server"
"""The executor of a call that an agent made of the server's tools."""
SERVER_CALLS = "pilothouse-"
"""What the ids of such calls begin with, and those of no other call of an agent."""
_RESPOND = "_respond"
_ITS_OWN = frozenset({"go", "subagent"})


def run_by(state: TurnState, said: ToolCalled, name: str) -> RunBy:
    """A tool that the turn offers is the server's to execute, whatever the backend has of the same name; unless it is
    an agent, whose tools are its own but for those it asks the server for."""
    own_tools = state.facts.features.own_tools
    if said.executor in _ITS_OWN or (own_tools and said.executor != SERVER):
        return RunBy.BACKEND
    if (offered := state.offered.get(name)) is not None:
        return RunBy.SERVER if offered.spec is None else RunBy.CLIENT
    if own_tools:
        return RunBy.SERVER  # where it is found that there is no such tool
    if name in SUBAGENTS or responds(name):
        return RunBy.BACKEND
    if said.executor == "client" or said.ui.get("clientExecutable") is True:
        return RunBy.CLIENT
    return RunBy.SERVER


def responds(name: str) -> bool:
    """A subagent hands its answer back with this: there is nothing to execute."""
    return name.endswith(_RESPOND) and name.removesuffix(_RESPOND) in SUBAGENTS


def permit(state: TurnState, name: str, runner: RunBy) -> Permit:
    """A person's answer for longer than once goes before what the turn began with, but for what it denies."""
    offered = state.offered.get(name)
    if offered is None or runner is not RunBy.SERVER:
        return Permit.ALLOW
    if offered.permit is Permit.ASK and name in state.grants:
        return Permit.ALLOW
    return offered.permit


def for_agents(state: TurnState) -> tuple[str, ...]:
    """The tools of the turn that an agent can have the server execute: none where they are left to whoever sent the
    message."""
    if not state.facts.auto_execute:
        return ()
    return tuple(
        offered.name for offered in state.offered.values() if offered.spec is None and offered.permit is not Permit.DENY
    )


def for_others(state: TurnState, runner: RunBy, name: str) -> bool:
    """Nobody executes it during the turn, which ends with it pending: whoever sent the message said so."""
    if runner is RunBy.BACKEND:
        return False
    offered = state.offered.get(name)
    return not state.facts.auto_execute or (offered is not None and offered.spec is not None)


def may_begin(state: TurnState, call: ToolCall) -> bool:
    """The server executes it, and nobody has to be asked."""
    if call.run_by is not RunBy.SERVER or call.name not in state.offered or for_others(state, call.run_by, call.name):
        return False
    asks = call.permit is Permit.ASK and state.facts.on_approval is OnApproval.RUN
    return asks or call.permit is Permit.ALLOW


def decided_here(state: TurnState, call: ToolCall) -> bool:
    """Something other than that is to become of it without anybody's doing."""
    if for_others(state, call.run_by, call.name):
        return False
    match call.run_by:
        case RunBy.BACKEND:
            return responds(call.name)
        case RunBy.CLIENT:
            return state.facts.headless
    return True
