"""The one translation from errors to HTTP: ``application/problem+json`` (RFC 9457) in one shape, but for the headless
route, which has promised another.

Owns which status an error has and what a client is told of it. An error that is not of the tree is a bug: the client
learns only that, the server's own log the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from pilothouse.core.auth.refusals import InvalidKey, NeedsScope, TooManyRequests
from pilothouse.errors import (
    BackendFailed,
    BadInput,
    Busy,
    Denied,
    ExecutorFailed,
    GitFailed,
    Gone,
    NotFound,
    PilothouseError,
    Refused,
    StoreFailed,
    Unavailable,
    WrongSequence,
)
from pilothouse.interfaces.http import headless_errors

MEDIA_TYPE = "application/problem+json"


class Malformed(BadInput):
    """Raised for a request that is wrong before anybody looks at what it means: no JSON, an unknown cursor."""

    code = "malformed"


class NoCredential(Denied):
    """Raised when a request says nothing, or nothing valid, about who sends it."""

    code = "no_credential"


class TooManyTries(Denied):
    """Raised when logging in failed too often of late."""

    code = "too_many_tries"


# The first class of an error's ancestry that stands here decides.
STATUS: dict[type[PilothouseError], HTTPStatus] = {
    Malformed: HTTPStatus.BAD_REQUEST,
    BadInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotFound: HTTPStatus.NOT_FOUND,
    Gone: HTTPStatus.GONE,
    NoCredential: HTTPStatus.UNAUTHORIZED,
    InvalidKey: HTTPStatus.UNAUTHORIZED,
    TooManyTries: HTTPStatus.TOO_MANY_REQUESTS,
    TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    Denied: HTTPStatus.FORBIDDEN,
    Refused: HTTPStatus.CONFLICT,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    BackendFailed: HTTPStatus.BAD_GATEWAY,
    WrongSequence: HTTPStatus.CONFLICT,
    StoreFailed: HTTPStatus.SERVICE_UNAVAILABLE,
    GitFailed: HTTPStatus.INTERNAL_SERVER_ERROR,
    ExecutorFailed: HTTPStatus.SERVICE_UNAVAILABLE,
    PilothouseError: HTTPStatus.INTERNAL_SERVER_ERROR,
}

# What Starlette and FastAPI refuse by themselves, in the codes of the tree.
_CODES = {
    HTTPStatus.BAD_REQUEST: Malformed.code,
    HTTPStatus.NOT_FOUND: NotFound.code,
    HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed",
    HTTPStatus.REQUEST_TIMEOUT: "too_slow",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too_large",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: Malformed.code,
}

_BEARER = 'Bearer realm="pilothouse"'

# How pydantic calls a body that is not there or no JSON object.
_NO_OBJECT = frozenset({"missing", "model_attributes_type", "model_type"})

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "description": "urn:pilothouse:problem:<code>"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence for a person."},
        "code": {"type": "string", "description": "For programs; never changes."},
        "field": {"type": "string", "description": "The offending field, in the caller's own terms."},
        "fix": {"type": "string", "description": "What to write instead."},
        "activeStreamId": {"type": "string", "description": "`busy`: the turn that is going on."},
    },
}
EXAMPLE = {
    "type": "urn:pilothouse:problem:bad_input",
    "title": "Unprocessable Entity",
    "status": 422,
    "detail": "names no other job",
    "code": "bad_input",
    "field": "jobs[2].dependencies[0]",
    "fix": "one of build, test",
}


def status_of(error: PilothouseError) -> HTTPStatus:
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def problem(error: PilothouseError, path: str = "") -> Response:
    """The answer to an expected failure of a request for ``path``."""
    if isinstance(error, BadInput):
        return _wrong(path, [error])
    more = {"activeStreamId": error.active_turn_id} if isinstance(error, Busy) else {}
    return _response(path, status_of(error), error.code, str(error), _headers(error), **more)


def _wrong(path: str, errors: Sequence[BadInput]) -> Response:
    """A problem is one, the first; the headless route tells all."""
    first = errors[0]
    if path != headless_errors.PATH:
        return _response(path, status_of(first), first.code, first.message, field=first.field, fix=first.fix)
    details = [{"field": error.field, "message": error.message, "fix": error.fix} for error in errors]
    return headless_errors.headless_failure(
        status_of(first), first.code, f"Invalid request: {first}", {"cache-control": "no-store"}, details=details
    )


def _headers(error: PilothouseError) -> dict[str, str]:
    """What HTTP (RFC 6750, RFC 9110) wants said in headers too."""
    match error:
        case NoCredential():
            return {"www-authenticate": _BEARER}
        case InvalidKey():
            return {"www-authenticate": f'{_BEARER}, error="invalid_token"'}
        case NeedsScope():
            return {"www-authenticate": f'{_BEARER}, error="insufficient_scope", scope="{error.scope}"'}
        case TooManyTries():
            return {"retry-after": "60"}
        case TooManyRequests():
            return {"retry-after": str(error.retry_after)}
    return {}


def _response(
    path: str, status: HTTPStatus, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: str
) -> Response:
    headers = {"cache-control": "no-store", **(headers or {})}
    if path == headless_errors.PATH:
        return headless_errors.headless_failure(status, code, detail, headers, **more)
    body = {
        "type": f"urn:pilothouse:problem:{code}",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "code": code,
        **{name: value for name, value in more.items() if value},
    }
    return Response(msgspec.json.encode(body), status, headers, MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every failure of ``app`` with a problem."""

    async def expected(request: Request, error: Exception) -> Response:
        assert isinstance(error, PilothouseError)
        return problem(error, request.scope["path"])

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return _wrong(request.scope["path"], [_bad_input(each) for each in error.errors()])

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = HTTPStatus(error.status_code)
        detail = "there is no such route" if status is HTTPStatus.NOT_FOUND else error.detail
        return _response(request.scope["path"], status, _CODES.get(status, "error"), detail, error.headers)

    async def bug(request: Request, _: Exception) -> Response:
        detail = "this should not have happened; the server's log says more"
        return _response(request.scope["path"], HTTPStatus.INTERNAL_SERVER_ERROR, "internal", detail)

    app.add_exception_handler(PilothouseError, expected)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(Exception, bug)  # the outermost layer: it raises on, so that the server logs


def _bad_input(error: dict[str, Any]) -> BadInput:
    """One thing that is wrong with a request, named as the plan files' errors name theirs."""
    kind, where = error["type"], error["loc"][1:]
    if kind == "json_invalid":
        return Malformed(f"the body is not valid JSON: {error['ctx']['error']}, at byte {where[0]}")
    if not where and kind in _NO_OBJECT:
        fix = "send a JSON object with Content-Type: application/json"
        return Malformed("the body is missing or no JSON object", fix=fix)
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
    if kind == "extra_forbidden":
        return BadInput("is not known here", field=field, fix="remove it")
    if kind == "missing":
        return BadInput("is missing", field=field, fix="give it")
    message = str(error["msg"]).removeprefix("Value error, ")
    return BadInput(message[:1].lower() + message[1:], field=field)
