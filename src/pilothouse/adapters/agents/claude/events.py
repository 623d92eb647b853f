"""The JSON lines of Claude Code, as far as they are read. Only the shapes; what they mean is the reader's.

Every field that may be absent has a default: other versions say less, or more.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True):
    """Any line. ``subtype`` tells the kinds of ``system`` apart, and the ends of ``result``."""

    type: str
    subtype: str = ""
    parent_tool_use_id: str | None = None
    """Of an agent below this one."""


class Server(msgspec.Struct, frozen=True):
    """Of tools."""

    name: str = ""
    status: str = ""


class Init(msgspec.Struct, frozen=True):
    session_id: str = ""
    model: str | None = None
    mcp_servers: tuple[Server, ...] | None = None


class Retry(msgspec.Struct, frozen=True):
    attempt: int = 0
    max_retries: int = 0
    retry_delay_ms: float = 0
    error_status: int | None = None
    error: str | None = None


class Denied(msgspec.Struct, frozen=True):
    tool_use_id: str = ""
    tool_name: str = ""


class Task(msgspec.Struct, frozen=True):
    status: str = ""
    summary: str = ""


class Tokens(msgspec.Struct, frozen=True):
    """As the API counts them: cached input is counted beside the input. None: not told here."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class Block(msgspec.Struct, frozen=True):
    """A piece of a message: text, thinking, a use of a tool, or what came of one."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None
    is_error: bool | None = None


class Message(msgspec.Struct, frozen=True):
    id: str = ""
    model: str = ""
    content: str | tuple[Block, ...] = ()
    usage: Tokens | None = None


class Said(Event, frozen=True):
    """``assistant``: one block of an answer at a time, the whole of it with the same id. ``error``: its text is not the
    model's, but tells of a failure of this kind."""

    message: Message = Message()
    error: str | None = None


class Answered(Event, frozen=True):
    """``user``: what came of tools; ``tool_use_result`` has it once more, in the tool's own form."""

    message: Message = Message()
    tool_use_result: msgspec.Raw = msgspec.Raw(b"null")


class Hunk(msgspec.Struct, frozen=True):
    lines: tuple[str, ...] = ()


class Edited(msgspec.Struct, frozen=True, rename="camel"):
    """What a tool that edits answers. ``type`` is ``create`` or ``update``, where it says so."""

    file_path: str
    type: str = ""
    content: str | None = None
    structured_patch: tuple[Hunk, ...] | None = None


class Delta(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    thinking: str = ""


class Piece(msgspec.Struct, frozen=True):
    """An event of the API's stream."""

    type: str = ""
    message: Message = Message()
    delta: Delta = Delta()
    content_block: Block = Block()
    usage: Tokens | None = None


class Streamed(Event, frozen=True):
    event: Piece = Piece()


class Limit(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    resets_at: float | None = None
    """Seconds since the epoch."""
    rate_limit_type: str | None = None


class Limited(Event, frozen=True):
    rate_limit_info: Limit = Limit()


class ModelTokens(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class Final(Event, frozen=True):
    """``result``, the last line."""

    is_error: bool = False
    api_error_status: int | None = None
    result: str = ""
    errors: tuple[str, ...] = ()
    session_id: str = ""
    duration_api_ms: float = 0
    permission_denials: tuple[Denied, ...] = ()
    model_usage: dict[str, ModelTokens] | None = msgspec.field(name="modelUsage", default=None)
