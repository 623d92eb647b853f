"""An agent that uses the tools it is given: ``python calling_agent.py FILE`` does what the file's ``steps`` say, as
``acp_agent`` does, with one verb more.

``["call", tool, arguments]`` calls a tool of the server that the session was opened with, and says what came of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema
from tests.support.acp_agent import Agent

HANDSHAKE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}


class CallingAgent(Agent):
    """It starts the server when it first calls a tool, and leaves it to its fate."""

    _server: Any = None
    _process: asyncio.subprocess.Process | None = None
    _number = 0

    async def new_session(self, cwd: str, **more: Any) -> schema.NewSessionResponse:
        self._server = (more.get("mcp_servers") or [None])[0]
        return await super().new_session(cwd, **more)

    async def _call(self, session: str, tool: str, arguments: dict[str, Any]) -> None:
        if self._process is None:
            command = [self._server.command, *self._server.args]
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=1 << 24)
            await self._asked("initialize", HANDSHAKE)
        answer = await self._asked("tools/call", {"name": tool, "arguments": arguments})
        await self._say(session, _words(answer))

    async def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        await self._process.stdin.drain()
        while line := await self._process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._number:
                return answer
        raise EOFError("the server of tools is gone")


def _words(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return f"[{answer['error']['message']}]"
    result = answer["result"]
    text = "".join(part["text"] for part in result["content"])
    return f"[{text}]" if result.get("isError") else text


async def main() -> None:
    agent = CallingAgent(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    await acp.run_agent(cast(acp.Agent, agent), use_unstable_protocol=True)


if __name__ == "__main__":
    asyncio.run(main())
