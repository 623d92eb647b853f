"""A backend that says what a test wrote for it, request by request, and holds where the test wants it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

from pilothouse.core.chat.backend import BackendEvent, Completed, Said
from pilothouse.core.chat.calls import Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.errors import BackendFailed

Step: TypeAlias = BackendEvent | Sequence[BackendEvent] | asyncio.Event | BackendFailed
"""Something said, a chunk of it, something to wait for, or how the request fails."""


class ScriptedBackend:
    """``replies`` are used up one per request; when there are none left it says ``Hello.`` Whatever it is told stands
    in its lists, in order."""

    name = "scripted"

    def __init__(self, *replies: Sequence[Step], features: Features | None = None) -> None:
        self.features = features or Features()
        self.replies = list(replies)
        self.asked: list[BackendRequest] = []
        self.reports: list[ToolReport] = []
        self.steered: list[SteerBackend] = []
        self.aborted: list[AbortBackend] = []
        self.answered: list[AnswerBackend] = []
        self.titles: list[str | BackendFailed] = []
        self.report_failures: list[BackendFailed] = []
        self.open = 0
        """Requests whose streams are open."""

    async def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        self.asked.append(request)
        reply = self.replies.pop(0) if self.replies else (Said("Hello."), Completed())
        self.open += 1
        try:
            for step in reply:
                if isinstance(step, BackendFailed):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                elif isinstance(step, Sequence):
                    yield step
                else:
                    yield (step,)
        finally:
            self.open -= 1

    async def report(self, report: ToolReport) -> None:
        if self.report_failures:
            raise self.report_failures.pop(0)
        self.reports.append(report)

    async def steer(self, steer: SteerBackend) -> None:
        self.steered.append(steer)

    async def abort(self, abort: AbortBackend) -> None:
        self.aborted.append(abort)

    async def answer(self, answer: AnswerBackend) -> None:
        self.answered.append(answer)

    async def title(self, make: MakeTitle) -> str:
        said = self.titles.pop(0) if self.titles else f"About {make.message}"
        if isinstance(said, BackendFailed):
            raise said
        return said

    async def models(self) -> list[ChatModel]:
        return [ChatModel(id="small", default=True), ChatModel(id="large")]
