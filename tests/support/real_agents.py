"""Real agents as nodes of plans: how each is sent to the model server by the settings, and jobs for them.

Knows what users write, in settings and plans, and nothing of how an agent is launched: that is for drivers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import pytest
from tests.support import flow, terminal
from tests.support.models.server import ModelServer
from tests.support.needs import need_agents

from pilothouse.adapters.agents import discovery

PATIENCE_S = 90.0
"""Bound of every wait where real agents work: some take many seconds to start, on a busy machine several at once."""

KEY_VARIABLE = "MODEL_SERVER_KEY"
KEY = "fake-key-0123456789"
"""Long, because one CLI blanks out its key wherever it occurs in its output."""


class Endpoint(NamedTuple):
    """The API an agent speaks to the model server, what follows its address, and the model it is to ask for."""

    api: str
    path: str = "/v1"
    model: str = "fake-1"


ENDPOINTS: Mapping[str, Endpoint] = {
    "copilot": Endpoint("completions"),
    "claude": Endpoint("anthropic", ""),
    "codex": Endpoint("responses"),
    "opencode": Endpoint("completions"),
    "gemini": Endpoint("gemini", "", "gemini-2.5-flash"),
}
"""Over ACP an agent speaks to its model as it always does."""


def endpoint(agent: str) -> Endpoint:
    return ENDPOINTS[agent.removesuffix("-acp")]


def settings(url: Callable[[str], str], agents: Iterable[str] = ENDPOINTS) -> dict[str, Any]:
    """``agents`` of the settings; ``url`` answers where the model of an agent is."""
    return {
        agent: {
            "api": endpoint(agent).api,
            "baseUrl": f"{url(agent)}{endpoint(agent).path}",
            "apiKeyEnv": KEY_VARIABLE,
            "model": endpoint(agent).model,
        }
        for agent in agents
    }


def one_for_all(server: ModelServer) -> Callable[[str], str]:
    """All agents play the one script of a server."""
    return lambda _: server.url


def find_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have servers find the agents and the key, in this process and in those it starts; and be patient with them.

    Skips when the agents are not there."""
    monkeypatch.setenv("PATH", f"{need_agents()}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    for module in (flow, terminal):
        monkeypatch.setattr(module, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(discovery, "PROBE_TIMEOUT_S", PATIENCE_S)  # several are asked for their versions at once


def for_owners(agents: Mapping[str, Any]) -> dict[str, str]:
    """The variable by which an owner that is a process of its own is told settings of agents."""
    return {"PILOTHOUSE_AGENTS": json.dumps(agents)}


def job(name: str, agent: str, task: str = "Do it", more: str = "", work: str = "") -> str:
    """A line of a plan's ``jobs``. ``more`` holds further fields of the job, ``work`` of its work."""
    return (
        f"  - {{producerId: {name}, task: {task!r}, work: {{type: agent, agent: {agent}{work and ', ' + work}}}"
        f"{more and ', ' + more}}}\n"
    )


def plan(*jobs: str, more: str = "") -> str:
    return f"name: agents\ntargetBranch: result\n{more}\njobs:\n{''.join(jobs)}"
