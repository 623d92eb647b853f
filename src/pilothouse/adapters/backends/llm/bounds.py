"""How much of an answer is read at all: a server that never ends, or talks at length about an error, must not take our
memory. Knows nothing of what answers mean."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from pilothouse.adapters.backends.llm.oddity import seen

MAX_ANSWER = 64 << 20
"""Bytes of one answer."""
MAX_ERROR = 1 << 20
"""Bytes of an answer with an error status; what follows is left out."""


async def bound(response: httpx2.Response) -> None:
    """A hook for responses: nothing has been read of them yet."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, cut=not response.is_success)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, *, cut: bool) -> None:
        self._stream = stream
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Raises ``ReadError``."""
        size = 0
        async for chunk in seen(self._stream):
            size += len(chunk)
            if self._cut and size > MAX_ERROR:
                return
            if size > MAX_ANSWER:
                raise httpx2.ReadError(f"an answer has more than {MAX_ANSWER:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
