"""The JSON lines of ``codex exec --json``, as far as they are read. Only the shapes; what they mean is the reader's.

Every field that may be absent has a default: other versions say less, or more.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Tokens(msgspec.Struct, frozen=True):
    """Input includes cached tokens, output includes reasoning."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class Failure(msgspec.Struct, frozen=True):
    message: str = ""


class Change(msgspec.Struct, frozen=True):
    path: str
    kind: str = "update"


class Todo(msgspec.Struct, frozen=True):
    text: str = ""
    completed: bool = False


class Item(msgspec.Struct, frozen=True):
    """A piece of work or of speech. Which fields count follows from its type."""

    id: str
    type: str
    status: str | None = None
    text: str | None = None
    message: str | None = None
    command: str | None = None
    aggregated_output: str | None = None
    exit_code: int | None = None
    changes: tuple[Change, ...] | None = None
    items: tuple[Todo, ...] | None = None
    server: str | None = None
    tool: str | None = None
    arguments: Any = None
    result: Any = None
    error: Failure | None = None
    query: str | None = None
    prompt: str | None = None


class Event(msgspec.Struct, frozen=True):
    type: str
    thread_id: str = ""
    item: Item | None = None
    usage: Tokens | None = None
    """Of the whole thread, earlier runs included."""
    message: str = ""
    error: Failure | None = None
