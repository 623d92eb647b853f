"""Those who want to look at a run's state, and wait until what they would see is in the log.

Knows neither when that is nor why it may never be: whoever holds the state says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pilothouse.core.run.rows import RunRow

S = TypeVar("S")
R = TypeVar("R")


class Readers(Generic[S]):
    """All are answered at once, in the order they came."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[S, RunRow], Any], asyncio.Future[Any]]] = []

    def add(self, view: Callable[[S, RunRow], R]) -> asyncio.Future[R]:
        """Its answer, once there is one."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((view, answer))
        return answer

    def show(self, state: S, row: RunRow) -> None:
        """Answer everybody. What a view raises, such as for a node that is not there, is its reader's own affair."""
        for view, answer in self._taken():
            try:
                answer.set_result(view(state, row))
            except Exception as error:
                answer.set_exception(error)

    def refuse(self, error: Exception) -> None:
        """Nobody will see anything any more."""
        for _, answer in self._taken():
            answer.set_exception(error)

    def _taken(self) -> list[tuple[Callable[[S, RunRow], Any], asyncio.Future[Any]]]:
        waiting, self._waiting = self._waiting, []
        return [(view, answer) for view, answer in waiting if not answer.done()]  # some have left
