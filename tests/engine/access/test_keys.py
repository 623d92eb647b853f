"""Keys open what they should until they are revoked, and nothing that is kept would open anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pilothouse.adapters.store.memory import MemoryEventStore, MemoryWorld
from pilothouse.core.auth.principals import Kind, Principal, Scope
from pilothouse.core.auth.rates import Rate
from pilothouse.core.auth.refusals import InvalidKey, TooManyRequests
from pilothouse.engine.access.keys import KIND, NOTE_EVERY_MS, USE, Keys
from pilothouse.errors import BadInput, NotFound, StoreFailed

RUN = (Scope.RUN,)
PLENTY = Rate(per_second=1, burst=1000)


class Hand:
    """A clock that is moved by hand."""

    now = 1_000_000

    def now_ms(self) -> int:
        return self.now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")


class Counting:
    """Bytes that can be foreseen, different each time."""

    made = 0

    def __call__(self, size: int) -> bytes:
        self.made += 1
        return self.made.to_bytes(4, "big") * (size // 4)


class Bench:
    def __init__(self, rate: Rate = PLENTY, random: Callable[[int], bytes] | None = None) -> None:
        self.world = MemoryWorld()
        self.clock = Hand()
        self.random = random or Counting()
        self.fail = False
        self.rate = rate
        self.keys = self.restarted()

    def restarted(self) -> Keys:
        return Keys(MemoryEventStore(self.world, self._point), self.clock, self.random, self.rate)

    async def _point(self, operation: str) -> None:
        if self.fail and operation == "put_document.begin":
            raise StoreFailed("the disk is full")

    def written(self, kind: str) -> list[bytes]:
        return [document.body for (of, _), document in self.world.documents.items() if of == kind]


def run(journey: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(journey, 10))


def test_a_key_is_recognised_as_its_user_with_its_scopes_also_after_a_restart() -> None:
    async def journey() -> None:
        bench = Bench()
        made = await bench.keys.create("nightly", "ci", RUN)
        expected = Principal("ci", Kind.KEY, frozenset(RUN), made.info.id)
        assert await bench.keys.recognise(made.key) == expected
        assert await bench.restarted().recognise(made.key) == expected

    run(journey())


def test_only_the_digest_of_a_key_is_kept() -> None:
    async def journey() -> None:
        bench = Bench()
        made = await bench.keys.create("nightly", "ci", RUN)
        await bench.keys.recognise(made.key)
        secret = made.key.rpartition("_")[2].encode()
        kept = [document.body for document in bench.world.documents.values()]
        assert kept
        assert not any(secret in body for body in kept)
        assert secret.decode() not in repr([vars(bench.keys), await bench.keys.list()])

    run(journey())


def test_the_right_id_with_another_secret_opens_nothing() -> None:
    async def journey() -> None:
        bench = Bench()
        made = await bench.keys.create("nightly", "ci", RUN)
        forged = await Bench(random=lambda size: Counting()(8) + bytes(size - 8)).keys.create("forged", "ci", RUN)
        assert forged.info.id == made.info.id
        with pytest.raises(InvalidKey, match="unknown"):
            await bench.keys.recognise(forged.key)

    run(journey())


def test_a_revoked_key_opens_nothing_and_is_listed_nowhere() -> None:
    async def journey() -> None:
        bench = Bench()
        made, other = [await bench.keys.create(name, "ci", RUN) for name in ("a", "b")]
        await bench.keys.recognise(made.key)
        assert bench.keys.stands(made.info.id)
        await bench.keys.revoke(made.info.id)
        assert not bench.keys.stands(made.info.id)
        for keys in (bench.keys, bench.restarted()):
            with pytest.raises(InvalidKey, match="unknown or was revoked"):
                await keys.recognise(made.key)
            assert [key.id for key in await keys.list()] == [other.info.id]
        assert not bench.written(USE)
        with pytest.raises(NotFound):
            await bench.keys.revoke(made.info.id)
        assert (await bench.keys.recognise(other.key)).name == "ci"

    run(journey())


def test_keys_are_listed_in_the_order_they_were_made_and_by_user() -> None:
    async def journey() -> None:
        bench = Bench()
        for name, user in (("one", "ann"), ("two", "bob"), ("three", "ann")):
            bench.clock.now += 1
            await bench.keys.create(name, user, RUN)
        assert [key.name for key in await bench.keys.list()] == ["one", "two", "three"]
        assert [key.name for key in await bench.keys.list("ann")] == ["one", "three"]

    run(journey())


def test_when_a_key_was_used_is_known_at_once_and_written_once_a_minute() -> None:
    async def journey() -> None:
        bench = Bench()
        made = await bench.keys.create("nightly", "ci", RUN)
        assert [key.last_used_at for key in await bench.keys.list()] == [None]
        begin = bench.clock.now
        for _ in range(120):
            bench.clock.now += 1000
            await bench.keys.recognise(made.key)
        (used,) = [key.last_used_at for key in await bench.keys.list()]
        assert used == begin + 120_000
        (written,) = [key.last_used_at for key in await bench.restarted().list()]
        assert written is not None
        assert used - NOTE_EVERY_MS < written < used
        # A use is a version of nothing: the log of the key itself has one entry for ever.
        assert (len(bench.written(KIND)), len(bench.written(USE))) == (1, 1)
        assert not bench.world.document_versions

    run(journey())


def test_a_disk_that_refuses_keeps_nobody_out() -> None:
    async def journey() -> None:
        bench = Bench()
        made = await bench.keys.create("nightly", "ci", RUN)
        bench.fail = True
        assert (await bench.keys.recognise(made.key)).name == "ci"

    run(journey())


def test_each_key_is_limited_for_itself_and_served_again_after_a_while() -> None:
    async def journey() -> None:
        bench = Bench(Rate(per_second=1, burst=2))
        made, other = [await bench.keys.create(name, "ci", RUN) for name in ("a", "b")]
        for _ in range(2):
            await bench.keys.recognise(made.key)
        with pytest.raises(TooManyRequests) as refused:
            await bench.keys.recognise(made.key)
        assert refused.value.retry_after == 1
        await bench.keys.recognise(other.key)
        bench.clock.now += 1000
        await bench.keys.recognise(made.key)

    run(journey())


def test_who_does_not_know_the_secret_uses_up_nothing_of_a_key() -> None:
    async def journey() -> None:
        bench = Bench(Rate(per_second=1, burst=1))
        made = await bench.keys.create("a", "ci", RUN)
        for _ in range(5):
            with pytest.raises(InvalidKey):
                await bench.keys.recognise(made.key[:-1])
        await bench.keys.recognise(made.key)

    run(journey())


@pytest.mark.parametrize(
    ("name", "user", "field"),
    [("", "ci", "name"), (" ", "ci", "name"), ("a\nb", "ci", "name"), ("x" * 101, "ci", "name"), ("a", "c i", "user")],
)
def test_what_cannot_be_a_key_is_refused_and_nothing_is_kept(name: str, user: str, field: str) -> None:
    async def journey() -> None:
        bench = Bench()
        with pytest.raises(BadInput) as refused:
            await bench.keys.create(name, user, RUN)
        assert refused.value.field == field
        assert not bench.world.documents

    run(journey())
