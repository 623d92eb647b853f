"""Who may do what to what: one table.

An action needs a scope, and reaches what its principal owns; the rest is for that principal as if it were not there.
Nothing is asked about here that has no row. Translating requests into actions is a door's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from pilothouse.core.auth.principals import LOCAL, Principal, Scope
from pilothouse.core.auth.refusals import NeedsScope


class Action(StrEnum):
    """What one may do to what. A plan is a run, and so are its nodes, their output and its events."""

    READ_RUNS = "runs.read"
    START_RUNS = "runs.start"
    CONTROL_RUNS = "runs.control"
    DELETE_RUNS = "runs.delete"
    READ_APPROVALS = "approvals.read"
    ANSWER_APPROVALS = "approvals.answer"
    READ_REPOS = "repos.read"
    REGISTER_REPOS = "repos.register"
    REMOVE_REPOS = "repos.remove"
    READ_WORKFLOWS = "workflows.read"
    CHANGE_WORKFLOWS = "workflows.change"
    READ_CHATS = "chats.read"
    SEND = "chats.send"
    CHANGE_CHATS = "chats.change"
    DELETE_CHATS = "chats.delete"
    READ_TOOLS = "tools.read"
    READ_CREDENTIALS = "credentials.read"
    CHANGE_CREDENTIALS = "credentials.change"
    READ_KEYS = "keys.read"
    CHANGE_KEYS = "keys.change"
    READ_SERVER = "server.read"
    CONTROL_SERVER = "server.control"


class Reach(StrEnum):
    """Whose things an action applies to, for a principal without ``admin``, which reaches everybody's."""

    OWN = "own"
    """What it owns."""
    SHARED = "shared"
    """What it owns, and what the local user put there for all."""
    COMMON = "common"
    """What belongs to nobody."""


class Rule(NamedTuple):
    scope: Scope
    reach: Reach


POLICY: Mapping[Action, Rule] = MappingProxyType(
    {
        Action.READ_RUNS: Rule(Scope.READ, Reach.OWN),
        Action.START_RUNS: Rule(Scope.RUN, Reach.OWN),
        Action.CONTROL_RUNS: Rule(Scope.RUN, Reach.OWN),
        Action.DELETE_RUNS: Rule(Scope.RUN, Reach.OWN),
        Action.READ_APPROVALS: Rule(Scope.READ, Reach.OWN),
        Action.ANSWER_APPROVALS: Rule(Scope.APPROVE, Reach.OWN),
        Action.READ_REPOS: Rule(Scope.READ, Reach.SHARED),
        Action.REGISTER_REPOS: Rule(Scope.RUN, Reach.OWN),
        Action.REMOVE_REPOS: Rule(Scope.RUN, Reach.OWN),
        Action.READ_WORKFLOWS: Rule(Scope.READ, Reach.OWN),
        Action.CHANGE_WORKFLOWS: Rule(Scope.RUN, Reach.OWN),
        Action.READ_CHATS: Rule(Scope.READ, Reach.OWN),
        Action.SEND: Rule(Scope.RUN, Reach.OWN),
        Action.CHANGE_CHATS: Rule(Scope.RUN, Reach.OWN),
        Action.DELETE_CHATS: Rule(Scope.RUN, Reach.OWN),
        Action.READ_TOOLS: Rule(Scope.READ, Reach.COMMON),
        Action.READ_CREDENTIALS: Rule(Scope.READ, Reach.OWN),
        Action.CHANGE_CREDENTIALS: Rule(Scope.RUN, Reach.OWN),
        Action.READ_KEYS: Rule(Scope.READ, Reach.OWN),
        Action.CHANGE_KEYS: Rule(Scope.ADMIN, Reach.OWN),
        Action.READ_SERVER: Rule(Scope.READ, Reach.COMMON),
        Action.CONTROL_SERVER: Rule(Scope.ADMIN, Reach.COMMON),
    }
)


def require(principal: Principal, action: Action) -> None:
    """Raises ``NeedsScope`` when a principal may not do that to anything."""
    scope = POLICY[action].scope
    if not principal.may(scope):
        raise NeedsScope(scope)


def reaches(principal: Principal, action: Action, owner: str) -> bool:
    """Whether what belongs to ``owner`` is there for a principal that does this."""
    reach = POLICY[action].reach
    return principal.sees(owner) or reach is Reach.COMMON or (reach is Reach.SHARED and owner == LOCAL)
