"""Decisions about tool calls, from whichever process they were made in to the one that drives the turn.

The log decides which of several decisions counts. A decision that was made elsewhere is kept under
``tool_call:{turn}:{call}`` for a day, where the first one wins, and signalled; the owner of the turn takes it, and says
what became of it. A signal may be lost: the owner also looks now and then at what is kept. Knows neither tools nor
doors; whoever can write to where signals go is trusted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from pilothouse.core.chat.inputs import Confirm
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.chat_ports import Signals
from pilothouse.errors import BadInput, NotFound, PilothouseError, Refused, Unavailable

log = logging.getLogger(__name__)

CHANNEL = "confirmations"
KEPT_S = 24 * 3600.0
ANSWER_WITHIN_S = 5.0
"""How long the owner of a turn may take to say what became of a decision."""
LOOK_EVERY_S = 5.0
_REMEMBERED = 1000

EXECUTED = frozenset({"success", "error"})
"""What a client says of a call that it executed: kept beside the decision to execute it, not in its place."""

Tell = Callable[[str, Confirm], Awaitable[None]]
"""Tell a run, and return when it is in its log."""
Waiting = Callable[[], Awaitable[list[RunRow]]]
"""The turns that wait for a person."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What travels and is kept."""

    turn_id: str
    confirm: Confirm


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a decision; ``code`` and ``message`` are its refusal's."""

    ok: bool
    code: str = ""
    message: str = ""


class Confirmations:
    """One per process. ``taking`` is for one that shares its signals with others."""

    def __init__(
        self, *, signals: Signals, tell: Tell, drives: Callable[[str], bool], waiting: Waiting, shared: bool
    ) -> None:
        """``drives``: whether this process drives a run. ``shared``: whether there can be other processes."""
        self._signals = signals
        self._tell = tell
        self._drives = drives
        self._waiting = waiting
        self._shared = shared
        self._taking = asyncio.Lock()
        self._taken: OrderedDict[bytes, None] = OrderedDict()

    async def confirm(self, turn_id: str, given: Confirm) -> None:
        """Decide about a call of a turn that is not over. Returns once it is in the log.

        Raises ``Refused`` when it was decided already, ``BadInput``, and ``Unavailable`` when whoever drives the turn
        says nothing: then a decision is kept, and counts as soon as they look; a result is to be told again."""
        if self._drives(turn_id) or not self._shared:
            await self._tell(turn_id, given)
            if self._shared:
                await self._signals.keep(_place(turn_id, given), _encoded(turn_id, given), KEPT_S)
            return
        decision = _encoded(turn_id, given)
        async with self._signals.listen(_answers(turn_id, given)) as answers:
            kept = await self._signals.keep(_place(turn_id, given), decision, KEPT_S)
            if not kept and await self._signals.kept(_place(turn_id, given)) != decision:
                raise Refused("the call has been decided")
            await self._signals.publish(CHANNEL, decision)
            try:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    outcome = msgspec.json.decode(await anext(answers), type=Outcome)
            except TimeoutError:
                if given.status in EXECUTED:  # nobody looks for it: no question is open
                    await self._signals.forget(_place(turn_id, given))
                    raise Unavailable("nobody who drives this turn answers; tell it again") from None
                words = "nobody who drives this turn answers; the decision is kept, and counts once they look"
                raise Unavailable(words) from None
        if not outcome.ok:
            raise _refusal(outcome)

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[None]:
        """Take decisions of other processes about turns that are driven here, from the moment this is entered."""
        async with self._signals.listen(CHANNEL) as messages:
            tasks = asyncio.create_task(self._listen(messages)), asyncio.create_task(self._look())
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def _listen(self, messages: AsyncIterator[bytes]) -> None:
        async for message in messages:
            async with self._taking:
                await self._take(message)

    async def _look(self) -> None:
        """Take what waits here and was decided, should its signal have been lost."""
        while True:
            try:
                for row in await self._waiting():
                    for wait in row.waits:
                        async with self._taking:
                            if self._drives(row.id) and (kept := await self._signals.kept(key(row.id, wait.scope))):
                                await self._take(kept)
            except PilothouseError as error:
                log.warning("confirmations.not-looked: %s", error)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _take(self, message: bytes) -> None:
        try:
            decision = msgspec.json.decode(message, type=Decision)
        except msgspec.DecodeError as error:
            log.warning("confirmations.not-understood: %s", error)
            return
        turn_id, given = decision.turn_id, decision.confirm
        if not self._drives(turn_id):
            return
        outcome = Outcome(ok=True)
        try:
            if message not in self._taken:  # or it is a signal and was kept, or is asked about again
                await self._tell(turn_id, given)
                self._taken[message] = None
                if len(self._taken) > _REMEMBERED:
                    self._taken.popitem(last=False)
        except PilothouseError as error:
            outcome = Outcome(ok=False, code=error.code, message=str(error))
            await self._signals.forget(_place(turn_id, given))  # it counts for nothing: another one may
        await self._signals.publish(_answers(turn_id, given), msgspec.json.encode(outcome))


def key(turn_id: str, call_id: str) -> str:
    """Under which a decision is kept."""
    return f"tool_call:{turn_id}:{call_id}"


def _place(turn_id: str, given: Confirm) -> str:
    return f"{key(turn_id, given.tool_call_id)}{_step(given)}"


def _answers(turn_id: str, given: Confirm) -> str:
    return f"confirmed:{turn_id}:{given.tool_call_id}{_step(given)}"


def _step(given: Confirm) -> str:
    return ":executed" if given.status in EXECUTED else ""


def _encoded(turn_id: str, given: Confirm) -> bytes:
    return msgspec.json.encode(Decision(turn_id=turn_id, confirm=given))


def _refusal(outcome: Outcome) -> PilothouseError:
    match outcome.code:
        case BadInput.code:
            return BadInput(outcome.message)
        case NotFound.code:
            return NotFound(outcome.message)
        case Unavailable.code:
            return Unavailable(outcome.message)
    return Refused(outcome.message)
