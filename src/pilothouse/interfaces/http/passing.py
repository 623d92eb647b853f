"""The chat document's flags, and its way back: conversations passed through to a backend as they come.

What they say is not looked at, in either direction, and nothing of them is kept. Bytes come as they are, but for the
backend's own key, which the backend keeps out of them where it stands in one piece.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pilothouse.engine.chat_ports import Backend, PassesOn, Unready
from pilothouse.errors import Unavailable


@dataclass(frozen=True, slots=True)
class ChatFlags:
    """``orchestrator``: turns are this server's own; else they are passed through. ``headless``: its API answers."""

    orchestrator: bool = True
    headless: bool = True


ALL_ON = ChatFlags()


async def pass_on(request: Request, backend: Backend) -> Response:
    """Hand a request on, and back whatever comes. Raises ``Unavailable`` where there is nobody to hand it to,
    ``BackendFailed``."""
    if isinstance(backend, Unready):
        raise Unavailable(f"nobody can answer: {backend.lacking}")
    if not isinstance(backend, PassesOn):
        raise Unavailable(
            "COPILOT_USE_SERVER_ORCHESTRATOR is off, so conversations are passed through to a `remote` backend; "
            f"this server's is {backend.name!r}"
        )
    async with AsyncExitStack() as stack:
        status, headers, chunks = await stack.enter_async_context(backend.pass_on(await request.body()))
        opened = stack.pop_all()
    headers = {"cache-control": "no-cache", "x-accel-buffering": "no", **headers}
    return StreamingResponse(_within(opened, chunks), status, headers)


async def _within(opened: AsyncExitStack, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async with opened:
        async for chunk in chunks:
            yield chunk
