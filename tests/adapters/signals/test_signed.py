"""Signals of those who share a secret, where others write too: what is forged, moved, old or repeated is dropped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.adapters.signals.memory import MemoryPlace, MemorySignals
from pilothouse.adapters.signals.signed import FRESH_S, SignedSignals

SECRET = b"shared by all of us"


class World:
    """A place of which an attacker has a raw end, and a clock."""

    def __init__(self) -> None:
        self.at = 1_000_000.0
        self.place = MemoryPlace(lambda: self.at)
        self.raw = MemorySignals(self.place)
        self.ours = SignedSignals(self.raw, SECRET, lambda: self.at)
        self.also_ours = SignedSignals(self.raw, SECRET, lambda: self.at)


def tell(story: Callable[[World], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(10):
            await story(World())

    asyncio.run(told())


async def on_the_wire(world: World, channel: str, message: bytes) -> bytes:
    """What an attacker sees of a message of ours."""
    async with world.raw.listen(channel) as messages:
        await world.ours.publish(channel, message)
        return await anext(messages)


async def heard(world: World, channel: str, messages: AsyncIterator[bytes]) -> list[bytes]:
    """What has come, up to a last message."""
    await world.ours.publish(channel, b"last")
    found = []
    while (message := await anext(messages)) != b"last":
        found.append(message)
    return found


def test_what_is_not_signed_is_not_heard_and_the_log_says_so_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        other = SignedSignals(world.raw, b"another secret", lambda: world.at)
        async with world.ours.listen("c") as messages:
            for n in range(100):
                await world.raw.publish("c", b"x" * n)
            await other.publish("c", b"of another server")
            assert await heard(world, "c", messages) == []
            world.at += 61
            await world.raw.publish("c", b"again")
            assert await heard(world, "c", messages) == []

    with caplog.at_level(logging.WARNING):
        tell(story)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("signals.rejected: c: it is not signed")
    assert "100 more" in second


def test_what_came_before_or_is_old_or_was_meant_for_elsewhere_is_not_heard() -> None:
    async def story(world: World) -> None:
        async with world.ours.listen("c") as messages, world.ours.listen("d") as elsewhere:
            sealed = await on_the_wire(world, "c", b"accept")
            await world.raw.publish("c", sealed)
            await world.raw.publish("d", sealed)
            assert await heard(world, "c", messages) == [b"accept"]
            assert await heard(world, "d", elsewhere) == []
        world.at += FRESH_S + 1
        async with world.ours.listen("c") as messages:
            await world.raw.publish("c", sealed)
            assert await heard(world, "c", messages) == []

    tell(story)


def test_everybody_who_listens_hears_a_message_once() -> None:
    async def story(world: World) -> None:
        async with world.ours.listen("c") as one, world.also_ours.listen("c") as other, world.ours.listen("c") as third:
            await world.ours.publish("c", b"hello")
            assert [await anext(one), await anext(other), await anext(third)] == [b"hello"] * 3

    tell(story)


def test_what_is_kept_by_others_or_elsewhere_or_too_long_is_not_there_and_stands_in_nobodys_way() -> None:
    async def story(world: World) -> None:
        await world.raw.keep("a", b"forged", 60)
        assert await world.ours.kept("a") is None
        assert await world.ours.keep("a", b"mine", 60)
        assert not await world.also_ours.keep("a", b"later", 60)
        assert await world.also_ours.kept("a") == b"mine"

        sealed = await world.raw.kept("a")
        assert sealed is not None
        await world.raw.keep("b", sealed, 60)
        assert await world.ours.kept("b") is None
        world.at += 61
        await world.raw.keep("a", sealed, 60)
        assert await world.ours.kept("a") is None

    tell(story)


def test_what_another_of_us_keeps_in_the_place_of_what_was_just_forgotten_stays() -> None:
    first_look, others = asyncio.Event(), World().ours

    class Later(MemorySignals):
        """Another one is quicker, between a look that finds nothing and what is done about it."""

        async def keep(self, key: str, value: bytes, ttl_s: float) -> bool:
            return first_look.is_set() and await super().keep(key, value, ttl_s)

        async def kept(self, key: str) -> bytes | None:
            found = await super().kept(key)
            if not first_look.is_set():
                first_look.set()
                assert await others.keep(key, b"theirs", 60)
            return found

    async def story(world: World) -> None:
        nonlocal others
        others = world.also_ours
        late = SignedSignals(Later(world.place), SECRET, lambda: world.at)
        assert not await late.keep("a", b"mine", 60)
        assert await world.ours.kept("a") == b"theirs"

    tell(story)


def test_what_is_kept_is_no_message_and_a_message_is_nothing_that_is_kept() -> None:
    async def story(world: World) -> None:
        await world.raw.keep("c", await on_the_wire(world, "c", b"x"), 60)
        assert await world.ours.kept("c") is None
        await world.raw.forget("c")
        await world.ours.keep("c", b"x", 60)
        sealed = await world.raw.kept("c")
        assert sealed is not None
        async with world.ours.listen("c") as messages:
            await world.raw.publish("c", sealed)
            assert await heard(world, "c", messages) == []

    tell(story)


@given(at=st.integers(0, 200), bit=st.integers(0, 7), cut=st.integers(0, 90))
def test_no_bit_of_it_can_be_changed_and_nothing_cut_off(at: int, bit: int, cut: int) -> None:
    async def story(world: World) -> None:
        sealed = bytearray(await on_the_wire(world, "c", b"accept it"))
        shorter = bytes(sealed[: cut % len(sealed)])
        sealed[at % len(sealed)] ^= 1 << bit
        async with world.ours.listen("c") as messages:
            await world.raw.publish("c", bytes(sealed))
            await world.raw.publish("c", shorter)
            assert await heard(world, "c", messages) == []

    tell(story)
