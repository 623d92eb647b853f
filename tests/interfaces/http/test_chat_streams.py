"""Streams of turns: what one client's stream made is what others send, and nobody sees by whom it was made."""

from __future__ import annotations

from contextlib import aclosing
from typing import cast

import msgspec
import pytest
from tests.engine.server import run

from pilothouse.adapters.store.memory import MemoryEventStore
from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.events import ReasoningDelta, TextDelta
from pilothouse.core.chat.tool_events import ToolCalled, ToolEnded
from pilothouse.core.run.events import Event, Recorded, RunCreated, RunFailed, RunFinished, RunResumed, RunStarted
from pilothouse.core.run.rows import RunRow, project
from pilothouse.core.run.segments import Append
from pilothouse.engine.driving.hub import Hub
from pilothouse.engine.kinds import REGISTRY
from pilothouse.engine.queries import Queries
from pilothouse.interfaces.http import sse
from pilothouse.interfaces.http.chat_streams import turn_stream

TURN = "turn-1"
BATCHES: tuple[tuple[Event, ...], ...] = (
    (RunCreated(kind="turn", name="hello", owner="ann", session_id="chat-1", root_run_id=TURN), RunStarted(leg=1)),
    (ReasoningDelta(text="Hm"), TextDelta(text="Hel"), TextDelta(text="lo")),
    (ReasoningDelta(text=""), ReasoningDelta(text="")),  # of which clients are shown nothing
    (TextDelta(text=", "), ToolCalled(tool_call_id="t", tool_name="edit", call=1)),
    (RunFailed(error="no"),),
    (RunResumed(leg=2), TextDelta(text="you."), ToolEnded(tool_call_id="t", status=CallStatus.SUCCESS), RunFinished()),
)
COUNT = sum(map(len, BATCHES))


async def told(memory: int = 2048) -> Hub:
    """The hub, once all of it has happened."""
    store = MemoryEventStore()
    await store.take_ownership()
    hub, row, seq = Hub(store, REGISTRY, memory), cast(RunRow | None, None), 0
    for events in BATCHES:
        recorded = tuple(Recorded(TURN, seq + number, 0, event) for number, event in enumerate(events, 1))
        for each in recorded:
            row = project(row, each)
        assert row is not None
        body = REGISTRY.encode(events)
        append = Append(run_id=TURN, expected_seq=seq, epoch=1, count=len(events), at=0, body=body, row=row)
        hub.publish(await store.append(append), TURN, recorded, size=len(body))
        seq += len(events)
    return hub


async def sent(hub: Hub, after: int = 0) -> list[bytes]:
    """The writes of a stream, but for the first one, which says that it is connected."""
    async with aclosing(turn_stream(cast(Queries, hub), TURN, after, 15)) as chunks:  # of the queries it needs pages
        first, *rest = [chunk async for chunk in chunks]
    assert first == sse.CONNECTED
    return rest


def ids(chunks: list[bytes]) -> list[int]:
    frames = b"".join(chunks).split(b"\n\n")[:-1]
    shown = [frame.split(b"\n") for frame in frames]
    assert [int(id.removeprefix(b"id: ")) for id, _ in shown] == [
        msgspec.json.decode(data.removeprefix(b"data: "))["eventId"] for _, data in shown
    ]
    return [int(id.removeprefix(b"id: ")) for id, _ in shown]


@pytest.mark.parametrize("memory", [1, 2048])
def test_wherever_a_client_begins_it_is_sent_the_rest_whoever_was_there_before(memory: int) -> None:
    async def test() -> None:
        whole = b"".join(await sent(await told()))
        assert ids([whole]) == [1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14]
        shared = await told(memory)
        for after in (*range(COUNT), *reversed(range(COUNT))):
            rest = await sent(shared, after)
            assert ids(rest) == [id for id in ids([whole]) if id > after]
            assert whole.endswith(b"".join(rest))
            assert rest == await sent(await told(), after)

    run(test)


def test_a_client_goes_on_where_the_one_who_was_ahead_left() -> None:
    async def test() -> None:
        whole = await sent(await told())
        for made_by_another in range(len(BATCHES)):
            hub = await told()
            await sent(hub)
            for batch in list(hub._all.batches)[made_by_another:]:
                batch.rendered.clear()
            assert await sent(hub) == whole

    run(test)


def test_a_batch_is_made_into_bytes_once() -> None:
    async def test() -> None:
        hub = await told()
        await sent(hub)
        before = [batch.rendered["turn"] for batch in hub._all.batches]
        assert await sent(hub) == [b"".join(before)]
        assert all(batch.rendered["turn"] is made for batch, made in zip(hub._all.batches, before, strict=True))

    run(test)


def test_a_long_stream_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_WRITE", 200)

    async def test() -> None:
        whole = await sent(await told())
        assert len(whole) > 2
        monkeypatch.undo()
        assert [b"".join(whole)] == await sent(await told())

    run(test)
