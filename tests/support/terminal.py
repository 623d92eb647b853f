"""The real command line, as people use it: processes of ``pilothouse`` over a data directory of their own.

Waits are for conditions and bounded. When a ``Desk`` is left, the server it caused and everything that server ran
are ended by their process ids, and nothing may be left alive.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

from tests.support.flow import PATIENCE_S

from pilothouse.interfaces.cli.main import run_line
from pilothouse.owner import Owner, read_owner

T = TypeVar("T")

PILOTHOUSE = (sys.executable, "-m", "pilothouse.interfaces.cli.main")
ORPHAN_GRACE_S = 20.0
"""Longer than a client needs to start a successor of a killed owner on a busy machine."""


def until(met: Callable[[], T | None], what: Callable[[], str] = lambda: "") -> T:
    """The first answer that counts as true; bounded. ``what`` says more when it does not come."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := met()):
        assert time.monotonic() < deadline, f"it did not happen in {PATIENCE_S:g} s. {what()}"
        time.sleep(0.01)
    return found


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout; anything beside it is an error."""
        return json.loads(self.out)


class Process(NamedTuple):
    pid: int
    parent: int
    command: str


class Command:
    """One ``pilothouse`` process. Its output goes to files, so that it never waits for a reader."""

    def __init__(self, argv: list[str], env: Mapping[str, str], cwd: Path, where: Path, stdin: bytes | None) -> None:
        where.mkdir()
        self._out, self._err, given = where / "out", where / "err", where / "in"
        given.write_bytes(stdin or b"")
        with given.open("rb") as source, self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=source, stdout=out, stderr=err)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def out(self) -> str:
        return self._out.read_text("utf-8", "replace")

    @property
    def err(self) -> str:
        return self._err.read_text("utf-8", "replace")

    def press_ctrl_c(self) -> None:
        self.signal(signal.SIGINT)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def says(self, words: str) -> None:
        """Wait until it has said so, on either stream."""
        until(lambda: words in self.out + self.err, lambda: f"Waited for {words!r} in: {self.out}{self.err}")

    def wait(self) -> Said:
        """Its answer, once it has ended."""
        code = until(lambda: self._over(), lambda: f"It said: {self.out}{self.err}")[0]
        return Said(code, self.out, self.err)

    def end(self) -> None:
        """For a clean-up: kill it when it lives."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE_S)

    def _over(self) -> tuple[int] | None:
        code = self._process.poll()
        return None if code is None else (code,)


class Screen:
    """A command at a real terminal: it sees a tty, and Ctrl-C is typed."""

    def __init__(self, argv: list[str], env: Mapping[str, str], cwd: Path) -> None:
        self._keyboard, terminal = pty.openpty()
        fcntl.fcntl(self._keyboard, fcntl.F_SETFL, os.O_NONBLOCK)
        self._shown = b""
        try:
            self._process = subprocess.Popen(
                argv,
                env={**env, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
                cwd=cwd,
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        finally:
            os.close(terminal)

    def shows(self, words: str) -> None:
        until(lambda: words in self._read(), lambda: f"Waited for {words!r} in: {self._read()}")

    def press_ctrl_c(self) -> None:
        os.write(self._keyboard, b"\x03")

    def has_shown(self, words: str, times: int) -> bool:
        return self._read().count(words) >= times

    def types(self, line: str) -> None:
        os.write(self._keyboard, f"{line}\n".encode())

    def press_ctrl_d(self) -> None:
        os.write(self._keyboard, b"\x04")

    def wait(self) -> Said:
        until(lambda: self._read() and self._process.poll() is not None, lambda: f"It said: {self._read()}")
        return Said(self._process.returncode, self._read(), "")

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE_S)
        os.close(self._keyboard)

    def _read(self) -> str:
        try:
            while data := os.read(self._keyboard, 1 << 16):
                self._shown += data
        except OSError:  # nothing more at the moment, or the other end is closed
            pass
        return self._shown.decode("utf-8", "replace")


class Desk:
    """Somebody's machine: a data directory and as many terminals as they like."""

    def __init__(self, path: Path, **environ: str) -> None:
        """``environ`` is added to the environment of every command, and so of a server that it starts."""
        self.path = path
        self.data_dir = path / "data"
        self.env = {
            **os.environ,
            "PILOTHOUSE_DATA_DIR": str(self.data_dir),
            "PILOTHOUSE_ORPHAN_GRACE": f"{ORPHAN_GRACE_S:g}",
            "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
            **environ,
        }
        self._commands: list[Command | Screen] = []
        self._numbers = count()

    def start(self, *args: str | Path, cwd: Path | None = None, stdin: bytes | None = None) -> Command:
        where = self.path / f"command-{next(self._numbers)}"
        command = Command([*PILOTHOUSE, *map(str, args)], self.env, cwd or self.path, where, stdin)
        self._commands.append(command)
        return command

    def run(self, *args: str | Path, cwd: Path | None = None, stdin: bytes | None = None) -> Said:
        return self.start(*args, cwd=cwd, stdin=stdin).wait()

    def run_here(self, *args: str | Path) -> Said:
        """The same command line within this process: for what is asked often and needs no process."""
        out, err = StringIO(), StringIO()
        with patch.dict(os.environ, self.env, clear=True), redirect_stdout(out), redirect_stderr(err):
            code = run_line([*map(str, args)])
        return Said(code, out.getvalue(), err.getvalue())

    def ask(self, *args: str | Path) -> Any:
        """The JSON value that a verb answers; it must succeed."""
        said = self.run_here(*args, "--json")
        assert said.code == 0, said
        return said.json

    def sit_down(self, *args: str | Path) -> Screen:
        screen = Screen([*PILOTHOUSE, *map(str, args)], self.env, self.path)
        self._commands.append(screen)
        return screen

    def plan(self, text: str, name: str = "plan.yaml") -> Path:
        file = self.path / name
        file.write_text(text, encoding="utf-8")
        return file

    def owner(self) -> Owner:
        """The server of the data directory, once there is one."""
        return until(lambda: read_owner(self.data_dir))

    def only_owner(self) -> int:
        """The pid of the server, once no other one lives: where two were started at once, one gives way."""
        until(lambda: self.owner_pids() == [self.owner().pid], lambda: f"There are {self.processes()}")
        return self.owner().pid

    def owner_pids(self) -> list[int]:
        """Every background server that lives, also one that is starting or not wanted."""
        return [one.pid for one in self.processes() if "pilothouse.app owner" in one.command]

    def warden_pid(self) -> int:
        """Keepers are forks of the warden, so it is the one whose parent is none of them."""
        ours = {one.pid: one.parent for one in self.processes() if "adapters.work.daemon" in one.command}
        [warden] = [pid for pid, parent in ours.items() if parent not in ours]
        return warden

    def processes(self) -> list[Process]:
        """Everything alive that works below the data directory or has it in its command line."""
        below = str(self.data_dir)
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                inside = (str((entry / "cwd").readlink()) + "/").startswith(below + "/")
            except OSError:
                continue  # it has just ended
            if state != "Z" and (inside or f"{below} " in command + " " or f"{below}/" in command):
                found.append(Process(int(entry.name), int(parent), command))
        return found

    def leave(self) -> None:
        """End what was started here. Keepers end what they keep when their warden is killed."""
        for command in self._commands:
            command.end()
        until(self._nothing_lives, lambda: f"Left alive: {self.processes()}")

    def _nothing_lives(self) -> bool:
        alive = self.processes()
        servers = [one for one in alive if "pilothouse.app owner" in one.command]
        wardens = [one for one in alive if "adapters.work.daemon" in one.command]
        pids = {one.pid for one in wardens}
        for one in servers or [one for one in wardens if one.parent not in pids]:
            try:
                os.kill(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended by itself
        return not alive


@contextmanager
def desk(path: Path, **environ: str) -> Iterator[Desk]:
    made = Desk(path, **environ)
    try:
        yield made
    finally:
        made.leave()


def held(gate: Path, then: str = "true", ready: Path | None = None) -> str:
    """A shell command that says it is there, waits for a file, and goes on."""
    here = f"echo $$ > {ready}; " if ready else ""
    return f"{here}while [ ! -f {gate} ]; do sleep 0.02; done; {then}"
