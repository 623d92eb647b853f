"""JSON-RPC as a bridge has to know it: which messages there are, what HTTP wants to know of them, and errors. Values
in, values out; standard library only."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
SERVER_ERROR = -32000
"""Of those that JSON-RPC leaves to servers: nobody answered, or with something else than an answer."""

CANCELLED = "notifications/cancelled"
INITIALIZE = "initialize"

_VERSION = "io.modelcontextprotocol/protocolVersion"
_VERSION_FORM = re.compile(r"[0-9A-Za-z._-]{1,32}")
# The parameter that HTTP wants to see in a header, so that whoever stands between needs not read bodies.
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")

Message = dict[str, Any]


class Unreadable(Exception):
    """Raised for a line that is no message. ``answer`` is the error to be answered."""

    def __init__(self, answer: Message) -> None:
        self.answer = answer
        super().__init__(answer["error"]["message"])


def read(line: bytes) -> Message:
    """The message in a line. Raises ``Unreadable``."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise Unreadable(error(None, PARSE_ERROR, "this line is no JSON")) from None
    if not isinstance(message, dict):
        raise Unreadable(error(None, INVALID_REQUEST, "this line is no message: one JSON object is"))
    if "id" in message and not is_id(message["id"]):
        raise Unreadable(error(None, INVALID_REQUEST, "the id of a request is a string or a whole number"))
    if not isinstance(message.get("method", ""), str) or not isinstance(message.get("params", {}), dict | None):
        raise Unreadable(error(message.get("id"), INVALID_REQUEST, "method is a string, params is an object"))
    return message


def is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def error(id: object, code: int, message: str, data: Mapping[str, Any] | None = None) -> Message:
    said: Message = {"code": code, "message": message}
    if data:
        said["data"] = dict(data)
    return {"jsonrpc": "2.0", "id": id, "error": said}


def line(message: Message) -> bytes:
    """A message as the one line it is written in: JSON escapes whatever would break it."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def headers(message: Message, negotiated: str) -> dict[str, str]:
    """What HTTP says of a message beside it. ``negotiated``: the revision agreed on by an ``initialize``, if any; newer
    revisions say theirs in every request."""
    params = message.get("params") or {}
    meta = params.get("_meta")
    own = meta.get(_VERSION) if isinstance(meta, dict) else None
    if not isinstance(own, str) or not _VERSION_FORM.fullmatch(own):
        return {"MCP-Protocol-Version": negotiated} if negotiated and message.get("method") != INITIALIZE else {}
    found = {"MCP-Protocol-Version": own, "Mcp-Method": encoded(message["method"])}
    name = params.get(_NAMED_BY.get(message["method"], ""))
    if isinstance(name, str):
        found["Mcp-Name"] = encoded(name)
    return found


def revision(answer: Message) -> str:
    """What an ``initialize`` agreed on."""
    result = answer.get("result")
    found = result.get("protocolVersion") if isinstance(result, dict) else None
    return found if isinstance(found, str) and _VERSION_FORM.fullmatch(found) else ""


def encoded(value: str) -> str:
    """A header's value that carries any text."""
    if _PLAIN.fullmatch(value) and not _WRAPPED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'surrogatepass')).decode('ascii')}?="
