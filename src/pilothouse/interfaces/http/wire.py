"""How values become JSON responses, and pages become cursors that clients treat as opaque."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from pilothouse.core.run.lifecycle import run_state
from pilothouse.core.run.rows import RunRow
from pilothouse.interfaces.http.problems import Malformed

_POSITION = struct.Struct(">BQ")
_VERSION = 1

_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]

_encoder = msgspec.json.Encoder()


class Json(Response):
    """A JSON response; what was computed for one person now is not for caches."""

    media_type = "application/json"

    def __init__(self, content: Any = None, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(content, status_code, {"cache-control": "no-store", **(headers or {})})

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else _encoder.encode(content)


def run_json(row: RunRow) -> dict[str, Any]:
    """A run at a glance: its row, with ``status`` (its lifecycle in lower case) and ``runState``."""
    found: dict[str, Any] = msgspec.to_builtins(row)
    return {**found, "status": row.lifecycle.lower(), "runState": run_state(row.lifecycle)}


def position_cursor(position: int) -> str:
    """A place in the multiplexed stream."""
    return base64.urlsafe_b64encode(_POSITION.pack(_VERSION, position)).decode("ascii")


def read_position(cursor: str) -> int:
    """Raises ``Malformed``."""
    try:
        version, position = _POSITION.unpack(_decode(cursor))
    except struct.error:
        version, position = 0, 0
    if version != _VERSION:
        raise bad_cursor()
    return int(position)


def read_seq(given: str, row: RunRow, field: str = "after") -> int:
    """A place in a run's own stream. Raises ``Malformed``."""
    if not (given.isascii() and given.isdecimal() and len(given) < 19):
        raise Malformed(f"{given[:40]!r} is no sequence number", field=field, fix="give the id of the last event")
    if int(given) > row.seq:
        raise Malformed(f"lies beyond the last event, which is {row.seq}", field=field, fix="begin anew with 0")
    return int(given)


def page_cursor(row: RunRow) -> str:
    """Where a page of runs that ends with ``row`` is continued."""
    return base64.urlsafe_b64encode(_encoder.encode((row.created_at, row.id))).decode("ascii")


def read_page(cursor: str) -> tuple[int, str]:
    """Raises ``Malformed``."""
    try:
        return msgspec.json.decode(_decode(cursor), type=tuple[_Milliseconds, str])
    except msgspec.DecodeError:
        raise bad_cursor("before") from None


def bad_cursor(field: str = "after") -> Malformed:
    return Malformed("is no cursor that this server gave", field=field, fix="leave it away to begin anew")


def _decode(cursor: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(cursor.encode("ascii"))
    except (UnicodeEncodeError, binascii.Error):
        return b""
