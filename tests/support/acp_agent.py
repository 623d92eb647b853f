"""An agent that speaks the Agent Client Protocol and does what a JSON file says: ``python acp_agent.py FILE``.

Built on the agent side of the official library, so that our side is held against somebody else's reading of the
protocol. What it was told goes to the file that ``heard`` names, a JSON line for each request.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema

ASKING = [
    schema.PermissionOption(option_id="forever", name="Always", kind="allow_always"),
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Agent:
    """``part``: ``steps`` of a prompt, each a list of a verb and what it needs; ``stop`` its stop reason; ``usage``,
    ``meta`` of the answer; ``initialize``, ``new`` fields of those answers; ``errors`` by method: code, message, data;
    ``key`` the variable without which it wants to be logged in to."""

    def __init__(self, part: dict[str, Any]) -> None:
        self._part = part
        self._client: Any = None
        self._canceled = asyncio.Event()
        self._logged_in = "key" not in part

    def on_connect(self, client: Any) -> None:
        self._client = client

    def _hear(self, method: str, **params: Any) -> None:
        if "heard" in self._part:
            with Path(self._part["heard"]).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"method": method, **params}) + "\n")
        if error := self._part.get("errors", {}).get(method):
            raise acp.RequestError(*error)

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        self._hear("initialize", protocolVersion=protocol_version)
        if self._part.get("mute"):
            await asyncio.Event().wait()
        return schema.InitializeResponse.model_validate({"protocolVersion": 1, **self._part.get("initialize", {})})

    async def authenticate(self, method_id: str, **_: Any) -> None:
        self._hear("authenticate", methodId=method_id)
        self._logged_in = True

    async def new_session(self, cwd: str, **more: Any) -> schema.NewSessionResponse:
        folders = more.get("additional_directories")
        self._hear("new_session", cwd=cwd, folders=folders, environment=sorted(os.environ), **_servers(more))
        if not self._logged_in:
            raise acp.RequestError.auth_required()
        return schema.NewSessionResponse.model_validate({"sessionId": "s-1", **self._part.get("new", {})})

    async def load_session(self, cwd: str, session_id: str, **more: Any) -> schema.LoadSessionResponse:
        self._hear("load_session", sessionId=session_id, **_servers(more))
        await self._client.session_update(session_id, acp.update_agent_message_text("said long ago"))
        return schema.LoadSessionResponse()

    async def resume_session(self, session_id: str, **more: Any) -> schema.ResumeSessionResponse:
        self._hear("resume_session", sessionId=session_id, **_servers(more))
        return schema.ResumeSessionResponse()

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        self._hear("set_config_option", id=config_id, value=value)
        return schema.SetSessionConfigOptionResponse.model_validate(
            {"configOptions": self._part.get("new", {}).get("configOptions", [])}
        )

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._hear("cancel")
        self._canceled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        self._hear("prompt", text="".join(block.text for block in prompt))
        for verb, *args in self._part.get("steps", []):
            await getattr(self, f"_{verb}")(session_id, *args)
        return schema.PromptResponse.model_validate(
            {
                "stopReason": "cancelled" if self._canceled.is_set() else self._part.get("stop", "end_turn"),
                "usage": self._part.get("usage"),
                "_meta": self._part.get("meta"),
            }
        )

    async def _update(self, session: str, update: dict[str, Any]) -> None:
        """Any update, as it is on the wire."""
        validated = schema.SessionNotification.model_validate({"sessionId": session, "update": update})
        await self._client.session_update(session, validated.update)

    async def _say(self, session: str, text: str) -> None:
        await self._client.session_update(session, acp.update_agent_message_text(text))

    async def _ask(
        self, session: str, call_id: str, kind: str, path: str = "", more: dict[str, Any] | None = None
    ) -> None:
        """Ask for a tool, and say what the answer was; a cancel is heard meanwhile. ``more``: fields of the call."""
        call: dict[str, Any] = {
            "toolCallId": call_id,
            "title": f"{kind} {path}",
            "kind": kind,
            "rawInput": {"path": path},
            **(more or {}),
        }
        if path:
            call["locations"] = [{"path": path}]
        answer = await self._client.request_permission(session, schema.ToolCallUpdate.model_validate(call), ASKING)
        chosen = answer.outcome
        said = chosen.option_id if isinstance(chosen, schema.AllowedOutcome) else chosen.outcome
        await self._say(session, f"{call_id}: {said}\n")
        status = "failed" if said == "no" else "completed"
        await self._update(session, {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "status": status})

    async def _ask_at_once(self, session: str, *calls: list[Any]) -> None:
        await asyncio.gather(*(self._ask(session, *call) for call in calls))

    async def _write(self, session: str, path: str, content: str) -> None:
        try:
            await self._client.write_text_file(session, path, content)
            await self._say(session, f"wrote {Path(path).name}\n")
        except acp.RequestError as error:
            await self._say(session, f"refused: {error}\n")

    async def _read(self, session: str, path: str, *lines: int) -> None:
        try:
            answer = await self._client.read_text_file(session, path, *lines)
            await self._say(session, f"read {answer.content}\n")
        except acp.RequestError as error:
            await self._say(session, f"refused: {error} ({error.code})\n")

    async def _print(self, session: str, text: str, times: int = 1) -> None:
        """What is no message, on standard output."""
        sys.stdout.write(f"{text}\n" * times)
        sys.stdout.flush()

    async def _complain(self, session: str, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    async def _terminal(self, session: str) -> None:
        try:
            await self._client.create_terminal(session, "true")
        except acp.RequestError as error:
            await self._say(session, f"no terminal ({error.code})\n")

    async def _wait(self, session: str) -> None:
        """Until it is canceled."""
        await self._canceled.wait()

    async def _die(self, session: str, status: int) -> None:
        os._exit(status)

    async def _stay(self, session: str) -> None:
        """From here on it neither leaves when its work is done nor heeds a polite signal."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._part["stay"] = True


def _servers(more: dict[str, Any]) -> dict[str, Any]:
    """The servers of tools that a session is opened with."""
    return {"servers": [(one.name, one.command, *one.args, *one.env) for one in more.get("mcp_servers") or ()]}


async def main() -> None:
    part = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    agent = Agent(part)
    # What it lacks is answered with "method not found".
    await acp.run_agent(cast(acp.Agent, agent), use_unstable_protocol=True)
    if part.get("stay"):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
