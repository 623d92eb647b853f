"""The executor of this machine: commands run under the warden of the data directory and outlive this process.

Owns the connection to the warden, its heartbeat, and starting a warden where there is none. What a warden does is
``warden.py``'s; this side never touches a process.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pilothouse.adapters.work import launch
from pilothouse.adapters.work.client import Disconnected, WardenClient, connect, exit_from
from pilothouse.adapters.work.places import places
from pilothouse.adapters.work.protocol import Message
from pilothouse.core.run.commands import Command, Exit, ExitReason, Grew, Inventory
from pilothouse.errors import ExecutorFailed, Unavailable

_ATTEMPTS = 4
_START_WITHIN = 30.0
"""Seconds, a predecessor that is still ending its commands included."""
_LONGEST_HEARTBEAT = 5.0


class LocalExecutor:
    """Implements the engine's ``Executor`` port on this machine.

    ``epoch`` is the owner's: a warden that has met a greater one refuses every call with ``ExecutorFailed``.
    ``orphan_grace`` is in seconds. Use it as an async context manager, or call ``aclose``.
    """

    def __init__(self, data_dir: Path, epoch: int, orphan_grace: float = 60.0) -> None:
        if sys.platform == "win32":
            raise Unavailable("commands cannot be ended for certain on Windows: run Pilothouse in WSL")
        self._data_dir = data_dir.absolute()
        self._where = places(self._data_dir)
        self._epoch = epoch
        self._orphan_grace = orphan_grace
        self._client: WardenClient | None = None
        self._connecting = asyncio.Lock()
        self._heartbeat: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> LocalExecutor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def outputs(self) -> Path:
        """Where the outputs of commands are: the root of the log store that reads them."""
        return self._where.outputs

    async def warden_pid(self) -> int:
        """The process id of the warden, for diagnostics."""
        return (await self._connected()).pid

    async def open(self, attempt: str, fence: int) -> str:
        answer = await self._request("open", attempt=attempt, fence=fence)
        return str(answer["instance"])

    async def start(self, command: Command, key: str) -> None:
        # Asking twice is safe: a warden that took the command wrote its key down before it ran it.
        await self._request(
            "start",
            key=key,
            argv=command.argv,
            cwd=command.cwd,
            env=command.env,
            output=command.output,
            # A warden from before this field merges both streams into the output, and the command runs all the same.
            errors=command.errors,
            stdin=command.stdin,
            timeoutMs=command.timeout_ms,
            graceMs=command.grace_ms,
            redact=command.redact,
        )

    async def attach(self, key: str, from_offset: int = 0) -> AsyncIterator[Grew | Exit]:
        seen, seen_errors = from_offset, 0
        while True:
            client = await self._connected()
            watch = client.watch(key)
            try:
                found = await client.request("attach", key=key)
                if found["state"] == "unknown":
                    yield Exit(reason=ExitReason.LOST, error="unknown to the warden")
                    return
                watch.grew(found)
                if found["state"] == "ended":
                    watch.exit = exit_from(found["exit"])
                while True:
                    to = watch.exit.output_to if watch.exit else watch.to
                    if to > seen or watch.errors_to > seen_errors:
                        seen, seen_errors = max(to, seen), watch.errors_to
                        yield Grew(to)
                    if watch.exit is not None:
                        yield watch.exit
                        return
                    await client.changed(watch)
            except Disconnected:
                self._check_usable()  # a warden that died: its successor knows what became of the command
            finally:
                client.unwatch(watch)

    async def cancel(self, key: str, grace_ms: int | None = None) -> None:
        await self._request("cancel", key=key, graceMs=grace_ms)

    async def inventory(self) -> Inventory:
        answer = await self._request("inventory")
        return Inventory(
            instance=answer["instance"],
            running=frozenset(answer["running"]),
            ended={key: exit_from(exit) for key, exit in answer["ended"].items()},
        )

    async def forget(self, key: str) -> None:
        await self._request("forget", key=key)

    async def shutdown(self, *, when_idle: bool = False) -> None:
        """End everything that runs, and the warden; or have it end once nothing runs. Then ``aclose`` this executor.

        Returns when the warden has ended (at once with ``when_idle``). No warden is no error.
        """
        self._check_usable()
        try:
            client = await connect(self._where, self._epoch, self._orphan_grace)
        except OSError:
            await self.aclose()
            return
        try:
            await client.request("shutdown", when="idle" if when_idle else "now")
            if not when_idle:
                async with asyncio.timeout(_START_WITHIN):
                    await client.wait_closed()
        except Disconnected:
            pass
        except TimeoutError:
            raise ExecutorFailed("the warden did not end: a process below it cannot be killed") from None
        finally:
            await client.aclose()
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the warden; what it runs goes on. Idempotent."""
        self._closed = True
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.cancel()
            await asyncio.wait({heartbeat})
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _request(self, op: str, **fields: Any) -> Message:
        for _ in range(_ATTEMPTS):
            client = await self._connected()
            try:
                return await client.request(op, **fields)
            except Disconnected:
                self._check_usable()
        raise ExecutorFailed(f"the warden ended during {op}, {_ATTEMPTS} times in a row")

    def _check_usable(self) -> None:
        if self._closed:
            raise ExecutorFailed("this executor is closed")

    async def _connected(self) -> WardenClient:
        """A live connection; starts a warden when there is none. Raises ``ExecutorFailed``."""
        self._check_usable()
        if self._client is not None and self._client.open:
            return self._client
        async with self._connecting:
            self._check_usable()
            if self._client is not None and self._client.open:
                return self._client
            if self._client is not None:
                await self._client.aclose()
                self._client = None
            client = await self._reach()
            if self._closed:
                await client.aclose()
                self._check_usable()
            self._client = client
            if self._heartbeat is None or self._heartbeat.done():
                self._heartbeat = asyncio.create_task(self._beat(), name="warden-heartbeat")
            return client

    async def _reach(self) -> WardenClient:
        trouble = ""
        for _ in range(_ATTEMPTS):
            try:
                return await connect(self._where, self._epoch, self._orphan_grace)
            except (OSError, Disconnected):
                trouble = await asyncio.to_thread(self._launch)
        raise ExecutorFailed(f"no warden could be started: {trouble or 'each one ended at once'}")

    def _launch(self) -> str:
        """Start a warden and wait until one serves; answers why not."""
        argv, env = launch.command(self._data_dir, self._orphan_grace)
        try:
            done = subprocess.run(
                argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_START_WITHIN, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.stdout.endswith(launch.READY):
            return ""
        return (done.stdout + done.stderr).decode("utf-8", "replace").strip()[-500:]

    async def _beat(self) -> None:
        """Tell the warden that the owner lives, several times within its grace, as long as it is connected."""
        interval = min(_LONGEST_HEARTBEAT, self._orphan_grace / 4)
        while True:
            await asyncio.sleep(interval)
            client = self._client
            if client is None or not client.open:
                continue  # the next request connects
            try:
                await client.request("ping")
            except (Disconnected, ExecutorFailed):
                continue  # whoever needs the warden next hears of it
