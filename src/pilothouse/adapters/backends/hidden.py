"""A backend's stream without the key that it is asked with: what is said, and the error that it ends with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from pilothouse.core.chat.backend import BackendEvent
from pilothouse.core.chat.hiding import Hiding, Secrets
from pilothouse.errors import BackendFailed


async def hidden(
    said: AsyncGenerator[Sequence[BackendEvent]], secrets: Secrets
) -> AsyncGenerator[Sequence[BackendEvent]]:
    """Closing it closes ``said``. Raises ``BackendFailed``, as ``said`` does."""
    hiding = Hiding(secrets)
    try:
        async with aclosing(said):
            async for events in said:
                if told := hiding.feed(events):
                    yield told
    except BackendFailed as error:
        if rest := hiding.end():
            yield rest
        error.args = (secrets.hide(str(error)),)
        raise
    if rest := hiding.end():
        yield rest
