"""What every log store promises, asked of the one on disk and of its in-memory twin alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pilothouse.adapters.store.memory_output import MemoryLogStore
from pilothouse.adapters.store.output import FileLogStore
from pilothouse.engine.ports import LogStore
from pilothouse.errors import BadInput

Make = Callable[..., LogStore]


@pytest.fixture(params=["file", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    if request.param == "file":
        return lambda **options: FileLogStore(tmp_path / "output", **options)
    return MemoryLogStore


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    asyncio.run(bounded())


def test_appends_take_ranges_without_a_gap(make: Make) -> None:
    async def test() -> None:
        logs = make()
        assert await logs.append("run/node/1/work", b"one\n") == (0, 4)
        assert await logs.append("run/node/1/work", b"") == (4, 4)
        assert await logs.append("run/node/1/work", b"two\n") == (4, 8)
        assert await logs.size("run/node/1/work") == 8
        assert await logs.read("run/node/1/work") == (0, b"one\ntwo\n")

    in_loop(test)


def test_a_read_begins_where_it_is_asked_to_and_ends_at_its_limit(make: Make) -> None:
    async def test() -> None:
        logs = make(segment_size=4)
        await logs.append("o", b"0123456789")
        assert await logs.read("o", 3, 4) == (3, b"3456")
        assert await logs.read("o", 8) == (8, b"89")
        assert await logs.read("o", 10) == (10, b"")
        assert await logs.read("o", 99) == (99, b"")

    in_loop(test)


def test_unknown_output_reads_as_empty(make: Make) -> None:
    async def test() -> None:
        logs = make()
        assert await logs.read("nobody") == (0, b"")
        assert await logs.size("nobody") == 0
        assert await logs.tail("nobody", 5) == ""

    in_loop(test)


def test_beyond_the_cap_head_and_tail_are_kept_at_their_offsets(make: Make) -> None:
    async def test() -> None:
        logs = make(segment_size=10)
        data = bytes(range(100))
        for start in range(0, 100, 7):
            await logs.append("o", data[start : start + 7])
        assert await logs.size("o") == 100
        assert await logs.read("o") == (0, data[:20])
        assert await logs.read("o", 5, 10) == (5, data[5:15])
        assert await logs.read("o", 20) == (80, data[80:])
        assert await logs.read("o", 85, 3) == (85, data[85:88])

    in_loop(test)


def test_the_tail_is_the_last_lines_and_never_crosses_a_gap(make: Make) -> None:
    async def test() -> None:
        logs = make(segment_size=10)
        await logs.append("o", b"".join(b"line %02d\n" % n for n in range(30)))
        assert await logs.tail("o", 2) == "line 28\nline 29"
        assert await logs.tail("o", 0) == ""
        assert (await logs.tail("o", 100)).endswith("line 28\nline 29")
        assert "line 02" not in await logs.tail("o", 100)

    in_loop(test)


def test_the_tail_of_long_lines_is_whole(make: Make) -> None:
    async def test() -> None:
        logs = make()
        lines = [bytes([65 + n]) * 100_000 for n in range(4)]
        await logs.append("o", b"\n".join(lines))
        assert await logs.tail("o", 2) == b"\n".join(lines[-2:]).decode()
        assert await logs.tail("o", 9) == b"\n".join(lines).decode()

    in_loop(test)


def test_a_tail_of_binary_output_has_replacement_characters(make: Make) -> None:
    async def test() -> None:
        logs = make()
        await logs.append("o", b"ok\n\xff\x00\n")
        assert await logs.tail("o", 1) == "\ufffd\x00"

    in_loop(test)


def test_delete_removes_everything_below_a_prefix_and_nothing_beside_it(make: Make) -> None:
    async def test() -> None:
        logs = make()
        for name in ("run/a/1", "run/a/2", "run/ab/1", "other/a/1"):
            await logs.append(name, b"x")
        await logs.delete("run/a")
        await logs.delete("run/a")
        sizes = [await logs.size(name) for name in ("run/a/1", "run/a/2", "run/ab/1", "other/a/1")]
        assert sizes == [0, 0, 1, 1]

    in_loop(test)


@pytest.mark.parametrize(
    "name",
    ["", "/etc", "../x", "a/../b", "a//b", "a/", "./a", "a/.", "a\0b", "a\\b", "a/000000000000.out", "x" * 2000],
)
def test_a_name_that_could_leave_the_root_is_refused(make: Make, name: str) -> None:
    async def test() -> None:
        logs = make()
        for attempt in (logs.append(name, b"x"), logs.read(name), logs.size(name), logs.delete(name)):
            with pytest.raises(BadInput):
                await attempt

    in_loop(test)


def test_secrets_are_kept_out_of_what_the_engine_appends(make: Make) -> None:
    async def test() -> None:
        logs = make(redact=("hunter2",))
        assert await logs.append("o", b"password hunter2!\n") == (0, len(b"password [redacted]!\n"))
        assert await logs.read("o") == (0, b"password [redacted]!\n")

    in_loop(test)
