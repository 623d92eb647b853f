"""What one may ask of a turn: its result, its end, and what to do about its tool calls.

A turn that a principal may not see is not there for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from pilothouse.core.auth.policy import POLICY, Action, reaches, require
from pilothouse.core.auth.principals import Principal
from pilothouse.core.chat.inputs import Confirm, Steer
from pilothouse.core.chat.result import TurnResult, result_of
from pilothouse.core.chat.state import TurnState
from pilothouse.core.run.inputs import Stop
from pilothouse.core.run.lifecycle import OPEN, TERMINAL, TERMINAL_EVENTS
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.chats.confirmations import EXECUTED, Tell
from pilothouse.engine.chats.turns import TURN, ChatTurns, check_steering
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.ports import EventStore
from pilothouse.errors import BadInput, Gone, NotFound, Refused, Unavailable

_LOOK_EVERY_S = 1.0
"""Who waits for an end looks this often whether it can still come."""

DECISIONS = frozenset({"accepted", "rejected", "background"})


class ChatControl:
    """Turns by id, and by their chat's where that can only mean the live one."""

    def __init__(
        self, supervisor: Supervisor, store: EventStore, turns: ChatTurns, confirm: Tell | None = None
    ) -> None:
        """``confirm``: how a turn that is not over is told of a decision, wherever it is driven."""
        self._supervisor = supervisor
        self._confirm = confirm or supervisor.tell
        self._store = store
        self._turns = turns

    async def row(self, turn_id: str, principal: Principal, action: Action = Action.READ_CHATS) -> RunRow:
        """Raises ``NotFound``, ``Gone``."""
        try:
            row = await self._store.row(turn_id)
        except (Gone, NotFound):
            if principal.only is None:
                raise
            raise NotFound(f"there is no turn {turn_id}") from None  # nobody can say any more whose it was
        if row.kind != TURN or not reaches(principal, action, row.owner):
            raise NotFound(f"there is no turn {turn_id}")
        return row

    async def result(self, turn_id: str, principal: Principal) -> TurnResult:
        await self.row(turn_id, principal)
        return await self._supervisor.read(turn_id, lambda state, _: result_of(state))

    async def wait(self, turn_id: str, principal: Principal, timeout_s: float | None) -> TurnResult:
        row = await self.row(turn_id, principal)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended(row)
        return await self.result(turn_id, principal)

    async def _ended(self, row: RunRow) -> None:
        """Raises ``Gone`` when it is deleted meanwhile, ``Unavailable`` when nobody drives it any more."""
        if row.lifecycle in TERMINAL:
            return
        async with contextlib.aclosing(self._supervisor.hub.pages(row.id, row.seq, _LOOK_EVERY_S)) as pages:
            async for page in pages:
                events = (recorded.event.type_name() for batch in page for recorded in batch.recorded)
                if not TERMINAL_EVENTS.isdisjoint(events):
                    return
                if not page and (why := self._supervisor.halted(row.id)) is not None:
                    raise Unavailable(f"the turn does not go on for now: {why}")

    async def live(self, id: str, principal: Principal, action: Action) -> RunRow | None:
        """The turn of that id, or the live one of the chat of that id. Raises ``NotFound`` for neither."""
        with contextlib.suppress(NotFound):
            row = await self.row(id, principal, action)
            return row if row.lifecycle not in TERMINAL else None
        newest = await self._store.rows(kind=TURN, session_id=id, limit=1)
        if not newest or not reaches(principal, action, newest[0].owner):
            raise NotFound(f"there is no turn or chat {id}")
        return await self._turns.live(id)

    async def abort(self, id: str, principal: Principal) -> str | None:
        row = await self.live(id, principal, Action.SEND)
        if row is None:
            return None
        self._supervisor.close_gate(row.id)
        await self._supervisor.tell(row.id, Stop())
        return row.id

    async def steer(self, id: str, principal: Principal, content: str, steering_id: str) -> str:
        check_steering(content)
        row = await self.live(id, principal, Action.SEND)
        if row is None:
            raise Refused("nothing goes on any more; send it as a message")
        await self._supervisor.tell(row.id, Steer(steering_id=steering_id, content=content, by=principal.name))
        return steering_id

    async def confirm(
        self,
        principal: Principal,
        tool_call_id: str,
        status: str,
        *,
        turn_id: str | None,
        arguments: dict[str, Any] | None,
        scope: str,
        message: str,
        result: Any,
        error: str,
    ) -> str:
        if status not in DECISIONS | EXECUTED:
            fix = f"one of {', '.join(sorted(DECISIONS | EXECUTED))}"
            raise BadInput(f"{status!r} is no decision", field="status", fix=fix)
        action = Action.ANSWER_APPROVALS if status in DECISIONS else Action.SEND
        require(principal, action)
        row = await self._of_call(tool_call_id, turn_id, principal, action)
        given = Confirm(
            tool_call_id=tool_call_id,
            status=status,
            by=principal.name,
            arguments=arguments,
            scope=scope,
            message=message,
            result=result,
            error=error,
            may_decide=principal.may(POLICY[Action.ANSWER_APPROVALS].scope),
        )
        tell = self._confirm if row.lifecycle in OPEN else self._supervisor.tell
        await tell(row.id, given)
        return row.id

    async def _of_call(self, call_id: str, turn_id: str | None, principal: Principal, action: Action) -> RunRow:
        """The turn of a call: ids of calls are unique within their turn only."""
        if turn_id is not None:
            return await self.row(turn_id, principal, action)
        rows = await self._store.rows(kind=TURN, lifecycles=OPEN, owner=principal.only, limit=10_000)
        found = [row for row in rows if await self._supervisor.read(row.id, lambda state, _: _lives(state, call_id))]
        if len(found) > 1:
            fix = f"give turnId, one of {', '.join(row.id for row in found)}"
            raise BadInput("several turns have a call of this id", field="toolCallId", fix=fix)
        if not found:
            raise NotFound(f"no tool call {call_id!r} waits for anything")
        return found[0]


def _lives(state: TurnState, call_id: str) -> bool:
    return call_id in state.live
