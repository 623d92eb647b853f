"""Work that is seen through although its caller is being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """See something bounded through although we are being cancelled, perhaps several times; then be cancelled."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # looked at, so that nobody complains
        raise cancelled
    task.result()
