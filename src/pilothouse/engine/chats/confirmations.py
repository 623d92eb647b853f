"""Decisions about tool calls, from whichever process they were made in to the one that drives the turn.

The log decides which of several decisions counts. One that was made elsewhere is kept under ``tool_call:{turn}:{call}``
until it was taken or is void, for a day at most, and signalled; the owner of the turn takes what is kept first, and
says what became of each. A signal may be lost: the owner also looks now and then at what is kept. Knows neither tools
nor doors, nor how signals are kept from those who may not give any.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from pilothouse.core.chat.inputs import Confirm
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.chat_ports import Signals
from pilothouse.errors import BadInput, Gone, NotFound, PilothouseError, Refused, Unavailable

log = logging.getLogger(__name__)

CHANNEL = "confirmations"
KEPT_S = 24 * 3600.0
ANSWER_WITHIN_S = 5.0
"""How long the owner of a turn may take to say what became of a decision."""
LOOK_EVERY_S = 5.0
_REMEMBERED = 1000

EXECUTED = frozenset({"success", "error"})
"""What a client says of a call that it executed. It is told again rather than kept: nobody would look for it."""
_VOID = (Refused, BadInput, NotFound, Gone)
"""What a turn says of a decision that will never count. Anything else may pass: a full disk, a server that closes."""

T = TypeVar("T")

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
        self._decided: OrderedDict[str, None] = OrderedDict()
        """Calls that were decided here: who asks when their turn is over is told so, since nobody drives it then."""

    async def confirm(self, turn_id: str, given: Confirm) -> None:
        """Decide about a call of a turn that is not over. Returns once it is in the log.

        Raises ``Refused`` when it was decided already, ``BadInput``, and ``Unavailable`` when whoever drives the turn
        says nothing: then the first decision is kept, and counts as soon as they look; a result is to be told again."""
        if self._drives(turn_id) or not self._shared:
            await self._tell(turn_id, given)
            _remember(self._decided, key(turn_id, given.tool_call_id))
            return
        decision = msgspec.json.encode(Decision(turn_id=turn_id, confirm=given))
        place = key(turn_id, given.tool_call_id)
        async with self._signals.listen(_answers(decision)) as answers:
            kept = given.status not in EXECUTED and (
                await self._signals.keep(place, decision, KEPT_S) or await self._signals.kept(place) == decision
            )
            await self._signals.publish(CHANNEL, decision)
            try:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    outcome = msgspec.json.decode(await anext(answers), type=Outcome)
            except TimeoutError:
                raise self._unanswered(given, kept) from None
        if not outcome.ok:
            raise _refusal(outcome)

    def _unanswered(self, given: Confirm, kept: bool) -> PilothouseError:
        silent = "nobody who drives this turn answers"
        if given.status in EXECUTED:
            return Unavailable(f"{silent}; tell it again")
        if not kept:
            return Refused(f"{silent}, and another decision about the call was made before")
        return Unavailable(f"{silent}; the decision is kept, and counts once they look and the call still waits for it")

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
            await self._take(message)

    async def _look(self) -> None:
        """Take what waits here and was decided, should its signal have been lost."""
        while True:
            try:
                for row in await self._waiting():
                    for wait in row.waits:
                        if self._drives(row.id) and (kept := await self._signals.kept(key(row.id, wait.scope))):
                            await self._take(kept)
            except PilothouseError as error:
                log.warning("confirmations.not-looked: %s", error)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _take(self, message: bytes) -> None:
        """Take a decision about a turn that is driven here; before it the one that was kept first."""
        try:
            decision = msgspec.json.decode(message, type=Decision)
        except msgspec.DecodeError as error:
            log.warning("confirmations.not-understood: %s", error)
            return
        place = key(decision.turn_id, decision.confirm.tool_call_id)
        if not self._drives(decision.turn_id):
            if place in self._decided:
                await self._say(
                    message, Outcome(ok=False, code=Refused.code, message="the call has been decided"), place
                )
            return
        async with self._taking:
            first = await self._signals.kept(place)
            if first is not None and first != message:
                await self._settle(first, place)
            await self._settle(message, place)

    async def _settle(self, message: bytes, place: str) -> None:
        """Tell the turn, and whoever asks what became of it. It stays kept while it may count later."""
        try:
            decision = msgspec.json.decode(message, type=Decision)
            if place != key(decision.turn_id, decision.confirm.tool_call_id):
                raise BadInput("it is kept in the place of another")
            if message not in self._taken:  # or it is a signal and was kept, or is asked about again
                await self._tell(decision.turn_id, decision.confirm)
                _remember(self._taken, message)
                _remember(self._decided, place)
            outcome, over = Outcome(ok=True), True
        except msgspec.DecodeError as error:
            outcome, over = Outcome(ok=False, code=BadInput.code, message=str(error)), True
        except PilothouseError as error:
            outcome, over = Outcome(ok=False, code=error.code, message=str(error)), isinstance(error, _VOID)
        except Exception as error:  # a bug that one decision meets must not keep all others from being taken
            log.exception("confirmations.crashed")
            why = f"internal error: {type(error).__name__}"
            outcome, over = Outcome(ok=False, code=Unavailable.code, message=why), False
        await self._say(message, outcome, place if over else "")

    async def _say(self, message: bytes, outcome: Outcome, settled: str) -> None:
        """``settled``: where it need not be kept any more."""
        if settled and await self._signals.kept(settled) == message:
            await self._signals.forget(settled)
        await self._signals.publish(_answers(message), msgspec.json.encode(outcome))


def _remember(things: OrderedDict[T, None], thing: T) -> None:
    things[thing] = None
    if len(things) > _REMEMBERED:
        things.popitem(last=False)


def key(turn_id: str, call_id: str) -> str:
    """Under which a decision is kept."""
    return f"tool_call:{turn_id}:{call_id}"


def _answers(decision: bytes) -> str:
    """Where it is said what became of a decision, to all who made the same one."""
    return f"confirmed:{hashlib.sha256(decision).hexdigest()[:32]}"


def _refusal(outcome: Outcome) -> PilothouseError:
    """As it was raised; what may pass, as something that is not available now."""
    for kind in _VOID:
        if outcome.code == kind.code:
            return kind(outcome.message)
    return Unavailable(outcome.message)
