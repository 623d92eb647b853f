"""What both wires of OpenAI's have in common: how they tell an error."""

from __future__ import annotations

from tests.support.models.asked import Json
from tests.support.models.parts import Fail

KINDS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def error_json(fail: Fail) -> Json:
    kind, code = KINDS.get(fail.status, ("server_error", "server_error"))
    return {"error": {"message": fail.message, "type": kind, "param": None, "code": code}}
