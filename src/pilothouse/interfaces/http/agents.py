"""Routes of agents and the models they offer: the selectors of plan files, chats and people."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from pilothouse.core.chat.request import ChatModel
from pilothouse.engine.services import Services
from pilothouse.errors import BackendFailed
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

_CHAT_MODEL: dict[str, Any] = {
    "id": "qwen3",
    "name": "Qwen 3",
    "contextTokens": 32768,
    "reasoning": True,
    "default": True,
    "backend": "llm",
}

Fresh = Annotated[bool, Query(description="Ask the programs again instead of what they said within the hour.")]


def make_agents(services: Services) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["agents"])
    agents = services.agents

    @router.get("/agents", responses=answer({"agents": [_AGENT]}))
    async def list_agents(fresh: Fresh = False) -> Response:
        """Every agent there is a driver for, installed or not."""
        return Json({"agents": msgspec.to_builtins(await agents.agents(fresh=fresh))})

    @router.get("/models", responses=answer({"models": [_MODEL], "chatModels": [_CHAT_MODEL], "chatProblem": ""}))
    async def list_models(
        agent: Annotated[str | None, Query(description="Only those of this agent.")] = None, fresh: Fresh = False
    ) -> Response:
        """The models that installed agents say they can use (`models`), and those that answer in conversations
        (`chatModels`); `chatProblem` is why nobody can say which."""
        found: dict[str, Any] = {"models": msgspec.to_builtins(await agents.models(agent, fresh=fresh))}
        if agent is None:
            found |= await _chat_models(services)
        return Json(found)

    @router.get("/copilot/models", responses=answer({"models": [_CHAT_MODEL]}))
    async def list_chat_models() -> Response:
        """The models that answer in conversations."""
        return Json({"models": _with_backend(services, await services.chats.models())})

    return router


async def _chat_models(services: Services) -> dict[str, Any]:
    try:
        models, problem = await services.chats.models(), ""
    except BackendFailed as error:
        models, problem = [], str(error)
    return {"chatModels": _with_backend(services, models), "chatProblem": problem}


def _with_backend(services: Services, models: list[ChatModel]) -> list[dict[str, Any]]:
    return [{**msgspec.to_builtins(model), "backend": services.backend.name} for model in models]
