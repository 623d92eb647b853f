"""The JSON lines of the Copilot CLI, as far as they are read. Only the shapes; what they mean is the reader's.

Every field that may be absent has a default: other versions say less, or more.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Payload(msgspec.Struct, frozen=True, rename="camel"):
    """Fields a payload may have; what one is lacking is empty."""


class Event(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    timestamp: str = ""
    agent_id: str | None = None
    """Of an agent below this one."""
    data: msgspec.Raw = msgspec.Raw(b"{}")


class Model(Payload, frozen=True, rename="camel"):
    model: str | None = None


class Delta(Payload, frozen=True, rename="camel"):
    delta_content: str = ""
    message_id: str = ""
    reasoning_id: str = ""


class Request(Payload, frozen=True, rename="camel"):
    tool_call_id: str = ""
    intention_summary: str | None = None


class Message(Payload, frozen=True, rename="camel"):
    message_id: str = ""
    model: str | None = None
    content: str = ""
    tool_requests: tuple[Request, ...] | None = None


class Reasoned(Payload, frozen=True, rename="camel"):
    reasoning_id: str = ""
    content: str = ""


class ToolStart(Payload, frozen=True, rename="camel"):
    tool_call_id: str
    tool_name: str
    tool_title: str | None = None
    mcp_server_name: str | None = None
    arguments: Any = None


class ToolError(Payload, frozen=True, rename="camel"):
    message: str = ""
    code: str | None = None


class Result(Payload, frozen=True, rename="camel"):
    content: str = ""
    detailed_content: str | None = None


class Shell(Payload, frozen=True, rename="camel"):
    exit_code: int | None = None


class Edit(Payload, frozen=True, rename="camel"):
    path: str
    kind: str = "edit"


class ToolEnd(Payload, frozen=True, rename="camel"):
    tool_call_id: str
    success: bool = True
    error: ToolError | None = None
    result: Result | None = None
    shell_execution: Shell | None = None
    file_edits: tuple[Edit, ...] | None = None


class Failure(Payload, frozen=True, rename="camel"):
    """Of a call of a model, and of the whole work."""

    message: str = ""
    error_message: str = ""
    error_type: str | None = None
    status_code: int | None = None
    failure_kind: str | None = None


class Info(Payload, frozen=True, rename="camel"):
    message: str = ""
    info_type: str = ""


class Server(Payload, frozen=True, rename="camel"):
    """Of tools."""

    name: str = ""
    status: str = ""
    error: str | None = None


class Servers(Payload, frozen=True, rename="camel"):
    servers: tuple[Server, ...] | None = None


class Subagent(Payload, frozen=True, rename="camel"):
    agent_display_name: str = ""
    error: str | None = None


class Idle(Payload, frozen=True, rename="camel"):
    aborted: bool = False


class Final(msgspec.Struct, frozen=True, rename="camel"):
    """The last line. It has its fields beside its type."""

    session_id: str = ""
    exit_code: int | None = None
