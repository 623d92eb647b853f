"""One request to a model: asked, heard, and why it ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import FinishReason, ModelMessage
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.openai import OpenAIStreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from pilothouse.adapters.backends.llm.hearing import Hearing
from pilothouse.adapters.backends.llm.oddity import reading
from pilothouse.core.chat.backend import BackendEvent, Said, Spent
from pilothouse.core.run.usage import Usage
from pilothouse.core.tools.spec import ToolSpec

MOST_TOKENS = 1 << 48
"""Of one request; who tells more is not believed, nor can every reader of a log hold it."""

Priced = Callable[[str, Usage], Usage]


@dataclass(slots=True)
class Leg:
    """What is asked, and, once it was heard, how it ended. ``reason`` None: its server did not say that it has."""

    model: Model
    settings: ModelSettings
    asked: list[ModelMessage]
    tools: list[ToolDefinition]
    hearing: Hearing
    priced: Priced
    text: str = ""
    reason: FinishReason | None = None
    _told: Spent | None = None
    """What was told of what it uses: sums."""

    async def said(self) -> AsyncGenerator[Sequence[BackendEvent]]:
        """Ask; what was used is told as soon as it is known, as it may be ended before it has answered. Raises what the
        library does where that says what is wrong, else ``Odd``."""
        request = model_request_stream(
            self.model,
            self.asked,
            model_settings=self.settings,
            model_request_parameters=ModelRequestParameters(function_tools=self.tools),
        )
        with reading():
            async with request as stream:
                async for event in stream:
                    cut = stream.finish_reason is not None and reason_of(stream) in (None, "length")
                    events = list(self.hearing.hear(event, cut=cut))
                    if self._told is None and _count(stream.usage.input_tokens):
                        events += self._used(stream.usage, stream.model_name)
                    if events:
                        self.text += "".join(one.text for one in events if isinstance(one, Said))
                        yield events
                answer = stream.get()
            self.reason = reason_of(stream)
            yield self._used(answer.usage, answer.model_name)

    def _used(self, usage: RequestUsage, named: object) -> list[Spent]:
        """What has not been told of it yet."""
        used = spent(usage, named if named and isinstance(named, str) else self.model.model_name, self.priced)
        told, self._told = self._told, used
        if told is None:
            return [used]
        rest = Spent(
            input_tokens=max(0, used.input_tokens - told.input_tokens),
            output_tokens=max(0, used.output_tokens - told.output_tokens),
            cached_tokens=max(0, used.cached_tokens - told.cached_tokens),
            model=used.model,
            cost=None if used.cost is None else max(0.0, used.cost - (told.cost or 0.0)),
        )
        return [rest] if rest.input_tokens or rest.output_tokens or rest.cached_tokens or rest.cost else []


def reason_of(stream: StreamedResponse) -> FinishReason | None:
    """Why the answer has ended, as its server says. The library makes one up for chat completions that just end, and
    what was cut off would pass for whole."""
    told = stream.provider_details or {}
    if isinstance(stream, OpenAIStreamedResponse) and "finish_reason" not in told and "refusal" not in told:
        return None
    return stream.finish_reason


def definition(tool: ToolSpec) -> ToolDefinition:
    """``strict``: providers would change the schema, and no tool is asked whether it minds."""
    schema = {"type": "object", "properties": {}, **tool.parameters}
    return ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=schema, strict=False)


def spent(usage: RequestUsage, model: str, priced: Priced) -> Spent:
    """What a request used, with its price where one is known."""
    used = Usage(
        input_tokens=_count(usage.input_tokens),
        output_tokens=_count(usage.output_tokens),
        cached_tokens=_count(usage.cache_read_tokens),
        cache_write_tokens=_count(usage.cache_write_tokens),
    )
    costed = priced(model, used)
    return Spent(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cached_tokens,
        model=model,
        cost=None if costed.unpriced_tokens else costed.cost,
    )


def _count(told: object) -> int:
    """A number of tokens, whatever a server tells."""
    return min(max(told, 0), MOST_TOKENS) if isinstance(told, int) else 0
