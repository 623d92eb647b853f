"""What an agent tells, as a conversation hears it: each piece once, in order, no faster than the log takes it.

An agent that a later owner follows is read again from its beginning. What the turn has heard of it is in the log, so
that much is passed over: texts by their length, usage by its sums; calls the turn itself knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec

from pilothouse.core.chat import backend as said
from pilothouse.core.chat.routing import SERVER_CALLS
from pilothouse.core.run.agents import (
    Asked,
    FileEdited,
    News,
    Noted,
    Reasoning,
    SessionStarted,
    Text,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.engine.answering.known import FILE_EDITED, NOTE, Known

_AT_ONCE = 256
"""Events that go into the log in one go, at most."""
_STATUS = {ToolStatus.SUCCEEDED: "success", ToolStatus.FAILED: "error", ToolStatus.DENIED: "rejected"}


class Voice:
    """``heard``: tell the turn, and wait until it is in the log. ``name`` makes the ids of calls unique in the turn,
    and conversations those of this agent."""

    def __init__(
        self,
        heard: Callable[[tuple[said.BackendEvent, ...]], Awaitable[None]],
        *,
        call: int,
        session: Callable[[str], str],
        known: Known | None = None,
    ) -> None:
        self._heard = heard
        self._prefix = f"{call}." if call > 1 else ""
        self._session = session
        self._known = known or Known()
        self._sums: dict[str, tuple[int, int, int]] = {}
        self._waiting: list[said.BackendEvent] = []
        self._bell = asyncio.Event()
        self._over = self._silent = False
        self._told = self._said = 0
        """How many events there were, and how many of them are in the log."""
        self._listening: list[tuple[int, asyncio.Future[None]]] = []

    def tell(self, news: Sequence[News]) -> None:
        before = len(self._waiting)
        self._waiting.extend(event for one in news for event in self._events(one))
        self._told += len(self._waiting) - before
        self._bell.set()

    async def spoken(self) -> None:
        """Until all that was told by now is in the log, or nothing will be any more."""
        if self._said < self._told and not self._silent:
            said: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._listening.append((self._told, said))
            await said

    def end(self) -> None:
        """Nothing more comes."""
        self._over = True
        self._bell.set()

    async def run(self) -> None:
        """Tell the turn, until ``end``. Raises what ``heard`` does."""
        try:
            while True:
                await self._bell.wait()
                self._bell.clear()
                while self._waiting:
                    batch, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
                    await self._heard(tuple(batch))
                    self._said += len(batch)
                    self._answer(self._said)
                if self._over:
                    return
        finally:
            self._silent = True
            self._answer(self._told)

    def _answer(self, said: int) -> None:
        """Those who listened for no more than that."""
        for number, listening in self._listening:
            if number <= said and not listening.done():
                listening.set_result(None)
        self._listening = [(number, listening) for number, listening in self._listening if not listening.done()]

    def _events(self, news: News) -> Iterator[said.BackendEvent]:
        match news:
            case Text(text=text):
                self._known.text, new = _beyond(self._known.text, text)
                if new:
                    yield said.Said(new)
            case Reasoning(text=text):
                self._known.reasoning, new = _beyond(self._known.reasoning, text)
                if new:
                    yield said.Thought(new)
            case ToolStarted():
                yield said.ToolCalled(id=self._id(news.call_id), name=news.tool, arguments=_arguments(news))
            case ToolEnded():
                ok = news.status is ToolStatus.SUCCEEDED
                yield said.ToolAnswered(
                    id=self._id(news.call_id),
                    name=news.tool,
                    success=ok,
                    result=news.output or None,
                    error="" if ok else news.output or "it failed",
                    status=_STATUS[news.status],
                )
            case SessionStarted(session_id=session_id):
                yield said.ConversationKnown(self._session(session_id))
            case Used():
                yield from self._spent(news)
            case Asked():
                yield said.Asked(
                    request_id=news.request_id,
                    tool=news.tool,
                    title=news.title,
                    input=news.input,
                    can_remember=news.can_remember,
                )
            case FileEdited() | Noted():
                yield from self._noticed(news)

    def _id(self, call_id: str) -> str:
        """Unlike those of other requests, and of calls that the server executes."""
        id = self._prefix + call_id
        return f"own.{id}" if id.startswith(SERVER_CALLS) else id

    def _noticed(self, news: FileEdited | Noted) -> Iterator[said.Noticed]:
        if self._known.notices:
            self._known.notices -= 1
        elif isinstance(news, Noted):
            yield said.Noticed(kind=NOTE, data={"text": news.text, "level": news.level})
        else:
            data = {"path": news.path, "change": news.change, "added": news.lines_added, "removed": news.lines_removed}
            yield said.Noticed(kind=FILE_EDITED, data=data)

    def _spent(self, news: Used) -> Iterator[said.Spent]:
        """Sums are compared, because the same usage may be told in other portions."""
        usage = news.usage
        told = self._known.tokens.get(news.model, (0, 0, 0))
        before = self._sums.get(news.model, (0, 0, 0))
        after = (
            before[0] + usage.input_tokens,
            before[1] + usage.output_tokens,
            before[2] + usage.cached_tokens,
        )
        self._sums[news.model] = after
        new = [max(now, known) - max(then, known) for now, then, known in zip(after, before, told, strict=True)]
        if any(new):
            share = sum(new[:2]) / usage.tokens if usage.tokens else 1.0
            yield said.Spent(
                input_tokens=new[0],
                output_tokens=new[1],
                cached_tokens=new[2],
                model=news.model,
                cost=None if usage.unpriced_tokens else usage.cost * share,
            )


def _beyond(known: int, text: str) -> tuple[int, str]:
    """What of a text lies beyond what is known, and how much known is left."""
    return max(0, known - len(text)), text[known:]


def _arguments(news: ToolStarted) -> dict[str, object]:
    try:
        read = msgspec.json.decode(news.input) if news.input else {}
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        read = news.input
    return read if isinstance(read, dict) else {"input": read}
