"""What one may ask of any run, whatever its kind: the control verbs, stop everything, answers to what waits."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from pilothouse.core.chat.inputs import Steer
from pilothouse.core.run.events import Source
from pilothouse.core.run.inputs import Answer, Cancel, Input, Pause, Resume, Retry, Stop
from pilothouse.core.run.lifecycle import OPEN, TERMINAL, Lifecycle
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.chats.turns import TURN, ChatTurns, check_steering
from pilothouse.engine.driving.supervisor import Supervisor
from pilothouse.engine.ports import EventStore
from pilothouse.errors import BadInput, Gone, NotFound, Refused

VERBS: dict[str, Input] = {
    "stop": Stop(),
    "cancel": Cancel(),
    "pause": Pause(),
    "resume": Resume(),
    "retry": Retry(),
    "discard": Cancel(reason="discarded"),
}

_GO_ON = frozenset({"resume", "retry"})

KNOWN_ELSEWHERE = {
    "steer": "only a chat turn can be steered",
    "skip": "only a task run has steps to skip",
    "takeover": "only a task run with a browser can be taken over",
    "release": "only a task run with a browser can be released",
}


class Runs:
    """Control over runs by id."""

    def __init__(self, supervisor: Supervisor, store: EventStore, turns: ChatTurns | None = None) -> None:
        """``turns``: what keeps the turns of one conversation apart."""
        self._supervisor = supervisor
        self._store = store
        self._turns = turns or ChatTurns(store)

    async def control(self, run_id: str, verb: str, *, content: str = "", by: str = "") -> RunRow:
        """Apply a verb and wait until it is in the log (a stop: until it is acknowledged). Answers the row after it.
        ``content`` is what ``steer`` says, ``by`` who says it.

        Raises ``NotFound``, ``Gone``, ``Refused`` when the verb does not apply, ``BadInput`` for an unknown one."""
        if verb in KNOWN_ELSEWHERE:
            row = await self._store.row(run_id)
            if verb == "steer" and row.kind == TURN:
                return await self._steer(row, content, by)
            raise Refused(f"{verb} does not apply to a {row.kind}: {KNOWN_ELSEWHERE[verb]}")
        given = VERBS.get(verb)
        if given is None:
            raise BadInput(f"{verb!r} is no verb", field="verb", fix=f"one of {', '.join(VERBS)}")
        if verb == "discard":
            row = await self._store.row(run_id)
            if row.lifecycle not in TERMINAL or row.lifecycle is Lifecycle.SUCCEEDED:
                raise Refused(f"only an interrupted run can be discarded; this one is {row.lifecycle.lower()}")
        if verb in _GO_ON and (row := await self._store.row(run_id)).kind == TURN:
            async with self._turns.going_on(row):
                await self._supervisor.tell(run_id, given)
        else:
            await self._supervisor.tell(run_id, given)
        return await self._store.row(run_id)

    async def _steer(self, row: RunRow, content: str, by: str) -> RunRow:
        check_steering(content)
        digest = hashlib.sha256(f"{row.seq}\0{content}".encode("utf-8", "surrogatepass")).hexdigest()
        await self._supervisor.tell(row.id, Steer(steering_id=digest[:32], content=content, by=by))
        return await self._store.row(row.id)

    async def stop_everything(self, session_id: str | None = None, *, owner: str | None = None) -> list[RunRow]:
        """Stop every live run, of a session, an owner or the whole server, all gates first. Answers what was stopped.

        Raises the failure of one that could not be stopped, when all the others have been."""
        rows = await self._store.rows(lifecycles=OPEN, owner=owner, session_id=session_id, limit=1_000_000)
        for row in rows:
            self._supervisor.close_gate(row.id)
        stops = await asyncio.gather(*(self._stop(row.id) for row in rows), return_exceptions=True)
        failures = [error for error in stops if isinstance(error, BaseException)]
        if failures:
            raise failures[0]
        return [row for row in stops if isinstance(row, RunRow)]

    async def _stop(self, run_id: str) -> RunRow | None:
        """The row after it; None for a run that is gone."""
        try:
            await self._supervisor.tell(run_id, Stop(source=Source.USER))
            return await self._store.row(run_id)
        except (NotFound, Gone):
            return None

    async def waits(self, owner: str | None = None) -> list[RunRow]:
        """Runs, of an owner or of all, with something that waits for a person, newest first."""
        return await self._store.rows(waiting=True, owner=owner)

    async def answer(
        self,
        wait_id: str,
        answer: str,
        by: str,
        *,
        owner: str | None = None,
        arguments: dict[str, Any] | None = None,
        message: str = "",
    ) -> RunRow:
        """Answer an open wait by its id; with ``owner`` one of theirs. ``arguments``: what a tool that asked is to be
        used with instead; ``message`` is told to whoever asked. Raises ``NotFound``, also when somebody else
        answered first; ``BadInput``."""
        for row in await self.waits(owner):
            if any(wait.id == wait_id for wait in row.waits):
                given = Answer(wait_id=wait_id, answer=answer, by=by, arguments=arguments, message=message)
                await self._supervisor.tell(row.id, given)
                return await self._store.row(row.id)
        raise NotFound(f"nothing waits for an answer under {wait_id!r}")
