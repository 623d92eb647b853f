"""What a turn's stream carries: the chat document's events, by ``seq``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from pilothouse.core.chat.shown import Shown
from pilothouse.core.run.events import Recorded
from pilothouse.core.run.lifecycle import TERMINAL
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.driving.hub import Batch
from pilothouse.engine.queries import Queries
from pilothouse.interfaces.http.sse import CONNECTED, KEEPALIVE, writes

_encode = msgspec.json.Encoder().encode
_PAGE = 5000


async def turn_stream(queries: Queries, turn_id: str, after: int, keepalive: float) -> AsyncGenerator[bytes, None]:
    """What clients are shown of a turn after ``after``, to the end of its last leg."""
    yield CONNECTED
    shown = Shown(turn_id)
    # From its beginning: later events lean on earlier ones.
    async with aclosing(queries.pages(turn_id, 0, keepalive, to_end=True)) as pages:
        async for page in pages:
            if not page:
                yield KEEPALIVE
            for chunk in writes([frames for batch in page if (frames := _frames(shown, batch, after))]):
                yield chunk


async def shown_until(queries: Queries, turn_id: str, after: int, until: int, limit: int) -> list[dict[str, Any]]:
    """What clients are shown of a turn after ``after``, as far as ``until`` or the end of what there is by now: so many
    at most."""
    found: list[dict[str, Any]] = []
    shown, read = Shown(turn_id), 0
    while read < until and len(found) < limit:
        page = await queries.events(turn_id, read, _PAGE)
        for recorded in page:
            each = shown.show(recorded)
            if each is not None and after < recorded.seq <= until:
                found.append(each)
        if len(page) < _PAGE:
            break
        read = page[-1].seq
    return found[:limit]


async def has_more(queries: Queries, row: RunRow, after: int) -> bool:
    """Whether there is, or may come, anything after ``after``."""
    return row.lifecycle not in TERMINAL or bool(await shown_until(queries, row.id, after, row.seq, 1))


def _frames(shown: Shown, batch: Batch, after: int) -> bytes:
    """What is shown of a batch after ``after``; it may be nothing."""
    if batch.recorded[0].seq <= after:
        for recorded in batch.recorded:
            if recorded.seq <= after:
                shown.follow(recorded)
        return b"".join(_frame(shown, recorded) for recorded in batch.recorded if recorded.seq > after)
    if (found := batch.rendered.get("turn")) is None:
        found = batch.rendered["turn"] = b"".join([_frame(shown, recorded) for recorded in batch.recorded])
    else:  # another client's stream came first
        for recorded in batch.recorded:
            shown.follow(recorded)
    return found


def _frame(shown: Shown, recorded: Recorded) -> bytes:
    """Empty where clients are shown nothing."""
    each = shown.show(recorded)
    return b"" if each is None else b"id: %d\ndata: %b\n\n" % (recorded.seq, _encode(each))
