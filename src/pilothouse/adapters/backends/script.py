"""A backend that answers from a file of replies: to try things, to show them, and to test; always the same.

Stateless: which step comes next is read from the request, so a turn goes on after a restart. ``script_file`` knows the
file; this plays it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from pilothouse.adapters.backends.script_file import (
    Call,
    Failure,
    Question,
    Replies,
    Slowly,
    Step,
    Subagent,
    When,
    read_replies,
)
from pilothouse.adapters.backends.templates import fill, filled
from pilothouse.core.chat.backend import (
    Asked,
    BackendEvent,
    Completed,
    Failed,
    LaneClosed,
    LaneOpened,
    Paused,
    Said,
    Spent,
    Thought,
    Titled,
    ToolAnswered,
    ToolCalled,
)
from pilothouse.core.chat.calls import CallStatus, Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.message import SteeringBlock, ToolBlock
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.errors import BackendFailed, BadInput

_Asking: TypeAlias = Callable[[str, str], AbstractContextManager[asyncio.Future[bool]]]

_OPEN = frozenset({CallStatus.GENERATING, CallStatus.PENDING, CallStatus.AWAITING_APPROVAL, CallStatus.EXECUTING})
_WORDS = re.compile(r"\s*\S+\s*")
_TITLE = 60


class ScriptBackend:
    name = "script"
    features = Features(repeats=True, titles=True)

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._answers: dict[tuple[str, str], asyncio.Future[bool]] = {}

    @classmethod
    def read(cls, path: Path) -> ScriptBackend:
        """Raises ``BadInput`` for a file that is missing or wrong."""
        try:
            text = path.read_bytes()
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {error.strerror}") from None
        return cls(read_replies(text, path.name))

    async def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        steps, found = _choose(self._replies, request)
        leg = _Leg(request, steps, found)
        async for chunk in leg.play(self._asking):
            yield chunk

    async def report(self, report: ToolReport) -> None:
        """It is told with its next request."""

    async def steer(self, steer: SteerBackend) -> None:
        raise BackendFailed("a script cannot be steered before its next request")

    async def abort(self, abort: AbortBackend) -> None:
        """There is nobody to tell."""

    async def answer(self, answer: AnswerBackend) -> None:
        waiting = self._answers.get((answer.turn_id, answer.request_id))
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.allowed)

    async def title(self, make: MakeTitle) -> str:
        return (fill(self._replies.title, {"message": make.message}) or make.message).strip()[:_TITLE]

    async def models(self) -> list[ChatModel]:
        return [ChatModel(id="script", name="A file of replies", default=True)]

    @contextmanager
    def _asking(self, turn_id: str, request_id: str) -> Iterator[asyncio.Future[bool]]:
        """What will be answered; there before the question is, so that no answer can be too early."""
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._answers[turn_id, request_id] = waiting
        try:
            yield waiting
        finally:
            del self._answers[turn_id, request_id]


def _choose(replies: Replies, request: BackendRequest) -> tuple[tuple[Step, ...], dict[str, Any]]:
    """The steps for a request, and what their texts may name."""
    told = [block.text for block in request.blocks if isinstance(block, SteeringBlock) and block.call]
    for text in reversed([*told, *request.steering]):
        for rule in replies.rules:
            if rule.when.steering and (found := _fits(rule.when, text, request.mode)) is not None:
                return rule.steps, {"steering": text, **found}
    for rule in replies.rules:
        if not rule.when.steering and (found := _fits(rule.when, request.message, request.mode)) is not None:
            return rule.steps, found
    return replies.otherwise, {}


def _fits(when: When, text: str, mode: str) -> dict[str, Any] | None:
    """What a rule's pattern found, None when the rule is for something else."""
    if when.mode and mode not in ((when.mode,) if isinstance(when.mode, str) else when.mode):
        return None
    wanted = (when.contains,) if isinstance(when.contains, str) else when.contains
    if not all(one.casefold() in text.casefold() for one in wanted):
        return None
    found = re.search(when.matches, text, re.IGNORECASE)
    if found is None:
        return None
    return {**{name: value or "" for name, value in found.groupdict().items()}, "match": list(_groups(found))}


def _groups(found: re.Match[str]) -> Sequence[str]:
    return [found[0], *(group or "" for group in found.groups())]


class _Leg:
    """What is said to one request: the steps after the last results that it brings."""

    def __init__(self, request: BackendRequest, steps: Sequence[Step], found: Mapping[str, Any]) -> None:
        self._request = request
        self._steps = steps
        calls = [block for block in request.blocks if isinstance(block, ToolBlock)]
        self._over = {block.id for block in calls if block.status not in _OPEN}
        self._attempt = request.call - max((block.call for block in calls), default=0)
        """Which request for this leg this is, from 1."""
        self._failing = any(block.status is not CallStatus.SUCCESS for block in calls if block.id in request.answered)
        """Of the results that this request brings."""
        results = {one.name or one.id: one.result for one in request.results}
        self._values: dict[str, Any] = {
            "steering": "\n".join(request.steering),
            "message": request.message,
            "mode": request.mode,
            "model": request.model,
            "workflow": request.workflow_id,
            "turn": request.turn_id,
            "results": results | {block.name: block.result for block in calls},
            "errors": {one.name or one.id: one.error for one in request.results}
            | {block.name: block.error for block in calls},
            "status": {block.name: str(block.status) for block in calls},
            **found,
        }

    async def play(self, asking: _Asking) -> AsyncIterator[Sequence[BackendEvent]]:
        first = self._first()
        pending: list[str] = []
        for index, step in enumerate(self._steps[first:], first):
            if step.only is not None and (step.only == "failed") is not self._failing:
                continue
            match step:
                case Step(say=str() as text):
                    yield (Said(self._fill(text)),)
                case Step(say=Slowly() as slowly):
                    for word in _WORDS.findall(self._fill(slowly.text)):
                        yield (Said(word),)
                        await asyncio.sleep(slowly.every / 1000)
                case Step(think=str() as text):
                    yield (Thought(self._fill(text), begins=True, ends=True),)
                case Step(call=Call() | tuple()):
                    yield [self._called(index, place, call) for place, call in enumerate(_calls(step))]
                    pending += self._ids(index, step)
                case Step(subagent=Subagent() as subagent):
                    async for chunk in self._lane(index, subagent):
                        yield chunk
                case Step(use=tokens) if tokens is not None:
                    yield (
                        Spent(
                            input_tokens=tokens.input,
                            output_tokens=tokens.output,
                            cached_tokens=tokens.cached,
                            model=tokens.model,
                            cost=tokens.cost,
                        ),
                    )
                case Step(title=str() as title):
                    yield (Titled(self._fill(title)),)
                case Step(wait=int() as ms):
                    await asyncio.sleep(ms / 1000)
                case Step(ask=str() | Question() as wanted):
                    question = Question(tool=wanted) if isinstance(wanted, str) else wanted
                    identity = f"ask-{index}"
                    with asking(self._request.turn_id, identity) as answer:
                        yield (
                            Asked(
                                request_id=identity,
                                tool=question.tool,
                                title=self._fill(question.title),
                                input=self._fill(question.input),
                            ),
                        )
                        allowed = await answer
                    if not allowed:
                        yield (Failed(message=f"{question.tool} was not allowed", code="not_allowed"),)
                        return
                case Step(fail=str() | Failure() as failure):
                    failed = Failure(message=failure) if isinstance(failure, str) else failure
                    if not failed.times or self._attempt <= failed.times:
                        yield (self._failed(failed),)
                        return
                case Step(end=True):
                    return
            if pending and _pauses(step):
                yield (self._paused(index, pending),)
                return
        yield (self._paused(len(self._steps), pending) if pending else Completed(),)

    def _first(self) -> int:
        """The step after the last pause whose results are there."""
        first, pending = 0, list[str]()
        for index, step in enumerate(self._steps):
            pending += self._ids(index, step)
            if pending and _pauses(step):
                if not self._over.issuperset(pending):
                    return first
                first, pending = index + 1, []
        return len(self._steps) if pending and self._over.issuperset(pending) else first

    def _paused(self, index: int, pending: Sequence[str]) -> Paused:
        return Paused(checkpoint_id=f"step-{index}", pending=tuple(pending))

    def _failed(self, failed: Failure) -> Failed:
        message = self._fill(failed.message)
        if failed.transient:
            raise BackendFailed(message, transient=True, retry_after_ms=failed.retry_after_ms)
        return Failed(message=message, code=failed.code, shown=self._fill(failed.shown))

    async def _lane(self, index: int, subagent: Subagent) -> AsyncIterator[Sequence[BackendEvent]]:
        lane = self._id(index, 0)
        yield (ToolCalled(id=lane, name=subagent.agent, arguments={}), LaneOpened(id=lane, agent=subagent.agent))
        for step in subagent.steps:
            match step:
                case Step(say=str() as text):
                    yield (Said(self._fill(text), lane),)
                case Step(say=Slowly() as slowly):
                    for word in _WORDS.findall(self._fill(slowly.text)):
                        yield (Said(word, lane),)
                        await asyncio.sleep(slowly.every / 1000)
                case Step(think=str() as text):
                    yield (Thought(self._fill(text), lane, begins=True, ends=True),)
                case Step(wait=int() as ms):
                    await asyncio.sleep(ms / 1000)
        result = self._fill(subagent.result) or None
        yield (
            LaneClosed(id=lane, agent=subagent.agent),
            ToolAnswered(id=lane, name=subagent.agent, success=True, result=result),
        )

    def _called(self, index: int, place: int, call: Call) -> ToolCalled:
        arguments = filled(call.arguments, self._values)
        return ToolCalled(id=call.id or self._id(index, place), name=call.tool, arguments=arguments)

    def _ids(self, index: int, step: Step) -> list[str]:
        return [call.id or self._id(index, place) for place, call in enumerate(_calls(step))]

    def _id(self, index: int, place: int) -> str:
        """Never the same in two turns: ids of turns differ at their end."""
        return f"call-{self._request.turn_id[-12:]}-{index}-{place}"

    def _fill(self, text: str) -> str:
        return fill(text, self._values)


def _calls(step: Step) -> tuple[Call, ...]:
    return (step.call,) if isinstance(step.call, Call) else step.call or ()


def _pauses(step: Step) -> bool:
    return step.results is True or any(not call.later for call in _calls(step))
