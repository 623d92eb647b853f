"""What a copilot backend's refusals mean for people, and whether the same may be tried again.

Owns the words. Bodies of answers are read by a bounded part only, because nobody promised that they are short.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import msgspec

from pilothouse.errors import BackendFailed

MAX_BODY = 1 << 16
"""Bytes of an answer that is no stream."""
_MAX_TOLD = 300
_MAX_RETRY_AFTER_S = 24 * 60 * 60
_FIXES = {
    401: "the API key is not accepted: set PILOTHOUSE_BACKEND_API_KEY",
    403: "the API key does not allow this: set PILOTHOUSE_BACKEND_API_KEY to one that does",
    404: "there is no such route: check PILOTHOUSE_BACKEND_URL",
    405: "there is no such route: check PILOTHOUSE_BACKEND_URL",
}
_PASSING = frozenset({408, 425, 429})


async def read_bounded(response: httpx.Response) -> bytes:
    """The beginning of a body."""
    found = b""
    async for chunk in response.aiter_bytes():
        found += chunk
        if len(found) >= MAX_BODY:
            break
    return found[:MAX_BODY]


def refusal(response: httpx.Response, body: bytes) -> BackendFailed:
    """What an answer with an error status, or a redirect, comes to."""
    status = response.status_code
    if response.is_redirect:
        return BackendFailed(
            f"the copilot backend answers with a redirect to {_place(response)}: set PILOTHOUSE_BACKEND_URL to where "
            "it leads",
            status=status,
        )
    said = told(body)
    message = f"the copilot backend answered {status}" + (f" ({said})" if said else "")
    if fix := _FIXES.get(status):
        message = f"{message}: {fix}"
    passing = status in _PASSING or status >= 500
    return BackendFailed(
        message, transient=passing, retry_after_ms=_retry_after_ms(response) if passing else 0, status=status
    )


def unreachable(url: httpx.URL, error: httpx.HTTPError) -> BackendFailed:
    """What trouble on the way comes to. Nothing of the request is told: it may hold a key."""
    where = f"the copilot backend at {url.host}" + (f":{url.port}" if url.port else "")
    why = " ".join(str(error).split())[:_MAX_TOLD] or type(error).__name__
    if isinstance(error, httpx.ConnectTimeout):
        return BackendFailed(f"{where} did not accept a connection in time", transient=True)
    if isinstance(error, httpx.ConnectError):
        return BackendFailed(f"{where} cannot be reached: {why} (check PILOTHOUSE_BACKEND_URL)", transient=True)
    if isinstance(error, httpx.TimeoutException):
        return BackendFailed(f"{where} did not answer in time", transient=True)
    return BackendFailed(f"the connection to {where.removeprefix('the ')} broke off: {why}", transient=True)


def told(body: bytes) -> str:
    """A reason in the body of an answer: of JSON what stands where reasons stand, else its beginning as one line."""
    data = as_object(body)
    for name in ("error", "message", "detail", "title"):
        value = data.get(name)
        if isinstance(value, dict):
            value = value.get("message")
        if isinstance(value, str) and value.strip():
            return " ".join(value.split())[:_MAX_TOLD]
    text = body.decode("utf-8", "replace")
    return "" if data or text.lstrip().startswith("<") else " ".join(text.split())[:_MAX_TOLD]


def as_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body is; empty for anything else."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _place(response: httpx.Response) -> str:
    try:
        url = response.request.url.join(response.headers.get("location", ""))
    except httpx.InvalidURL:
        return "somewhere else"
    return f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")


def _retry_after_ms(response: httpx.Response) -> int:
    text = response.headers.get("retry-after", "").strip()
    try:
        seconds = float(text) if text[:1].isdigit() else parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0
    return round(min(max(seconds, 0.0), _MAX_RETRY_AFTER_S) * 1000)
