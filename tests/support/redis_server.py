"""A real redis-server on the loopback interface, for one test: it keeps nothing, and ends with its test."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.needs import need

STARTS_WITHIN_S = 20.0
ENDS_WITHIN_S = 10.0


@dataclass
class RedisServer:
    """``url`` stays the same when it is stopped and started again."""

    folder: Path
    port: int
    program: str
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Returns once it answers. What it kept before is gone."""
        given = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": self.folder}
        options = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        log = (self.folder / "redis.log").open("ab")
        with log:
            self.process = subprocess.Popen([self.program, *options], stdout=log, stderr=log, env={"PATH": os.defpath})
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "redis.log").read_text("utf-8", "replace"))
            time.sleep(0.01)

    def stop(self) -> None:
        """At once, as a machine that loses its power."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(ENDS_WITHIN_S)
            self.process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """One that runs. Skips the test where the program is not installed."""
    program = need("redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = RedisServer(folder, port, program)
    try:
        server.start()
        yield server
    finally:
        server.stop()
