"""A reader that keeps secrets out of what another tells.

What an agent prints is redacted as bytes, before it is stored. A secret can pass there in pieces: agents stream what
they say a few letters a line, and JSON has many ways to write one letter. So what was understood is looked at once
more, with the pieces of a text put together again. Knows no agent and not where secrets come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from pilothouse.core.run.agents import AgentEnded, AgentReader, News, Reasoning, Text
from pilothouse.core.run.commands import Exit
from pilothouse.core.run.output import Redactor

S = TypeVar("S", bound=msgspec.Struct)


class RedactedReader:
    """Implements ``AgentReader``, as deterministic as the reader it is around."""

    def __init__(self, reader: AgentReader, secrets: tuple[str, ...]) -> None:
        self._reader = reader
        self._secrets = secrets
        self._speech: type[Text] | type[Reasoning] = Text
        self._held = Redactor(secrets)
        """Keeps the end of what was said last, as long as it may be the beginning of a secret."""

    @property
    def finished(self) -> bool:
        return self._reader.finished

    def line(self, line: bytes) -> Iterable[News]:
        told = self._reader.line(line)
        return self._covered(told) if self._secrets else told

    def end(self, exit: Exit, errors: str) -> AgentEnded:
        ended = self._reader.end(exit, errors)
        if not self._secrets:
            return ended
        news = (*self._covered(ended.news), *self._rest())
        return msgspec.structs.replace(ended, error=self._hidden(ended.error), news=news)

    def _covered(self, told: Iterable[News]) -> Iterator[News]:
        for news in told:
            if not isinstance(news, Text | Reasoning):
                yield from self._rest()
                yield self._without_secrets(news)
                continue
            if not isinstance(news, self._speech):
                yield from self._rest()
                self._speech = type(news)
            if text := self._held.feed(_bytes(news.text)):
                yield self._speech(text=_text(text))

    def _rest(self) -> Iterator[News]:
        """What was held back, now that it turns out to be no secret."""
        if text := self._held.flush():
            yield self._speech(text=_text(text))

    def _without_secrets(self, told: S) -> S:
        values = ((name, getattr(told, name)) for name in told.__struct_fields__)
        texts = {name: value for name, value in values if isinstance(value, str)}
        changes: dict[str, Any] = {name: new for name, old in texts.items() if (new := self._hidden(old)) != old}
        return msgspec.structs.replace(told, **changes) if changes else told

    def _hidden(self, text: str) -> str:
        if not any(secret in text for secret in self._secrets):
            return text
        redactor = Redactor(self._secrets)
        return _text(redactor.feed(_bytes(text)) + redactor.flush())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
