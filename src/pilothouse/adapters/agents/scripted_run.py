"""The process of the scripted agent: performs its replies in the worktree, in order, and tells what it does.

Its standard input is the ``AgentWork`` as JSON, its one argument the replies file. It exits with 0 when every reply
worked, 1 when one did not, 2 when the file is wrong. Standard library and PyYAML only: it starts quickly and takes
nothing from the server but its work.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from pilothouse.adapters.agents.inside import inside
from pilothouse.adapters.agents.replies import (
    Append,
    Commit,
    Delete,
    Expect,
    Fail,
    Reply,
    Run,
    Say,
    Sleep,
    Write,
    replies_for,
)
from pilothouse.errors import BadInput

KNOWN = {
    "task": "task", "instructions": "instructions", "context": "context", "node": "node", "attempt": "attempt",
    "phase": "phase", "plan": "plan_id",
}  # fmt: skip
"""What may stand in braces, and the field of the work it means."""
_IN_BRACES = re.compile(r"\{(" + "|".join(KNOWN) + r")\}")
_OURS = ".orchestrator"


class ReplyFailed(Exception):
    """Raised when a reply could not be carried out; the text is for people."""


def main() -> NoReturn:
    work = json.load(sys.stdin)
    try:
        script = sys.argv[1]
        root = Path(work["worktree"])
        try:
            text = inside(root, script, "script").read_text(encoding="utf-8")
            replies = replies_for(text, work["node"], work["attempt"])
        except OSError as error:
            raise BadInput(f"cannot be read: {error.strerror}", fix="is it committed?") from None
        except UnicodeDecodeError:
            raise BadInput("is not UTF-8 text") from None
    except BadInput as error:
        _end(f"{script}: {error}", 2)
    agent = Agent(root, work)
    for reply in replies:
        try:
            agent.perform(reply)
        except (ReplyFailed, BadInput) as error:
            _end(f"failed: {error}", 1)
        except OSError as error:
            _end(f"failed: {error.strerror}: {error.filename}", 1)
    sys.exit(0)


class Agent:
    """Performs replies below ``root``."""

    def __init__(self, root: Path, work: Mapping[str, Any]) -> None:
        self._root = root
        self._values = {name: str(work[field]) for name, field in KNOWN.items()}

    def perform(self, reply: Reply) -> None:
        """Raises ``ReplyFailed``, ``BadInput`` or ``OSError``."""
        match reply:
            case Say(text):
                _tell("message", self._fill(text))
            case Write(path, content):
                self._write(path, content, "w")
            case Append(path, content):
                self._write(path, content, "a")
            case Delete(path):
                self._delete(path)
            case Expect(path, contains):
                self._expect(path, self._fill(contains))
            case Run(command):
                self._run(command)
            case Sleep(ms):
                _tell("wait", f"sleep {ms} ms")
                time.sleep(ms / 1000)
            case Commit(message):
                self._commit(self._fill(message))
            case Fail(message):
                raise ReplyFailed(self._fill(message))

    def _fill(self, text: str) -> str:
        return _IN_BRACES.sub(lambda match: self._values[match[1]], text)

    def _place(self, path: str) -> Path:
        """A link in the last place is not followed here; those on the way must stay inside."""
        pure = PurePosixPath(self._fill(path))
        place = inside(self._root, str(pure.parent), "path") / pure.name
        if not pure.name or pure.name == ".." or ".git" in place.relative_to(self._root).parts[:1]:
            raise BadInput(f"{str(pure)!r} is not a file of the agent's", field="path")
        return place

    def _write(self, path: str, content: str, mode: str) -> None:
        text = self._fill(content)
        place = self._place(path)
        place = inside(self._root, str(place.relative_to(self._root)), "path")
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open(mode, encoding="utf-8", newline="") as file:
            file.write(text)
        _tell("file", f"{'write' if mode == 'w' else 'append'} {self._fill(path)} ({len(text.encode())} bytes)")

    def _delete(self, path: str) -> None:
        self._place(path).unlink()
        _tell("file", f"delete {self._fill(path)}")

    def _expect(self, path: str, wanted: str) -> None:
        place = inside(self._root, self._fill(path), "path")
        if wanted not in place.read_text(encoding="utf-8", errors="replace"):
            raise ReplyFailed(f"{self._fill(path)} does not contain {wanted!r}")
        _tell("file", f"read {self._fill(path)}: contains {wanted!r}")

    def _run(self, command: str) -> None:
        # Not filled in: a task with a quote in it would be another command. The facts are in its environment.
        _tell("command", f"$ {command}")
        status = subprocess.run(["sh", "-c", command], cwd=self._root, stdin=subprocess.DEVNULL).returncode
        if status:
            raise ReplyFailed(f"the command exited with {status}")

    def _commit(self, message: str) -> None:
        self._git("add", "--all")
        if (self._root / _OURS).exists():
            self._git("reset", "--quiet", "--", _OURS)
        self._git("commit", "--quiet", "--no-gpg-sign", "-m", message, env=self._identity())
        _tell("commit", f"commit {self._git('rev-parse', '--short', 'HEAD').strip()} {message.splitlines()[0]}")

    def _identity(self) -> dict[str, str]:
        """A name to commit under where the user has none."""
        if "GIT_AUTHOR_EMAIL" in os.environ or self._git("config", "--get", "user.email", ok=(0, 1)):
            return {}
        who = {"NAME": "Pilothouse", "EMAIL": "pilothouse@localhost.invalid"}
        return {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in who.items()}

    def _git(self, *args: str, ok: tuple[int, ...] = (0,), env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            ["git", *args],
            cwd=self._root,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        if done.returncode not in ok:
            raise ReplyFailed(f"git {args[0]}: {done.stdout.strip()[-500:]}")
        return done.stdout


def _tell(kind: str, text: str) -> None:
    """Everything the agent says goes through here; ``kind`` is not shown: it is for a driver that reads events."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _end(text: str, status: int) -> NoReturn:
    _tell("error", " ".join(text.splitlines()))
    sys.exit(status)
