"""The backend ``agent``: an agent of this machine answers conversations, run as nodes of plans are.

It is a process of the executor: ended for certain when the turn is, left running when this process goes, followed by
the next owner. It has its own tools; for each use that it asks about, the turn asks a person. Its private files, and
so its memory of the conversation, live as long as the chat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from pilothouse.core.chat.backend import BackendEvent, Completed
from pilothouse.core.chat.calls import BackendEnd, CallReason, Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, CallBackend, CallEnded, MakeTitle, SteerBackend
from pilothouse.core.chat.inputs import Heard
from pilothouse.core.chat.message import Message
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.core.plan.effects import AnswerAgent, RunWork
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.run.agents import AgentEnded, Noted, Permissions
from pilothouse.core.run.contract import Ended, Failed
from pilothouse.core.tools.policy import leaves_files
from pilothouse.engine.agents.work import AgentWork, Reading
from pilothouse.engine.answering.known import Known
from pilothouse.engine.answering.prompts import message_of, opening_of
from pilothouse.engine.answering.server import AgentTools
from pilothouse.engine.answering.voice import Voice
from pilothouse.engine.driving.commands import Commands
from pilothouse.engine.driving.effects import Within
from pilothouse.engine.ports import Agents, Clock, Executor, LogStore
from pilothouse.errors import BackendFailed, ExecutorFailed, PilothouseError

NODE = "agent"
"""The node that a chat is to its agent."""
_SCRIPTS = {"scripted": "replies.yaml"}
"""Agents that follow a file of the workspace, which no conversation names."""

CATCH_UP_S = 5.0
"""How long a call of the server's tools waits until the turn has heard what its agent told before it."""

log = logging.getLogger(__name__)

Before = Callable[[str, str], Awaitable[tuple[Message, ...]]]
KnownOf = Callable[[str, int], Awaitable[Known]]


class _AtWork:
    """An agent at work, and how what it tells is heard."""

    def __init__(self, work: RunWork, voice: Voice) -> None:
        self.work = work
        self.voice = voice
        self.reading = Reading()


class AgentTurns:
    """Implements the ``Backend`` port, but for asking: ``perform`` does that, because an agent outlives whoever asks.

    ``folder`` makes the directory of a chat without a workspace, ``remove`` removes it again; both block.
    ``permissions``: what becomes of its requests where it may change things. ``before``: what was said before a turn.
    ``known_of``: how much of a request is in the log. ``tools``: what it is given of the server's own."""

    name = "agent"
    features = Features(own_tools=True)

    def __init__(
        self,
        agent: str,
        agents: Agents,
        executor: Executor,
        logs: LogStore,
        clock: Clock,
        *,
        before: Before,
        known_of: KnownOf,
        folder: Callable[[str], str],
        remove: Callable[[str], None],
        permissions: Permissions = Permissions.ASK,
        model: str = "",
        tools: AgentTools | None = None,
    ) -> None:
        self._agent = agent
        self._work = AgentWork(Commands(executor, clock), agents, logs, clock)
        self._agents = agents
        self._executor = executor
        self._before = before
        self._known_of = known_of
        self._folder = folder
        self._remove = remove
        self._logs = logs
        self._permissions = permissions
        self._model = model
        self._tools = tools
        self._asking: dict[tuple[str, int], _AtWork] = {}
        """Agents at work, by turn and request."""
        self._came = asyncio.Event()
        """Set, and replaced, when there is one more."""

    async def perform(self, call: CallBackend, within: Within) -> CallEnded | Ended:
        """Have the agent answer, and tell the turn all of it. Answers only when no process of it is left."""
        try:
            work = await self._prepared(call, within)
            known = await self._known_of(call.turn_id, call.call) if call.adopted else None
            notes = await self._notes(call)
        except ExecutorFailed as error:
            return _failed(f"the agent could not be started: {error}", transient=True)
        except PilothouseError as error:
            return _failed(str(error), code=error.code)
        session = _session(self._agent, work.permissions)

        async def heard(said: tuple[BackendEvent, ...]) -> None:
            await within.tell(Heard(key=call.key, said=said))

        voice = Voice(heard, call=call.call, session=lambda id: session + id, known=known)
        voice.tell(notes)
        at_work = _AtWork(work, voice)
        self._begin((call.turn_id, call.call), at_work)
        telling = asyncio.create_task(voice.run())
        try:
            ended = await self._work.run(work, within, voice.tell, at_work.reading)
            if isinstance(ended, AgentEnded):
                voice.tell(ended.news)
            voice.end()
            await telling
            if isinstance(ended, AgentEnded) and ended.ok and not within.unwanted.is_set():
                await heard((Completed(),))
        finally:
            del self._asking[call.turn_id, call.call]
            telling.cancel()
            await asyncio.wait((telling,))
        return _outcome(ended, within)

    def _begin(self, asked: tuple[str, int], at_work: _AtWork) -> None:
        self._asking[asked] = at_work
        self._came.set()
        self._came = asyncio.Event()

    async def _notes(self, call: CallBackend) -> list[Noted]:
        """What a conversation is told of once, at its beginning. Raises what reading the log does."""
        trouble = await self._tools.trouble(call) if self._tools and call.reason is CallReason.FIRST else ""
        if not trouble or await self._before(call.turn_id, call.chat_id):
            return []
        return [Noted(text=trouble, level="warning")]

    async def _prepared(self, call: CallBackend, within: Within) -> RunWork:
        """Raises ``BadInput``, ``Unavailable``, ``ExecutorFailed``, and what reading the log does."""
        looks = leaves_files(call.mode)
        permissions = Permissions.DENY if looks else self._permissions
        spec = AgentSpec(agent=self._agent, model=call.model or self._model, script=_SCRIPTS.get(self._agent, ""))
        folder = call.workspace or await asyncio.to_thread(self._folder, call.chat_id)
        resumes = _session(self._agent, permissions)
        remembers = call.conversation_id.startswith(resumes)
        server = await self._tools.server(call) if self._tools is not None else None
        attempt, opening, place = f"{call.turn_id}/{call.call}", "", ""
        if not call.adopted:
            # It may start programs, for which no stop waits: an agent that is unwanted by then is never started.
            await within.unless_unwanted(self._agents.check(spec, permissions))
            before = await self._before(call.turn_id, call.chat_id)
            opening = opening_of(call, before, folder, looks=looks, server=server.name if server else "")
            place = await self._executor.open(attempt, within.epoch)
        return RunWork(
            key=call.key,
            node_id=NODE,
            attempt=call.call,
            phase=Phase.WORK,
            repo=folder,
            spec=spec,
            path=folder,
            place=place,
            output=f"{call.turn_id}/{NODE}/{call.call}/answer",
            plan_env={},
            inherit_env=(),
            plan_id=call.chat_id,
            producer_id=NODE,
            task=message_of(call),
            instructions=opening,
            verbatim=True,
            adopted=call.adopted,
            permissions=permissions,
            session_id=call.conversation_id.removeprefix(resumes) if remembers else "",
            tools=server,
        )

    async def answer(self, answer: AnswerBackend) -> None:
        """Raises ``BackendFailed``; one that passes while its agent has not been found again after a restart."""
        at_work = self._asking.get((answer.turn_id, answer.call))
        if at_work is None:
            raise BackendFailed("the agent does not ask any more", transient=True)
        work = at_work.work
        told = AnswerAgent(
            key=answer.key,
            output=work.output,
            plan_id=work.plan_id,
            node_id=work.node_id,
            request_id=answer.request_id,
            allowed=answer.allowed,
            remember=answer.remember,
        )
        try:
            await self._agents.answer(told)
        except OSError as error:
            raise BackendFailed(f"the answer could not be handed over: {error}", transient=True) from error

    async def caught_up(self, turn_id: str, call: int) -> None:
        """Have the turn hear what the agent has told by now, because that came before what is heard next. Of one that
        was taken over a moment ago too; but a call is not lost because the agent cannot be read."""
        try:
            async with asyncio.timeout(CATCH_UP_S):
                while (at_work := self._asking.get((turn_id, call))) is None:
                    await self._came.wait()
                await at_work.reading.catch_up()
                await at_work.voice.spoken()
        except TimeoutError:
            log.warning("agent.behind: what it told is heard late", extra={"run_id": turn_id})

    async def models(self) -> list[ChatModel]:
        """Raises ``BackendFailed``."""
        try:
            found = await self._agents.models(self._agent)
        except PilothouseError as error:
            raise BackendFailed(str(error)) from error
        return [ChatModel(id=model.id, default=model.default or model.id == self._model) for model in found]

    async def forget(self, chat_id: str, turn_ids: Sequence[str]) -> None:
        """Remove what is left of a deleted chat: its agent's memory, its folder, what was printed. Idempotent."""
        await self._agents.forget(chat_id)
        for turn_id in turn_ids:
            await self._logs.delete(turn_id)
        await asyncio.to_thread(self._remove, chat_id)

    # What a turn never asks of it: it neither waits for anybody nor makes titles.

    def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        raise BackendFailed("an agent is asked by its turn")

    async def report(self, report: ToolReport) -> None:
        """It runs its tools itself."""

    async def steer(self, steer: SteerBackend) -> None:
        raise BackendFailed("an agent hears what is said meanwhile when it has answered")

    async def abort(self, abort: AbortBackend) -> None:
        """Its process is ended, which is all there is to it."""

    async def title(self, make: MakeTitle) -> str:
        raise BackendFailed("an agent makes no titles")


def _session(agent: str, permissions: Permissions) -> str:
    """What its ids of conversations begin with here: one that may ask is another program, with a memory of its own."""
    asks = permissions is Permissions.ASK
    return f"{agent}{'/asks' if asks else ''}:"


def _outcome(ended: AgentEnded | Failed | Ended, within: Within) -> CallEnded | Ended:
    match ended:
        case AgentEnded() if within.unwanted.is_set():
            return Ended()
        case AgentEnded(ok=True):
            return CallEnded()  # the turn has heard its last word
        case AgentEnded():
            return CallEnded(
                end=BackendEnd.FAILED,
                error=ended.error or "the agent failed",
                code="agent_failed",
                transient=ended.transient,
                retry_after_ms=ended.retry_after_ms,
            )
        case Failed(error=error):
            return _failed(error)
        case Ended():
            return ended


def _failed(error: str, *, code: str = "agent_failed", transient: bool = False) -> CallEnded:
    return CallEnded(end=BackendEnd.FAILED, error=error, code=code, transient=transient)
