"""Routes of agents and the models they offer: the selectors of plan files, chats and people."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from pilothouse.engine.services import Services
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.wire import Json

_AGENT: dict[str, Any] = {
    "name": "claude",
    "title": "Claude Code",
    "installed": True,
    "version": "2.1.197",
    "path": "/usr/bin/claude",
    "loggedIn": True,
    "login": "ANTHROPIC_API_KEY",
    "resumes": True,
    "asks": False,
    "acp": False,
    "models": None,
    "install": "npm install -g @anthropic-ai/claude-code",
    "problem": "",
}
_MODEL: dict[str, Any] = {
    "id": "gpt-5",
    "agent": "copilot",
    "vendor": "openai",
    "tier": "standard",
    "default": True,
    "priced": False,
}

Fresh = Annotated[bool, Query(description="Ask the programs again instead of what they said within the hour.")]


def make_agents(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["agents"])
    agents = services.agents

    @router.get("/agents", responses=answer({"agents": [_AGENT]}))
    async def list_agents(fresh: Fresh = False) -> Response:
        """Every agent there is a driver for, installed or not."""
        return Json({"agents": msgspec.to_builtins(await agents.agents(fresh=fresh))})

    @router.get("/models", responses=answer({"models": [_MODEL]}))
    async def list_models(
        agent: Annotated[str | None, Query(description="Only those of this agent.")] = None, fresh: Fresh = False
    ) -> Response:
        """The models that installed agents say they can use."""
        return Json({"models": msgspec.to_builtins(await agents.models(agent, fresh=fresh))})

    return router
