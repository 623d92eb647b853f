"""One tool for one caller, outside any turn: the flow in which a client drives the tools itself.

The same tools, owners and permits as in a turn; whom a turn would ask must be able to answer for themselves. Knows
neither routes nor what tools do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pilothouse.core.auth.policy import Action, require
from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.calls import Offered
from pilothouse.core.tools.policy import Mode
from pilothouse.core.tools.spec import Permit, ToolAnswer, ToolContext, ToolSpec
from pilothouse.engine.chats.chats import Chats
from pilothouse.engine.chats.values import ChatView
from pilothouse.engine.tools.arguments import checked
from pilothouse.engine.tools.journal import Call
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import Denied, NotFound


class DirectTools:
    """Runs tools for whoever asks."""

    def __init__(self, chats: Chats, tools: ToolRegistry) -> None:
        self._chats = chats
        self._tools = tools

    async def offered(self, principal: Principal) -> tuple[ToolSpec, ...]:
        """By name: what ``run`` may be asked for outside any chat, where there is no workspace."""
        offered = self._tools.offered(Mode.CHAT, user=await self._chats.permits(principal))
        found = await self._tools.named(each.name for each in offered if each.permit is not Permit.DENY)
        return tuple(spec for spec in found if not spec.of_workspace)

    async def run(
        self,
        name: str,
        arguments: Mapping[str, Any],
        principal: Principal,
        *,
        chat_id: str | None = None,
        call_id: str = "",
        workflow_id: str | None = None,
        door: str = "mcp",
    ) -> ToolAnswer:
        """Run a tool, in the mode, with the permits and on the workflow and the workspace of a chat where one is named;
        for no longer than a turn would. The call is recorded before it has an effect, and its end after; ``door`` is
        how it came in.

        Raises ``NotFound`` for a chat or a tool, ``BadInput`` for its arguments, ``Denied`` for a tool that is not
        permitted, ``NeedsScope`` for one that a person would be asked about, ``StoreFailed`` where it cannot be
        recorded: then nothing was done."""
        chat = await self._chats.get(chat_id, principal) if chat_id is not None else ChatView(id="", owner="")
        mode = chat.mode or Mode.CHAT
        offered = self._offered(name, self._tools.offered(mode, chat.permits, await self._chats.permits(principal)))
        if offered.permit is Permit.DENY:
            raise Denied(f"the tool {name} is not permitted")
        if offered.permit is Permit.ASK:
            require(principal, Action.ANSWER_APPROVALS)
        context = ToolContext(
            owner=principal.name,
            chat_id=chat.id,
            call_id=call_id,
            mode=mode,
            workflow_id=workflow_id or chat.workflow_id or "",
            workspace=chat.workspace or "",
        )
        arguments = checked(arguments)
        if self._tools.journal is None:
            return await self._run(name, arguments, context, offered)
        call = Call(
            owner=principal.name,
            door=door,
            tool=name,
            arguments=await self._tools.hidden(principal.name, arguments),
            chat_id=chat.id,
            call_id=call_id,
            key_id=principal.key_id,
        )
        async with self._tools.journal.recorded(call) as recording:
            recording.answer = await self._run(name, arguments, context, offered)
        return recording.answer

    async def _run(self, name: str, arguments: Mapping[str, Any], context: ToolContext, offered: Offered) -> ToolAnswer:
        seconds = offered.timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                return await self._tools.run(name, arguments, context)
        except TimeoutError:
            return ToolAnswer(ok=False, error=f"{name} took longer than {seconds:g} s")

    def _offered(self, name: str, offered: tuple[Offered, ...]) -> Offered:
        for each in offered:
            if each.name == name:
                return each
        if self._tools.get(name) is not None:
            raise Denied(f"the tool {name} is not offered in this mode")
        raise NotFound(f"there is no tool {name!r}")
