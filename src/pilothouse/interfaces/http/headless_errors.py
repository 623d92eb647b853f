"""The body that the headless route promises for everything that goes wrong, whoever finds it: the chat document's
``{success: false, error, content, toolCalls}``, with ``code`` and, where a field is to blame, ``details``.

Knows no error of the tree, only their statuses: which of them the document has, and what stands for the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import msgspec
from starlette.responses import Response

PATH = "/api/v1/copilot/chat"

# The document knows no statuses but 400, 401, 404, 500, 503 and 504. What it did not think of keeps its own.
_STATUS: Mapping[HTTPStatus, HTTPStatus] = MappingProxyType(
    {
        HTTPStatus.UNPROCESSABLE_ENTITY: HTTPStatus.BAD_REQUEST,
        HTTPStatus.GONE: HTTPStatus.NOT_FOUND,
        HTTPStatus.BAD_GATEWAY: HTTPStatus.INTERNAL_SERVER_ERROR,
    }
)

_FIELDS = {"field": {"type": "string"}, "message": {"type": "string"}, "fix": {"type": "string"}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["success", "error", "content", "toolCalls"],
    "properties": {
        "success": {"const": False},
        "error": {"type": "string", "description": "The reason, one sentence for a person."},
        "content": {"type": "string", "description": "What was answered until then."},
        "toolCalls": {"type": "array", "items": {"type": "object"}, "description": "What was called until then."},
        "code": {"type": "string", "description": "For programs; never changes."},
        "details": {"type": "array", "items": {"type": "object", "properties": _FIELDS}},
        "activeStreamId": {"type": "string", "description": "409: the turn that is going on."},
    },
}


def headless_failure(
    status: HTTPStatus,
    code: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    *,
    details: Any = None,
    **more: Any,
) -> Response:
    body = {"success": False, "error": detail, "content": "", "toolCalls": [], "code": code, **more}
    if details:
        body["details"] = details
    return Response(msgspec.json.encode(body), _STATUS.get(status, status), headers, "application/json")
