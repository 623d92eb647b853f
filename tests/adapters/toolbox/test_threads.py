"""What hangs on a thread takes nobody else's, and what was given up is not done afterwards."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.adapters.toolbox import addresses, read_file
from pilothouse.adapters.toolbox.read_file import ReadFileTool
from pilothouse.adapters.toolbox.threads import Threads
from pilothouse.adapters.toolbox.workspace import Workspace
from pilothouse.adapters.toolbox.write_file import WriteFileTool
from pilothouse.core.tools.spec import ToolContext
from pilothouse.errors import BadInput, Refused

MOST = 3


class Held:
    """A step that waits until the test lets go of it; on how many threads it was met."""

    def __init__(self) -> None:
        self.met = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, *_: Any, **__: Any) -> None:
        self.met.release()
        assert self.go.wait(20)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.met.acquire, timeout=20)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await story()

    asyncio.run(bounded())


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()


def test_lookups_that_hang_are_bounded_and_leave_every_other_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    held, real = Held(), socket.getaddrinfo

    def slow(host: str, *more: Any, **named: Any) -> Any:
        if host == "slow.example":
            held()
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setattr(addresses, "LOOKUPS", Threads("lookups", MOST))
    monkeypatch.setattr(addresses, "_WITHIN_S", 0.2)

    async def story() -> None:
        lookups = [asyncio.create_task(addresses.resolve("slow.example", 80)) for _ in range(50)]
        for _ in range(MOST):
            await held.reached()
        found = await asyncio.gather(*lookups, return_exceptions=True)
        assert all(isinstance(one, Refused) and "takes too long" in str(one) for one in found)
        assert sum(thread.name == "lookups" for thread in threading.enumerate()) == MOST
        assert not held.met.acquire(blocking=False), "those that were given up are not even begun"
        held.go.set()
        while any(thread.name == "lookups" for thread in threading.enumerate()):
            await asyncio.sleep(0.01)
        assert str((await addresses.resolve("127.0.0.1", 80))[0]) == "127.0.0.1"

    run(story)


def test_a_file_that_is_being_written_when_its_call_is_given_up_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, real = Held(), Workspace._fill

    def slow(*given: Any) -> None:
        real(*given)
        held()

    monkeypatch.setattr(Workspace, "_fill", slow)
    (tmp_path / "there").write_text("before")

    async def story() -> None:
        arguments = {"path": "there", "content": "after"}
        task = asyncio.create_task(WriteFileTool().run(arguments, ToolContext(owner="o", workspace=str(tmp_path))))
        await held.reached()
        await cancelled(task)
        held.go.set()
        while any(path.name.startswith(".pilothouse") for path in tmp_path.iterdir()):
            await asyncio.sleep(0.01)
        assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]

    run(story)


def test_a_file_that_is_just_taking_its_place_has_it_before_the_call_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, real = Held(), os.rename

    def slow(*given: Any, **named: Any) -> None:
        held()
        real(*given, **named)

    monkeypatch.setattr("pilothouse.adapters.toolbox.workspace.os.rename", slow)

    async def story() -> None:
        arguments = {"path": "new", "content": "written"}
        task = asyncio.create_task(WriteFileTool().run(arguments, ToolContext(owner="o", workspace=str(tmp_path))))
        await held.reached()
        task.cancel()
        done, _ = await asyncio.wait((task,), timeout=0.05)
        task.cancel()
        assert not done
        held.go.set()
        await asyncio.wait((task,))
        assert task.cancelled()
        assert (tmp_path / "new").read_text() == "written"

    run(story)


def test_a_file_that_was_changed_while_its_edit_was_being_written_keeps_that_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Workspace._fill

    def meanwhile(*given: Any) -> None:
        real(*given)
        (tmp_path / "f").write_text("somebody else's")

    monkeypatch.setattr(Workspace, "_fill", meanwhile)
    (tmp_path / "f").write_text("one")

    async def story() -> None:
        arguments = {"path": "f", "edits": [{"old": "one", "new": "two"}]}
        with pytest.raises(BadInput, match="changed by somebody else"):
            await WriteFileTool().run(arguments, ToolContext(owner="o", workspace=str(tmp_path)))
        assert [path.read_text() for path in tmp_path.iterdir()] == ["somebody else's"]

    run(story)


def test_reading_far_into_a_file_ends_when_its_call_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_file, "_BLOCK", 1)
    monkeypatch.setattr(read_file, "FILES", Threads("far", 1))
    (tmp_path / "f").write_text("x" * 5_000_000)

    async def story() -> None:
        arguments = {"path": "f", "offset": 10**9}
        task = asyncio.create_task(ReadFileTool().run(arguments, ToolContext(owner="o", workspace=str(tmp_path))))
        while not any(thread.name == "far" for thread in threading.enumerate()):
            await asyncio.sleep(0)
        await cancelled(task)
        while any(thread.name == "far" for thread in threading.enumerate()):
            await asyncio.sleep(0.001)

    run(story)


@given(st.text("a\n\r", max_size=60), st.integers(1, 40), st.integers(1, 10), st.integers(1, 7))
def test_reading_from_any_line_on_is_the_same_as_reading_all_of_them(
    tmp_path_factory: pytest.TempPathFactory, text: str, offset: int, limit: int, block: int
) -> None:
    folder = tmp_path_factory.mktemp("w")
    (folder / "f").write_bytes(text.encode())
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_file, "_BLOCK", block)
        work = ReadFileTool().run(
            {"path": "f", "offset": offset, "limit": limit}, ToolContext(owner="o", workspace=str(folder))
        )
        if offset > max(1, len(lines)):
            with pytest.raises(BadInput, match="fewer than"):
                asyncio.run(work)
            return
        found = asyncio.run(work).result
    expected = lines[offset - 1 : offset - 1 + limit]
    assert found["text"] == "\n".join(line.rstrip("\r") for line in expected)
    assert ("more" in found) == (offset - 1 + limit < len(lines))
