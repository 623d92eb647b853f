"""The one function that runs git. Everything else in this package goes through :meth:`Runner.run`.

Owns the environment, the options every command gets, the bound on its time, and that a cancelled command is
gone before the cancellation goes on. Does not know what any command means; its parsers stand in ``parse``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pilothouse.adapters.git.process import run_process
from pilothouse.core.run.secret_names import is_withheld
from pilothouse.errors import GitFailed, Unavailable

QUICK_SECONDS = 120.0
"""Bound for commands that touch objects and refs only."""
SLOW_SECONDS = 1800.0
"""Bound for commands that write or read whole checkouts, perhaps through filters such as LFS."""

OPTIONS = (
    "--no-pager",
    # The user's hooks are for the user's commits: they prompt, reformat, push, and outlive a stop.
    "-c", "core.hooksPath=/dev/null",
    # A file system monitor is a daemon per worktree that nobody would end.
    "-c", "core.fsmonitor=false",
    # Housekeeping in the background would race with every other worktree; the user's own git does it.
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
    # A signature asks for a passphrase, and nobody is there to type it.
    "-c", "commit.gpgSign=false",
    # Submodules are handled by one explicit command only.
    "-c", "submodule.recurse=false",
    # ext:: addresses run any command.
    "-c", "protocol.ext.allow=never",
    "-c", "color.ui=false",
    # What we write is UTF-8, whatever the header of the user's own commits says.
    "-c", "i18n.commitEncoding=UTF-8",
    # An embedded repository is reported from stderr by us, without the half page of advice.
    "-c", "advice.addEmbeddedRepo=false",
    # One worker per core writes large checkouts. Starting them costs more than they save below some thousand files.
    "-c", "checkout.workers=0",
    "-c", "checkout.thresholdForParallelism=4000",
)  # fmt: skip

_KEPT_GIT_VARIABLES = frozenset(
    {
        # Who the user is, and which configuration counts.
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_ATTR_NOSYSTEM",
        # Where git itself and its transports live; filters such as LFS and submodules may need the network.
        "GIT_EXEC_PATH",
        "GIT_TEMPLATE_DIR",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSH_VARIANT",
        "GIT_SSL_CAINFO",
        "GIT_SSL_CAPATH",
        "GIT_SSL_NO_VERIFY",
        "GIT_PROXY_COMMAND",
        "GIT_ALLOW_PROTOCOL",
    }
)

_KEPT_DOORS = frozenset({"SSH_AUTH_SOCK"})
"""What is withheld from commands by its name, and git cannot do without: submodules come over SSH."""

_SET_VARIABLES = {
    # Nobody sits at a terminal: fail instead of asking, in a window neither.
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    # An editor that changes nothing, should some command want one.
    "GIT_EDITOR": ":",
    "GIT_SEQUENCE_EDITOR": ":",
    "GIT_MERGE_AUTOEDIT": "no",
    # Messages we look at in failures stay English.
    "LC_ALL": "C",
    "LANGUAGE": "",
}


class Result(NamedTuple):
    """What a git command answered."""

    status: int
    stdout: bytes
    stderr: str
    truncated: bool = False

    @property
    def text(self) -> str:
        """stdout with its final newline dropped; names that are not UTF-8 survive as surrogates."""
        return os.fsdecode(self.stdout.removesuffix(b"\n"))


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment git gets: the user's, without what would point it at another repository.

    A process started from a hook, an alias or ``git rebase --exec`` inherits GIT_DIR, GIT_INDEX_FILE,
    GIT_WORK_TREE, GIT_OBJECT_DIRECTORY, GIT_PREFIX …, each of which silently redirects a command, and
    GIT_AUTHOR_DATE or GIT_TRACE, which change commits or output. Hence a list of what may stay, not of what
    must go. Secrets are no business of git's filters, and a node's command can configure one.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if name in _KEPT_GIT_VARIABLES | _KEPT_DOORS or not (name.startswith("GIT_") or is_withheld(name))
    }
    return kept | _SET_VARIABLES


class Runner:
    """Runs git commands with one environment. How many run at once is the caller's to bound."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._env = clean_environment(os.environ if environ is None else environ)
        self._git: str | None = None

    def variable(self, name: str) -> str:
        """What commands get in this variable; empty when it is not set."""
        return self._env.get(name, "")

    async def run(
        self,
        *args: str,
        cwd: str,
        stdin: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
        writes: bool = True,
        ceiling: bool = False,
        timeout: float = QUICK_SECONDS,
        limit: int | None = None,
    ) -> Result:
        """Run ``git -C cwd args``.

        ``writes=False`` takes no optional lock, so that a reader never makes a writer of the user's fail.
        ``ceiling`` keeps git from looking for a repository above ``cwd``: with a worktree whose ``.git`` was
        deleted it would otherwise find, and commit to, whatever surrounds it. ``timeout`` is in seconds.
        Output beyond ``limit`` bytes ends the command and is dropped.

        Raises ``GitFailed`` when the status is not in ``ok`` or the time is up, ``Unavailable`` without git.
        Cancelled, it ends the command's whole process group, waits until it is gone, and goes on.
        """
        variables = dict(self._env)
        if not writes:
            variables["GIT_OPTIONAL_LOCKS"] = "0"
        if ceiling:
            variables["GIT_CEILING_DIRECTORIES"] = str(Path(cwd).parent)
        if env:
            variables.update(env)
        data = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
        argv = [self._executable(), "-C", cwd, *OPTIONS, *args]
        try:
            ended = await run_process(argv, variables, stdin=data, timeout=timeout, limit=limit)
        except OSError as failed:
            raise Unavailable(f"git could not be started: {failed}") from failed
        stderr = ended.stderr.decode("utf-8", "replace")
        if ended.timed_out:
            raise GitFailed(list(args), ended.status, f"timed out after {timeout:g} s. {stderr}")
        if ended.status not in ok and not ended.truncated:
            raise GitFailed(list(args), ended.status, stderr)
        return Result(ended.status, ended.stdout, stderr, ended.truncated)

    def _executable(self) -> str:
        if self._git is None:
            self._git = shutil.which("git", path=self._env.get("PATH"))
        if self._git is None:
            raise Unavailable("git is not installed, or not on PATH")
        return self._git
