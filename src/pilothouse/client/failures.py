"""The one translation from a server's problems (RFC 9457) back to the errors of the tree."""

from __future__ import annotations

import json

from pilothouse.errors import (
    BackendFailed,
    BadInput,
    Denied,
    Gone,
    NotFound,
    PilothouseError,
    Refused,
    StoreFailed,
    Unavailable,
)

_KINDS: tuple[type[PilothouseError], ...] = (NotFound, Gone, Denied, Refused, Unavailable, BackendFailed, StoreFailed)
_BY_CODE = {kind.code: kind for kind in _KINDS}
_BY_STATUS: dict[int, type[PilothouseError]] = {
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Refused,
    410: Gone,
    429: Denied,
    502: BackendFailed,
    503: Unavailable,
}
_BAD_INPUT = frozenset({400, 413, 415, 422})


class ServerFailed(PilothouseError):
    """Raised when the server failed at something nobody planned for, or answers what cannot be understood."""

    code = "server_failed"


class Unreachable(Unavailable):
    """Raised when no answer came. ``sent``: the request may have been heard all the same."""

    code = "unreachable"

    def __init__(self, message: str, *, sent: bool = True) -> None:
        self.sent = sent
        super().__init__(message)


def failure(status: int, data: bytes, *, see: str = "") -> PilothouseError:
    """The error that an answer with ``status`` and the body ``data`` stands for. Its ``code`` is the server's own.
    ``see`` is added to what nobody planned for."""
    try:
        problem = json.loads(data)
        said, code = str(problem.get("detail") or problem.get("title") or ""), str(problem.get("code") or "")
        field, fix = str(problem.get("field") or ""), str(problem.get("fix") or "")
        said = said or str(problem.get("error") or "")  # the headless answer, which has a shape of its own
    except (ValueError, AttributeError):
        said, code, field, fix = "", "", "", ""
    said = said or f"it answered {status}"
    error: PilothouseError
    if status in _BAD_INPUT:
        error = BadInput(said, field=field, fix=fix)
    elif kind := _BY_CODE.get(code) or _BY_STATUS.get(status):
        error = kind(said)
    else:
        error = ServerFailed(f"the server failed: {said}{see}")
    error.code = code or error.code
    return error
