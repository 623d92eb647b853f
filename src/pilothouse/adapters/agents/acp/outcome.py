"""What becomes of an agent's work over the Agent Client Protocol: its verdict, its errors, what it used. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from acp import RequestError
from acp.schema import PromptResponse
from acp.schema import Usage as Tokens

from pilothouse.adapters.agents.failures import lasts, message_of, status_of
from pilothouse.adapters.agents.lines import Finished
from pilothouse.adapters.agents.reading import bounded, passes, retry_after_ms, shown
from pilothouse.core.run.agents import Used
from pilothouse.core.run.usage import Usage

AUTH_REQUIRED = -32000
NOT_FOUND = -32002

_STOPPED = {
    "max_tokens": "the model's answer was cut off at its limit of tokens",
    "max_turn_requests": "it made as many requests to its model as it may for one prompt",
    "refusal": "the model refuses to go on with this conversation",
    "cancelled": "it broke its work off",
}
_OWN_ERROR = re.compile(r"(?:[A-Z]\w*)?Error: ")


class _Count(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Row(msgspec.Struct):
    model: str
    token_count: _Count


class _Quota(msgspec.Struct):
    model_usage: list[_Row]


class _Meta(msgspec.Struct):
    """Not of the protocol, but of an agent that tells its tokens beside it."""

    quota: _Quota


class Trouble(Exception):
    """Raised when the work cannot go on; ``finished`` says why, for people."""

    def __init__(self, finished: Finished) -> None:
        super().__init__(finished.error)
        self.finished = finished


def failed(error: str, *, transient: bool | None = None, status: int | None = None) -> Finished:
    """``transient``: None when the text, and the HTTP ``status`` where there is one, are all that tells."""
    if transient is None:
        transient = passes(status or status_of(error), error) and not lasts(error)
    return Finished(
        ok=False, error=bounded(error), transient=transient, retry_after_ms=retry_after_ms(error) if transient else 0
    )


def stopped(reason: str) -> Finished:
    """By the reason for which the agent ended its turn."""
    if reason == "end_turn":
        return Finished()
    return failed(_STOPPED.get(reason, f"it stopped: {reason}"), transient=False)


def own_error(last: str) -> Finished | None:
    """For an agent whose errors are only the last thing that it says; None when that is no error."""
    return failed(last.strip()) if _OWN_ERROR.match(last) else None


def refused(what: str, error: RequestError) -> Finished:
    """The agent answered a request with an error."""
    message, details = message_of(str(error)), _details(error.data)
    text = f"{message}: {details}" if details and details not in message else message
    # Codes of the protocol are negative; some agents hand on what their model answered.
    return failed(f"{what}: {text}", status=error.code if 400 <= error.code < 600 else None)


def logged_out(title: str, login: str, methods: Sequence[str]) -> Finished:
    """It wants to be logged in to. ``methods``: what it says of how that is done."""
    how = login or "; or ".join(methods)
    return failed(f"{title} is not logged in{f': {how}' if how else ''}", transient=False)


def used(response: PromptResponse, model: str) -> Iterator[Used]:
    """What the agent says that the prompt used, by model where it does."""
    if response.usage is not None:
        yield Used(usage=_tokens(response.usage), model=model)
        return
    try:
        rows = msgspec.convert(response.field_meta, _Meta).quota.model_usage
    except msgspec.ValidationError:
        return
    for row in rows:
        count = Usage(input_tokens=row.token_count.input_tokens, output_tokens=row.token_count.output_tokens)
        yield Used(usage=count, model=row.model)


def _tokens(told: Tokens) -> Usage:
    """Some count cached tokens as input and thoughts as output, some do not: the total tells which."""
    cached, written, thoughts = (
        told.cached_read_tokens or 0,
        told.cached_write_tokens or 0,
        told.thought_tokens or 0,
    )
    more = told.total_tokens - told.input_tokens - told.output_tokens
    of_cache = cached + written if more >= cached + written else 0
    of_thoughts = thoughts if more - of_cache >= thoughts else 0
    return Usage(
        input_tokens=told.input_tokens + of_cache,
        output_tokens=told.output_tokens + of_thoughts,
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=thoughts,
    )


def _details(data: Any) -> str:
    if isinstance(data, dict):
        data = next((data[name] for name in ("details", "message", "error") if data.get(name)), data)
    return shown(data)
