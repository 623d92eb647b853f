"""What one run of Claude Code used, each token told once: per answer as the stream tells it, the rest from its sums.

Brings the API's way of counting, where cached input stands beside the input, into ours. Answers that
are not streamed, such as those of agents below it, are told when they are first seen, with the output they began with;
the rest of that is in the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pilothouse.adapters.agents.claude.events import Message, ModelTokens, Tokens
from pilothouse.adapters.agents.reading import missing, more
from pilothouse.core.run.agents import Used
from pilothouse.core.run.usage import NOTHING, Tally, Usage


@dataclass(slots=True)
class _Answer:
    """One answer of the model while it is streamed."""

    message: Message
    tokens: Tokens
    told: Usage = NOTHING
    tools: int = 0


class Sums:
    def __init__(self) -> None:
        self._answer: _Answer | None = None
        self._told = Tally()
        self._seen: set[tuple[str, str]] = set()

    @property
    def streamed(self) -> Message:
        """The answer that is being streamed; an empty one before the first."""
        return self._answer.message if self._answer else Message()

    def began(self, message: Message) -> None:
        self._answer = _Answer(message, message.usage or Tokens())

    def called(self) -> None:
        """A tool is used in it."""
        if self._answer is not None:
            self._answer.tools += 1

    def told(self, usage: Tokens) -> Iterator[Used]:
        """It says what it took up to here; the last time for all of it."""
        if self._answer is not None:
            self._answer.tokens = _over(self._answer.tokens, usage)
            yield from self._tell(self._answer)

    def seen(self, whose: str, message: Message) -> Iterator[Used]:
        """A part of an answer that is not streamed. ``whose``: ids are those of one agent."""
        if (whose, message.id) not in self._seen:
            self._seen.add((whose, message.id))
            yield from self._tell(_Answer(message, message.usage or Tokens()))

    def reconciled(self, models: Mapping[str, ModelTokens], api_ms: float) -> Iterator[Used]:
        """The sums of the whole run: what of them was not told yet."""
        sums = Tally({model: _usage(tokens) for model, tokens in models.items()})
        known = self._told
        if sums.by_model and not known.by_model.keys() <= sums.by_model.keys():
            # The same models by other names: only the sum of all can be compared.
            name = max(sums.by_model, key=lambda model: sums.by_model[model].tokens)
            sums, known = Tally({name: sums.total}), Tally({name: known.total})
        sums.add("", Usage(api_ms=round(api_ms)))
        for model, usage in missing(sums, known):
            yield Used(usage=usage, model=model)
        self._answer = None

    def unfinished(self) -> Iterator[Used]:
        """What is known of an answer whose end never came; there are no sums either."""
        if self._answer is not None:
            yield from self._tell(self._answer)
            self._answer = None

    def _tell(self, answer: _Answer) -> Iterator[Used]:
        first = answer.told is NOTHING
        new = more(_usage(answer.tokens), answer.told) + Usage(turns=int(first), tool_calls=answer.tools)
        answer.told, answer.tools = answer.told + new, 0
        if new != NOTHING:
            self._told.add(answer.message.model, new)
            yield Used(usage=new, model=answer.message.model)


def _over(before: Tokens, now: Tokens) -> Tokens:
    """Some ends of a stream repeat what its beginning said, some do not."""
    names = Tokens.__struct_fields__
    return Tokens(**{name: getattr(before if getattr(now, name) is None else now, name) for name in names})


def _usage(tokens: Tokens | ModelTokens) -> Usage:
    cached, written = _cached(tokens)
    return Usage(
        input_tokens=(tokens.input_tokens or 0) + cached + written,
        output_tokens=tokens.output_tokens or 0,
        cached_tokens=cached,
        cache_write_tokens=written,
    )


def _cached(tokens: Tokens | ModelTokens) -> tuple[int, int]:
    return tokens.cache_read_input_tokens or 0, tokens.cache_creation_input_tokens or 0
