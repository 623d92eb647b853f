"""Whether an agent may use a tool: by the plan's policy, or by asking a person through the server, whoever serves then.

An answer is a file that the server leaves beside the agent's run, so that neither of the two need be there when the
other speaks. Knows nothing of the protocol by which the agent asks.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from pilothouse.core.run.agents import Asked, Permissions

POLL_S = 0.05


class Answer(msgspec.Struct, frozen=True):
    """As it lies in the file."""

    allowed: bool
    remember: bool = False


class Desk:
    """Where an agent's requests are decided, one at a time.

    ``tell`` makes a request known. A yes to be remembered holds for requests of the same sort, as long as the agent
    runs; the agent is never told so, because some write such a yes into the settings of the repository.
    """

    def __init__(self, policy: Permissions, answers: Path, tell: Callable[[Asked], None]) -> None:
        self._policy = policy
        self._answers = answers
        self._tell = tell
        self._turn = asyncio.Lock()
        self._remembered: set[str] = set()

    async def decide(self, sort: str, title: str, input: str, *, beyond: bool = False, given: bool = False) -> bool:
        """``sort``: what a yes that is remembered holds for. ``beyond``: it reaches farther than the plan says, which
        a person may allow, nobody else. ``given``: it was given to the agent for this work, and whoever serves it
        asks. Waits for a person as long as it takes."""
        if given:
            return True
        if self._policy is not Permissions.ASK:
            return self._policy is Permissions.ALLOW and not beyond
        async with self._turn:
            if sort in self._remembered and not beyond:
                return True
            request = uuid.uuid4().hex
            self._tell(Asked(request_id=request, tool=sort, title=title, input=input, can_remember=True))
            answer = await self._answer(self._answers / f"{request}.json")
        if answer.allowed and answer.remember:
            self._remembered.add(sort)
        return answer.allowed

    async def _answer(self, place: Path) -> Answer:
        while True:
            try:
                return msgspec.json.decode(place.read_bytes(), type=Answer)
            except FileNotFoundError:
                await asyncio.sleep(POLL_S)
            except (OSError, msgspec.MsgspecError):
                return Answer(allowed=False)
