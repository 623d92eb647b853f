"""One request of a turn to a model: the conversation made short enough, asked, heard, and what it cost told.

Imports the model library; ``backend`` imports this when it is first needed. Keeps nothing of a turn but the summary
that it had to make for it.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from functools import partial

from pydantic_ai.direct import model_request
from pydantic_ai.messages import FinishReason, ModelMessage, ModelRequest
from pydantic_ai.tools import ToolDefinition

from pilothouse.adapters.backends.llm import compaction
from pilothouse.adapters.backends.llm.config import LlmConfig
from pilothouse.adapters.backends.llm.conversation import characters, conversation, since_compaction
from pilothouse.adapters.backends.llm.delegating import DELEGATE, TOOL, Errands, open_errands
from pilothouse.adapters.backends.llm.failures import failure, too_long
from pilothouse.adapters.backends.llm.hearing import Hearing
from pilothouse.adapters.backends.llm.leg import Leg, Priced, definition, spent
from pilothouse.adapters.backends.llm.oddity import reading
from pilothouse.adapters.backends.llm.provider import Provider
from pilothouse.adapters.backends.llm.together import together
from pilothouse.core.chat.backend import BackendEvent, Completed, Failed, Noticed, Paused, Spent
from pilothouse.core.chat.message import ToolBlock
from pilothouse.core.chat.request import BackendRequest, ChatModel
from pilothouse.errors import BackendFailed

SUMMARY_S = 120.0
"""How long a summary may take."""
MAX_TITLE = 60
_TITLE = "Write a title of at most six words for a conversation that begins like this. Only the title.\n\n"
_TITLE_SOURCE = 2_000
_AROUND_TITLES = " \t\"'*#`.“”"
_SUMMARIES = 256
"""Turns whose summaries are kept; one that is not known any more is made again."""
_SHORT_RESULT = 2_000
"""Characters that are kept of each tool result of a turn that alone is too long."""
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)


class Answering:
    def __init__(self, config: LlmConfig, priced: Priced) -> None:
        self._config = config
        self._priced = priced
        self._provider = Provider(config)
        self._summaries: OrderedDict[str, str] = OrderedDict()
        self._context: dict[str, int] = {}
        """Tokens that a model takes, where its server tells."""

    async def close(self) -> None:
        await self._provider.close()

    async def answer(self, request: BackendRequest) -> AsyncGenerator[list[BackendEvent]]:
        """What the model says. Raises ``BackendFailed``."""
        async with aclosing(together(self._answer(request))) as batches:
            async for batch in batches:
                yield batch

    async def _answer(self, request: BackendRequest) -> AsyncGenerator[Sequence[BackendEvent]]:
        model = self._config.named(request.model)
        if errands := open_errands(request.blocks):
            async with aclosing(self._errands(request, model, errands, _taken(request), ())) as steps:
                async for some in steps:
                    yield some
            return
        summary = self._summaries.get(request.turn_id, "")
        asked = conversation(request, summary=summary)
        size = characters(asked, request.tools)
        if request.history and not summary and compaction.due(size, self._takes(model)):
            async for events in self._compact(request, model, size):
                yield events
            asked = self._shortened(request, model)
        shortest = False
        while True:
            heard = False
            try:
                async with aclosing(self._stream(request, model, asked)) as said:
                    async for events in said:
                        heard = True
                        yield events
                return
            except Exception as error:
                if heard or not too_long(error):
                    raise self._failed(error, model) from error
            if request.history and request.turn_id not in self._summaries:
                async for events in self._compact(request, model, characters(asked, request.tools)):
                    yield events
                asked = self._shortened(request, model)
            elif not shortest:
                shortest = True
                summary = self._summaries.get(request.turn_id, "")
                asked = conversation(request, summary=summary, most=_SHORT_RESULT)
            else:
                yield [Failed(message=self._too_much(model), code="context_limit")]
                return

    async def _stream(
        self, request: BackendRequest, model: str, asked: list[ModelMessage]
    ) -> AsyncGenerator[Sequence[BackendEvent]]:
        """The model's answer, and a step of each subagent that it calls."""
        taken = _taken(request)
        tools = [definition(tool) for tool in request.tools]
        delegates = bool(tools) and all(tool.name != DELEGATE for tool in tools)
        hearing = Hearing(taken, its_own=frozenset({DELEGATE}) if delegates else frozenset())
        leg = self._leg(model, asked, [*tools, TOOL] if delegates else tools, hearing)
        async with aclosing(leg.said()) as events:
            async for some in events:
                yield some
        called = [ToolBlock(id=one.id, name=one.name, arguments=one.arguments or {}) for one in hearing.own]
        if leg.reason is None:
            return  # it was cut off: the turn says so
        if called:
            async with aclosing(self._errands(request, model, called, taken, hearing.calls)) as steps:
                async for some in steps:
                    yield some
        else:
            yield list(self._ends(leg.reason, hearing.calls))

    def _ends(self, reason: FinishReason, calls: Sequence[str]) -> Iterator[BackendEvent]:
        if calls:
            yield Paused(checkpoint_id="", pending=tuple(calls))
        elif reason == "content_filter":
            yield Failed(message=f"{self._config.place} withheld the answer", code="content_filter")
        else:
            if reason == "length":
                yield Noticed(kind="truncated", data={"reason": "the answer reached its longest length"})
            yield Completed(reason="" if reason == "stop" else reason)

    async def _errands(
        self, request: BackendRequest, model: str, errands: Sequence[ToolBlock], taken: set[str], calls: Sequence[str]
    ) -> AsyncGenerator[Sequence[BackendEvent]]:
        """A step of each subagent; then the turn is to bring what they, and ``calls``, have waited for."""
        work = Errands(request, partial(self._leg, model), lambda error: str(self._failed(error, model)))
        async with aclosing(work.said(errands, taken)) as steps:
            async for some in steps:
                yield some
        yield [Paused(checkpoint_id="", pending=(*calls, *work.waits_for))]

    def _leg(self, model: str, asked: list[ModelMessage], tools: list[ToolDefinition], hearing: Hearing) -> Leg:
        return Leg(self._provider.model(model), self._provider.settings, asked, tools, hearing, self._priced)

    # Making a conversation shorter.

    async def _compact(self, request: BackendRequest, model: str, size: int) -> AsyncGenerator[Sequence[BackendEvent]]:
        """Have what was said before this turn summarised, and say so."""
        yield [Noticed(kind="compaction_start", data={"messages": len(request.history)})]
        most = compaction.room(size, self._takes(model))
        while True:
            text = compaction.transcript(since_compaction(request.history), most)
            try:
                answer = await self._text(f"{compaction.PROMPT}\n\n<conversation>\n{text}\n</conversation>", model)
                break
            except Exception as error:
                if not too_long(error) or most <= compaction.SMALLEST:
                    raise self._failed(error, model) from error
                most = max(compaction.SMALLEST, most // 2)
        summary, used = answer
        self._summaries[request.turn_id] = summary or "(nothing worth keeping)"
        while len(self._summaries) > _SUMMARIES:
            self._summaries.popitem(last=False)
        yield [used, Noticed(kind="compaction_done", data={"summary": self._summaries[request.turn_id]})]

    def _shortened(self, request: BackendRequest, model: str) -> list[ModelMessage]:
        asked = conversation(request, summary=self._summaries[request.turn_id])
        if compaction.due(characters(asked, request.tools), self._takes(model)):
            return conversation(request, summary=self._summaries[request.turn_id], most=_SHORT_RESULT)
        return asked

    async def _text(self, prompt: str, model: str) -> tuple[str, Spent]:
        """A short answer to a question on its own. Raises what the library does, ``Odd``, ``TimeoutError``."""
        question: list[ModelMessage] = [ModelRequest.user_text_prompt(prompt)]
        with reading():
            async with asyncio.timeout(SUMMARY_S):
                answer = await model_request(
                    self._provider.model(model), question, model_settings=self._provider.settings
                )
        return _THINKING.sub("", answer.text or "").strip(), spent(
            answer.usage, answer.model_name or model, self._priced
        )

    def _too_much(self, model: str) -> str:
        return (
            f"This is more than {model} takes at once, even with all that was said before in short. Begin a new chat, "
            "or choose a model that takes more."
        )

    # Everything else.

    async def title(self, message: str, model: str) -> str:
        """Raises ``BackendFailed``."""
        name = self._config.named(model)
        try:
            text, _ = await self._text(_TITLE + message[:_TITLE_SOURCE], name)
        except Exception as error:
            raise self._failed(error, name) from error
        return title_of(text)

    async def models(self) -> list[ChatModel]:
        """Raises ``BackendFailed``."""
        try:
            found = await self._provider.models()
        except Exception as error:
            raise self._failed(error, self._config.model) from error
        self._context = {model.id: model.context_tokens for model in found if model.context_tokens}
        return found

    def _takes(self, model: str) -> int:
        return self._config.context_tokens or self._context.get(model, 0)

    def _failed(self, error: Exception, model: str) -> BackendFailed:
        return error if isinstance(error, BackendFailed) else failure(error, self._config, model)


def _taken(request: BackendRequest) -> set[str]:
    return {block.id for block in request.blocks if isinstance(block, ToolBlock)}


def title_of(text: str) -> str:
    """The first line, without what models put around titles. Raises ``BackendFailed`` when there is none."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    title = re.sub(r"^title\s*:", "", line.strip(_AROUND_TITLES), flags=re.IGNORECASE).strip(_AROUND_TITLES)
    if not title:
        raise BackendFailed("the model made no title")
    return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 1].rstrip()}…"
