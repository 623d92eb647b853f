"""One run of an agent as a driver launches it, without an executor: its process, and what its reader makes of it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from pilothouse.adapters.agents.driver import AgentDriver, AgentWork
from pilothouse.core.run.agents import AgentEnded, News, Text
from pilothouse.core.run.commands import Exit, ExitReason

N = TypeVar("N", bound=News)
PATIENCE_S = 90.0


class AgentRun:
    """A context manager; nothing of the run is left after it."""

    def __init__(self, driver: AgentDriver, work: AgentWork, env: Mapping[str, str]) -> None:
        self.work = work
        launch = driver.launch(work)
        self._reader = driver.reader(work)
        self._changed = threading.Condition()
        self._over = False
        self.news: list[News] = []
        self._errors = Path(work.run) / "stderr"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                launch.argv,
                cwd=work.worktree,
                env={**env, **driver.facts.quiet, **launch.env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self.process.stdin is not None
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        with suppress(BrokenPipeError):
            self.process.stdin.write(launch.stdin.encode())
            self.process.stdin.close()

    def __enter__(self) -> AgentRun:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._kill()
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _kill(self) -> None:
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.news.extend(self._reader.line(line.rstrip(b"\n")))
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def wait(self, kind: type[N], met: Callable[[N], bool] = lambda _: True, *, number: int = 1) -> N:
        """The ``number``-th news of a kind for which ``met`` holds."""

        def found() -> list[N]:
            return [one for one in self.news if isinstance(one, kind) and met(one)]

        with self._changed:
            self._changed.wait_for(lambda: len(found()) >= number or self._over, PATIENCE_S)
            assert len(found()) >= number, self.news
            return found()[number - 1]

    def end(self) -> AgentEnded:
        """What is made of its end, once it has come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._over, PATIENCE_S), self.news
        # Not collected yet: the number of its group stays its own until the group is killed.
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        self._kill()
        status = self.process.returncode
        exit = Exit(
            reason=ExitReason.EXITED,
            code=status if status >= 0 else None,
            signal=-status if status < 0 else None,
        )
        return self._reader.end(exit, self._errors.read_text(errors="replace"))

    def of(self, kind: type[N]) -> list[N]:
        return [one for one in self.news if isinstance(one, kind)]

    @property
    def said(self) -> str:
        return "".join(one.text for one in self.of(Text))
