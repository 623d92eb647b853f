"""The route of commands: the modes that a turn can run in."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from pilothouse.core.tools.policy import DEFAULTS, Mode
from pilothouse.interfaces.http.describe import answer
from pilothouse.interfaces.http.wire import Json

_SAID: dict[Mode, tuple[str, str, str | None]] = {
    Mode.CHAT: ("Chat", "Talk, and work with every tool.", "agent"),
    Mode.RESEARCH: ("Research", "Look and answer; nothing is changed.", "ask"),
    Mode.CREATE_PLAN: ("Create a plan", "Draft documents; nothing else is changed.", "plan"),
    Mode.REVISE_PLAN: ("Revise the plan", "Change what was drafted; nothing else is changed.", None),
    Mode.IMPLEMENT_SIMPLE: ("Implement something simple", "Do a small change with every tool.", None),
    Mode.IMPLEMENT_COMPLEX: ("Implement something complex", "Do a large change with every tool.", None),
}


def make_commands() -> APIRouter:
    router = APIRouter(prefix="/api", tags=["commands"])

    @router.get("/commands", responses=answer({"commands": [_command(Mode.RESEARCH)]}))
    async def list_commands() -> Response:
        """The commands that a message can be sent with, and what their tools may touch. `mode` is the chat's word."""
        return Json({"commands": [_command(mode) for mode in Mode]})

    return router


def _command(mode: Mode) -> dict[str, Any]:
    title, description, word = _SAID[mode]
    touches = {touched.value: permit.value for touched, permit in DEFAULTS[mode].items()}
    return {"id": mode, "title": title, "description": description, "mode": word, "touches": touches}
