"""What stands around the parts of a server."""

from __future__ import annotations

import asyncio
import logging

import pytest

from pilothouse.assembly import in_background


def test_work_beside_a_server_that_crashes_is_told_at_once_and_the_server_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def crashes() -> None:
        raise ZeroDivisionError("a bug")

    async def server() -> None:
        async with asyncio.timeout(10), in_background(crashes()):
            while not caplog.records:
                await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR):
        asyncio.run(server())
    [record] = caplog.records
    assert record.message == "background.crashed"
    assert record.exc_info is not None and record.exc_info[0] is ZeroDivisionError


def test_work_beside_a_server_ends_with_it() -> None:
    async def goes_on() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    async def server() -> None:
        async with in_background(goes_on()):
            await asyncio.sleep(0)

    ended: list[bool] = []
    asyncio.run(server())
    assert ended == [True]
