"""Performing a turn's effects: the table from effect to what does it.

Nothing here can hold up a turn: a tool has its watchdog, whoever is told something has a bound, and what ignores its
cancellation is left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from pilothouse.core.chat.calls import BackendEnd
from pilothouse.core.chat.effects import (
    AbortBackend,
    AnswerBackend,
    CallBackend,
    CallEnded,
    MakeTitle,
    RememberPermit,
    ReportTool,
    RunTool,
    SteerBackend,
    Title,
    TookTooLong,
)
from pilothouse.core.chat.request import ToolReport
from pilothouse.core.run.contract import Effect, Ended, Failed, Timer
from pilothouse.core.tools.spec import Permit, ToolAnswer, ToolContext
from pilothouse.engine.answering.backend import AgentTurns
from pilothouse.engine.chat_ports import Backend
from pilothouse.engine.chats.documents import TITLE_LENGTH, ChatDocument, ChatDocuments, Titled, first_words
from pilothouse.engine.chats.history import ChatHistory
from pilothouse.engine.chats.requests import ChatRequests
from pilothouse.engine.driving.effects import Done, Within
from pilothouse.engine.driving.patience import Patience, TooLong
from pilothouse.engine.driving.timers import time_up
from pilothouse.engine.ports import Clock
from pilothouse.engine.tools.registry import ToolRegistry
from pilothouse.errors import BackendFailed, NotFound

T = TypeVar("T")

ABORT_S = 3.0
"""How long a backend may take to hear of a stop: nobody who stops waits longer for it."""
TELL_S = 30.0
"""The same of anything else it is told once."""
REPORT_FIRST_PAUSE_S = 0.25
REPORT_LONGEST_PAUSE_S = 30.0
REPORT_GIVE_UP_S = 300.0
"""A backend that could not be told for so long has given up its stream."""
ANSWER_TRIES = 5


class TurnEffects:
    """The performer of turns."""

    def __init__(
        self, backend: Backend, tools: ToolRegistry, documents: ChatDocuments, history: ChatHistory, clock: Clock
    ) -> None:
        self._backend = backend
        self._tools = tools
        self._documents = documents
        self._clock = clock
        self._patience = Patience()
        self._requests = ChatRequests(backend, tools, history, self._patience)

    async def __call__(self, effect: Effect, within: Within) -> msgspec.Struct:
        match effect:
            case CallBackend() if effect.backend != self._backend.name:
                return self._changed(effect)
            case CallBackend() if isinstance(self._backend, AgentTurns):
                return await self._backend.perform(effect, within)
            case CallBackend():
                return await self._requests.perform(effect, within)
            case RunTool():
                return await self._run_tool(effect, within)
            case ReportTool():
                return await self._wait(self._report(effect), within)
            case MakeTitle():
                return await self._title(effect, within)
            case AbortBackend():
                return await self._tell(self._backend.abort(effect), within, ABORT_S)
            case SteerBackend():
                return await self._tell(self._backend.steer(effect), within, TELL_S)
            case AnswerBackend():
                return await self._wait(self._answer(effect), within)
            case RememberPermit():
                return await self._remember(effect)
            case Timer():
                return await within.unless_unwanted(time_up(self._clock, effect.until))
        raise TypeError(f"no performer for {type(effect).__name__}")

    def _changed(self, effect: CallBackend) -> CallEnded:
        """What a turn was begun with holds until its end: neither its checkpoints nor who runs its tools would fit."""
        error = f"The turn was begun with the backend {effect.backend}, and by now it is {self._backend.name}"
        return CallEnded(end=BackendEnd.FAILED, error=f"{error}; send the message again", code="backend_changed")

    async def _wait(self, work: Coroutine[Any, Any, T], within: Within) -> T | Ended:
        return await self._patience.wait(work, within.unwanted)

    async def _tell(self, telling: Coroutine[Any, Any, None], within: Within, limit_s: float) -> Done | Failed | Ended:
        told = await self._patience.wait(telling, within.unwanted, limit_s)
        if isinstance(told, TooLong):
            return Failed(error=f"the backend did not answer within {limit_s:g} s")
        return told or Done()

    async def _run_tool(self, effect: RunTool, within: Within) -> ToolAnswer | TookTooLong | Ended:
        context = ToolContext(
            owner=effect.owner,
            turn_id=effect.turn_id,
            chat_id=effect.chat_id,
            message_id=effect.message_id,
            call_id=effect.tool_call_id,
            mode=effect.mode,
            workflow_id=effect.workflow_id,
            workspace=effect.workspace,
            asked_at=effect.asked_at,
        )
        work = self._tools.run(effect.name, effect.arguments, context)
        answer = await self._patience.wait(work, within.unwanted, effect.timeout_ms / 1000)
        return TookTooLong() if isinstance(answer, TooLong) else answer

    async def _report(self, effect: ReportTool) -> Done:
        """Until the backend has it. Raises ``BackendFailed`` when it certainly never will, or has not for too long."""
        report = ToolReport(
            turn_id=effect.turn_id,
            tool_call_id=effect.tool_call_id,
            name=effect.name,
            status=effect.status,
            message=effect.message,
            data=effect.data,
        )
        pause, waited = REPORT_FIRST_PAUSE_S, 0.0
        while True:
            try:
                await _bounded(self._backend.report(report))
                return Done()
            except BackendFailed as error:
                rest = max(pause, error.retry_after_ms / 1000)
                if not error.transient or waited + rest > REPORT_GIVE_UP_S:
                    raise
            await self._clock.sleep(rest)
            waited += rest
            pause = min(2 * pause, REPORT_LONGEST_PAUSE_S)

    async def _answer(self, effect: AnswerBackend) -> Done:
        """The agent waits for nothing else, and asks nobody again. Raises ``BackendFailed`` when it cannot be told."""
        for left in reversed(range(ANSWER_TRIES)):
            try:
                await _bounded(self._backend.answer(effect))
                break
            except BackendFailed as error:
                if not error.transient or not left:
                    raise
            await self._clock.sleep(1.0)
        return Done()

    async def _title(self, effect: MakeTitle, within: Within) -> Title | Ended:
        """A backend that makes none leaves the first words of the message."""
        try:
            made = await self._patience.wait(self._backend.title(effect), within.unwanted, TELL_S)
        except BackendFailed:
            made = ""
        if isinstance(made, Ended):
            return made
        title = "" if isinstance(made, TooLong) else " ".join(made.split()).strip("\"'")[:TITLE_LENGTH].rstrip()
        if title:
            await self._change(effect.chat_id, lambda chat: chat.entitled(title, Titled.BACKEND))
        return Title(title=title or first_words(effect.message))

    async def _remember(self, effect: RememberPermit) -> Done:
        if effect.scope == "always":
            await self._documents.set_permit(effect.owner, effect.tool, Permit.ALLOW)
        else:
            allowed = {effect.tool: Permit.ALLOW}
            await self._change(
                effect.chat_id, lambda chat: msgspec.structs.replace(chat, permits={**chat.permits, **allowed})
            )
        return Done()

    async def _change(self, chat_id: str, change: Callable[[ChatDocument], ChatDocument]) -> None:
        try:
            await self._documents.change(chat_id, change)
        except NotFound:
            pass  # it was deleted meanwhile


async def _bounded(telling: Coroutine[Any, Any, None]) -> None:
    """One try. Raises ``BackendFailed`` also when it takes too long, which may be better the next time."""
    try:
        async with asyncio.timeout(TELL_S):
            await telling
    except TimeoutError:
        raise BackendFailed(f"it did not answer within {TELL_S:g} s", transient=True) from None
