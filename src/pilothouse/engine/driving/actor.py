"""One run, driven: inputs in, events appended, effects begun and ended.

The loop is the whole of it: take what has arrived, ``decide``, append, then compare ``todo`` with what is in flight.
It never waits for an effect, only for the log, so a stop is never behind the work. It knows no kind of run.

Three rules make the log tell the truth:

* *Evolve ahead, act behind.* Decisions that follow from one another are folded into this run's private state at once
  and committed together; nothing is dispatched, published, answered or shown before the commit. A failed commit
  throws the state away and halts this run alone.
* *Admit.* An effect is begun only in ``_dispatch``, which runs after the commit of its intent and has no await: the
  gate is looked at and the effect begun in one step.
* *The gate* closes in the very call that asks for a stop, before anything is queued. An intent that was on its way
  to disk at that moment is committed but never begun, and the log says so (``NotStarted``).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pilothouse.core.run.contract import Kind, NotStarted
from pilothouse.core.run.events import Event, Recorded, StopDelayed
from pilothouse.core.run.inputs import Cancel, Grant, Input, Outcome, Progress, Recover, Settle, Stop
from pilothouse.core.run.lifecycle import TERMINAL, Lifecycle
from pilothouse.core.run.registry import Registry
from pilothouse.core.run.rows import RunRow, project
from pilothouse.core.run.segments import Append
from pilothouse.engine.driving.capacity import Capacity
from pilothouse.engine.driving.effects import Performer
from pilothouse.engine.driving.flights import Flights
from pilothouse.engine.driving.hub import Hub
from pilothouse.engine.driving.readers import Readers
from pilothouse.engine.ports import Clock, EventStore
from pilothouse.errors import PilothouseError, StaleOwner, StoreFailed, Unavailable

log = logging.getLogger(__name__)

S = TypeVar("S")
R = TypeVar("R")

STOP_PROMISE_S = 0.5
"""After this long a stop that is not through says in the log what it waits for."""
MOST_ROUNDS = 100_000
"""Of what follows from one input, more than any run needs: where something always follows, which is a bug, the run is
halted; going on would hold up the whole server, until its memory is full."""


@dataclass(slots=True)
class Context:
    """What all actors of a server share."""

    store: EventStore
    registry: Registry
    clock: Clock
    hub: Hub
    capacity: Capacity
    epoch: int


@dataclass(slots=True)
class _Mail:
    given: Input
    reply: asyncio.Future[None] | None = None


class Actor(Generic[S]):
    """Owns one run's state, its place in the log, and its effects in flight."""

    def __init__(
        self,
        context: Context,
        kind: Kind[S],
        performer: Performer,
        state: S,
        row: RunRow | None,
        retire: Callable[[str], None],
    ) -> None:
        self.run_id = kind.common(state).run_id
        self._context = context
        self._kind = kind
        self._state = state
        self._row = row
        self._retire = retire
        self._seq = row.seq if row else 0
        self._slots = kind.slots(state)
        """Held as of the log: what a batch frees is free for others once it is committed."""
        self._mail: deque[_Mail] = deque()
        self._urgent: deque[_Mail] = deque()
        self._bell = asyncio.Event()
        self._stops_asked = 0
        self._gate_closed = False
        self._flights = Flights(self.run_id, context.epoch, performer, self.post, self.ask)
        self._batch: list[Recorded] = []
        self._readers = Readers[S]()
        self._recovering = False
        self._stop_watch: asyncio.Task[None] | None = None
        self._closed = False
        self.halted: Exception | None = None

    # What others may ask.

    def post(self, given: Input) -> None:
        """Tell it something; nobody waits for the answer."""
        self._put(_Mail(given))

    async def ask(self, given: Input) -> None:
        """Tell it something and wait until what follows is in the log. Raises what ``decide`` raises, and
        ``StoreFailed`` when the log cannot be written."""
        if self._closed or self.halted is not None:
            raise Unavailable(f"run {self.run_id} is not being driven here: {self.halted or 'the server is closing'}")
        mail = _Mail(given, asyncio.get_running_loop().create_future())
        assert mail.reply is not None
        self._put(mail)
        await mail.reply

    async def read(self, view: Callable[[S, RunRow], R]) -> R:
        """A view of the committed state, answered by the commit that is on its way: no reader waits for a lull. Raises
        ``Unavailable`` when there will be no other, and what ``view`` raises."""
        answer = self._readers.add(view)
        if self._closed or self._unread or (self._row is not None and not self._batch):
            self._answer_readers()
        return await answer

    def _answer_readers(self) -> None:
        if self._unread or self._row is None:
            why = self.halted or "it was let go"
            self._readers.refuse(Unavailable(f"run {self.run_id} is not being driven here: {why}"))
        else:
            self._readers.show(self._state, self._row)

    def hold(self) -> None:
        """Occupy the slots its working parts hold already, before it is driven."""
        self._context.capacity.ask(self.run_id, self._slots, 0, self._ask_for_slots)

    @property
    def _unread(self) -> bool:
        """Nothing more will be committed here, and the private state may be ahead of the log."""
        return self.halted is not None or (self._closed and bool(self._batch))

    @property
    def in_flight(self) -> tuple[str, ...]:
        return tuple(self._flights)

    def close_gate(self) -> None:
        """Nothing new is begun from here on, until the stop that must follow has been taken."""
        self._gate_closed = True

    def _put(self, mail: _Mail) -> None:
        if isinstance(mail.given, Recover):
            self._urgent.appendleft(mail)  # before any stop: what is to be stopped has to be known first
        elif isinstance(mail.given, Stop | Cancel):
            self._stops_asked += 1
            self._gate_closed = False  # the stop itself keeps it closed now
            self._urgent.append(mail)
        else:
            self._mail.append(mail)
        self._bell.set()

    # The loop.

    async def run(self) -> None:
        """Drive the run until it has ended and nothing of it is in flight, or until cancelled."""
        try:
            while True:
                await self._bell.wait()
                self._bell.clear()
                while self._urgent or self._mail:
                    await self._turn()
                if self._finished():
                    self._retire(self.run_id)  # at once: whoever asks next finds it gone and loads it anew
                    return
        except Exception as error:  # a bug or a refusing disk ends this run's driving, never its neighbours'
            await self._halt(error)
        finally:
            self._closed = True
            await self._let_go()
            self._context.capacity.release(self.run_id)
            self._retire(self.run_id)
            self._answer_readers()

    async def _turn(self) -> None:
        mails = [*self._urgent, *self._mail]
        self._urgent.clear()
        self._mail.clear()
        at = self._context.clock.now_ms()
        replies: list[asyncio.Future[None]] = []
        landed: list[str] = []
        try:
            for mail in mails:
                try:
                    self._take(mail.given, at)
                except PilothouseError as refusal:
                    if mail.reply is None:
                        raise
                    _resolve(mail.reply, refusal)
                    continue
                finally:
                    if isinstance(mail.given, Stop | Cancel):
                        self._stops_asked -= 1
                if mail.reply is not None:
                    replies.append(mail.reply)
                if isinstance(mail.given, Outcome):
                    landed.append(mail.given.key)
            self._withdraw(at)
            await self._commit(at)
        except BaseException as error:
            for mail in mails:
                if mail.reply is not None:
                    _resolve(
                        mail.reply, error if isinstance(error, Exception) else Unavailable("the server is closing")
                    )
            raise
        self._flights.landed(landed)
        self._dispatch()
        for reply in replies:
            _resolve(reply, None)

    def _take(self, given: Input, at: int) -> None:
        """Decide one input and everything that follows from it, ahead of the commit."""
        if isinstance(given, Recover):
            self._recovering = True
        self._fold(self._kind.decide(self._state, given), at)
        self._settle(at)

    def _withdraw(self, at: int) -> None:
        """What was admitted to the log but not begun, because a stop or a cancel came in between, never will be. What
        a last owner may have begun is not withdrawn: it is followed to its end, see ``_dispatch``."""
        while not self._recovering:
            wanted = self._kind.todo(self._state)
            open_keys = self._kind.unfinished(self._state)
            never = [key for key in open_keys if key not in wanted and key not in self._flights]
            if not never:
                return
            for key in never:
                self._fold(self._kind.decide(self._state, Outcome(key=key, result=NotStarted())), at)
            self._settle(at)

    def _settle(self, at: int) -> None:
        for _ in range(MOST_ROUNDS):
            if events := self._kind.decide(self._state, Settle()):
                self._fold(events, at)
                continue
            slots = self._context.capacity.ask(
                self.run_id,
                max(self._slots, self._kind.slots(self._state)),
                self._kind.demand(self._state),
                self._ask_for_slots,
            )
            if not slots:
                return
            self._fold(self._kind.decide(self._state, Grant(slots=slots)), at)
        raise RuntimeError(f"there is no end to what follows, the last of it {self._batch[-1].event.type_name()}")

    def _ask_for_slots(self) -> None:
        self.post(Settle())

    def _fold(self, events: Iterable[Event], at: int) -> None:
        for event in events:
            recorded = Recorded(self.run_id, self._seq + len(self._batch) + 1, at, event)
            self._batch.append(recorded)
            self._state = self._kind.evolve(self._state, recorded)
            self._row = project(self._row, recorded)

    async def _commit(self, at: int) -> None:
        if not self._batch:
            return
        assert self._row is not None
        events = [recorded.event for recorded in self._batch]
        body = self._context.registry.encode(events)
        position = await self._context.store.append(
            Append(
                run_id=self.run_id,
                expected_seq=self._seq,
                epoch=self._context.epoch,
                count=len(events),
                at=at,
                body=body,
                row=self._row,
                durable=any(event.durable for event in events),
            )
        )
        recorded, self._batch = tuple(self._batch), []
        self._seq = recorded[-1].seq
        held, self._slots = self._slots, self._kind.slots(self._state)
        if self._slots < held:
            self._ask_for_slots()
        self._context.hub.publish(position, self.run_id, recorded, size=len(body))
        self._answer_readers()

    # Effects.

    def _dispatch(self) -> None:
        """Begin what should be in flight and is not, end what is and should not be. No await: see *Admit*."""
        common = self._kind.common(self._state)
        gate_open = (
            not self._stops_asked
            and not self._gate_closed
            and common.lifecycle in (Lifecycle.RUNNING, Lifecycle.PAUSING)
        )
        self._flights.match(self._kind.todo(self._state), gate_open)
        if self._recovering:
            # What the last owner had begun is followed to its end all the same, when the run no longer wants it or the
            # gate is closed.
            self._recovering = False
            self._flights.follow(self._kind.unfinished(self._state))
        if common.lifecycle is Lifecycle.STOPPING and self._stop_watch is None:
            self._stop_watch = asyncio.create_task(self._watch_stop())

    async def _watch_stop(self) -> None:
        await self._context.clock.sleep(STOP_PROMISE_S)
        if self._kind.common(self._state).lifecycle is Lifecycle.STOPPING and self._flights:
            self.post(Progress(key="", events=(StopDelayed(waiting_for=self.in_flight),)))

    def _finished(self) -> bool:
        common = self._kind.common(self._state)
        if common.lifecycle is not Lifecycle.STOPPING and self._stop_watch is not None:
            self._stop_watch.cancel()
            self._stop_watch = None
        return common.lifecycle in TERMINAL and not self._flights and not self._urgent and not self._mail

    async def _halt(self, error: Exception) -> None:
        """The log refused, or a bug: nothing of this run is shown or begun from here. What it runs is ended,
        unless a newer owner has taken the run over, whose work it is now."""
        self.halted = error
        self._answer_readers()
        log.error("run.halted", exc_info=error, extra={"run_id": self.run_id})
        if not isinstance(error, StaleOwner):
            await self._flights.end(2 * STOP_PROMISE_S)

    async def _let_go(self) -> None:
        """This process lets go of the run's effects; those that outlive it go on for the next owner."""
        if self._stop_watch is not None:
            self._stop_watch.cancel()
        await self._flights.let_go()
        if self._stop_watch is not None:
            await asyncio.wait((self._stop_watch,))
        for mail in (*self._urgent, *self._mail):
            if mail.reply is not None:
                _resolve(mail.reply, self.halted or StoreFailed("the server is closing"))


def _resolve(reply: asyncio.Future[None], error: Exception | None) -> None:
    if reply.done():
        return
    if error is None:
        reply.set_result(None)
    else:
        reply.set_exception(error)
