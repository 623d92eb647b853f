"""Stands in for a backend that was chosen and lacks something: a key, a package, a file. Conversations are refused with
the reason, and everything else of the server works.

Goes by the name of the one it stands in for, so that turns that wait for that one find it once it can be had.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

from pilothouse.core.chat.backend import BackendEvent
from pilothouse.core.chat.calls import Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.errors import BackendFailed


class UnreadyBackend:
    """``lacking``: what is missing, and what to do about it."""

    features = Features()

    def __init__(self, name: str, lacking: str) -> None:
        self.name = name
        self.lacking = lacking

    async def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        yield self._fail()

    async def report(self, report: ToolReport) -> None:
        self._fail()

    async def steer(self, steer: SteerBackend) -> None:
        self._fail()

    async def abort(self, abort: AbortBackend) -> None:
        """Nothing goes on there."""

    async def answer(self, answer: AnswerBackend) -> None:
        self._fail()

    async def title(self, make: MakeTitle) -> str:
        self._fail()

    async def models(self) -> list[ChatModel]:
        self._fail()

    def _fail(self) -> NoReturn:
        raise BackendFailed(self.lacking)
