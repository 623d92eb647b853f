"""From a command line of a model to a command: its shell, an environment without secrets, and a sandbox if it only
looks.

Runs nothing itself. Where the host's environment comes from, and which of its values are secrets, is told by whoever
makes this.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from pilothouse.adapters.work.sandbox.wrap import sandboxed
from pilothouse.adapters.work.specs import shell_argv
from pilothouse.core.plan.spec import Network, SandboxSpec, Shell
from pilothouse.core.run.commands import Command
from pilothouse.core.run.secret_names import OWN_PREFIX
from pilothouse.errors import BadInput

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Host(Protocol):
    """The variables of the host."""

    def for_command(self, given: Mapping[str, str], inherit: Iterable[str]) -> dict[str, str]: ...

    def redact(self, env: Mapping[str, str], inherited: Iterable[str] = ()) -> tuple[str, ...]: ...


class LocalShells:
    """Implements ``Shells`` of the engine. ``private`` is a directory of ours alone, below ``data_dir``."""

    def __init__(self, host: Host, *, data_dir: Path, private: Path) -> None:
        self._host = host
        self._data_dir = data_dir.absolute()
        self._private = private.absolute()

    async def command(
        self, line: str, *, workspace: str, env: Mapping[str, str], output: str, timeout_ms: int, read_only: bool
    ) -> Command:
        return await asyncio.to_thread(self._command, line, workspace, env, output, timeout_ms, read_only)

    async def forget(self, output: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self._place(output), ignore_errors=True)

    def _command(
        self, line: str, workspace: str, given: Mapping[str, str], output: str, timeout_ms: int, read_only: bool
    ) -> Command:
        if "\0" in line:
            raise BadInput("holds a NUL", field="command")
        root = Path(workspace).resolve()
        if not root.is_dir():
            raise BadInput(f"the workspace {workspace} is gone", field="workspace")
        for name, value in given.items():
            if not _NAME.fullmatch(name) or "\0" in value or name.upper().startswith(OWN_PREFIX):
                raise BadInput("is no variable that can be set", field=f"env.{name}")
        # Laid over afterwards, because what is given by value is meant as it is: $NAME in it stays.
        env = {**self._host.for_command({}, ()), **given, "PWD": str(root), "TERM": "dumb"}
        argv = shell_argv(line, Shell.BASH if shutil.which("bash", path=env.get("PATH")) else Shell.SH)
        if read_only:
            argv, env = self._confined(argv, env, root, output)
        redact = self._host.redact(env, given)
        return Command(argv=argv, cwd=str(root), output=output, env=env, timeout_ms=timeout_ms, redact=redact)

    def _confined(
        self, argv: tuple[str, ...], env: dict[str, str], root: Path, output: str
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Everything that it may write lies in a directory of its own, which is removed afterwards."""
        place = self._place(output)
        empty = place / "worktree"
        empty.mkdir(mode=0o700, parents=True)
        spec = SandboxSpec(network=Network.OFF, readable=(str(root),))
        found = sandboxed(argv, env, spec=spec, worktree=empty, private=place, data_dir=self._data_dir)
        return found.argv, {**found.env, "GIT_OPTIONAL_LOCKS": "0"}

    def _place(self, output: str) -> Path:
        return self._private / output.replace("/", "-")
