"""The process of the scripted agent: performs its replies in the worktree, in order, and tells what it does.

Its standard input is the ``AgentWork`` as JSON, its one argument the replies file; what it prints is the line protocol.
It exits with 0 when every reply worked, 1 when one did not, 2 when the file is wrong. Standard library and PyYAML only:
it starts quickly and takes nothing from the server but its work.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from pilothouse.adapters.agents.inside import inside
from pilothouse.adapters.agents.scripted.replies import (
    Append,
    Ask,
    Call,
    Commit,
    Delete,
    Exit,
    Expect,
    Fail,
    Limit,
    Linger,
    Print,
    Replies,
    Reply,
    Run,
    Say,
    Sleep,
    Think,
    Tool,
    Use,
    Write,
)
from pilothouse.adapters.agents.scripted.script import replies_for
from pilothouse.adapters.agents.scripted.served import CallFailed, ToolServer
from pilothouse.adapters.agents.scripted.tools import CommandFailed, commit, shell
from pilothouse.adapters.agents.scripted.voice import MAX_TOLD, Conversation, Voice
from pilothouse.errors import BadInput

KNOWN = {
    "task": "task", "instructions": "instructions", "context": "context", "node": "node", "attempt": "attempt",
    "phase": "phase", "plan": "plan_id", "prompt": "prompt", "model": "model",
}  # fmt: skip
"""What may stand in braces, and the field of the work it means; beside ``turn``, ``session`` and ``result``."""
_IN_BRACES = re.compile(r"\{(" + "|".join((*KNOWN, "turn", "session", r"result(?:\.\w+)?")) + r")\}")
_LOOK_S = 0.02
"""Between two looks for an answer."""


class ReplyFailed(Exception):
    """Raised when a reply could not be carried out; the text is for people."""

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


def main() -> NoReturn:
    work = json.load(sys.stdin)
    voice = Voice()
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
        voice.finish(f"{script}: {error}")
        sys.exit(2)
    with ToolServer((work["tools"] or {}).get("command", ())) as server:
        _perform(Agent(root, work, voice, server), replies, voice)
    voice.finish()
    sys.exit(0)


def _perform(agent: Agent, replies: Replies, voice: Voice) -> None:
    """Raises ``SystemExit`` when one does not work."""
    for reply in replies:
        try:
            agent.perform(reply)
        except ReplyFailed as error:
            voice.finish(str(error), retry_after_ms=error.retry_after_ms)
            sys.exit(1)
        except BadInput as error:
            voice.finish(str(error))
            sys.exit(1)
        except OSError as error:
            voice.finish(f"{error.strerror}: {error.filename}")
            sys.exit(1)


class Agent:
    """Performs replies below ``root``."""

    def __init__(self, root: Path, work: Mapping[str, Any], voice: Voice, server: ToolServer) -> None:
        self._root = root
        self._voice = voice
        self._server = server
        self._result = ""
        """Of the last call."""
        self._run_folder = work["run"]
        self._permissions = work["permissions"]
        self._asked = 0
        self._remembered: set[str] = set()
        conversation = Conversation(work["private"], work["session_id"], work["new_session_id"])
        voice.tell("session", session_id=conversation.id, model=work["model"])
        if conversation.lost:
            voice.tell("noted", text="the conversation to resume is not known; this is a new one", level="warning")
        told = {"turn": str(conversation.turn), "session": conversation.id}
        self._values = {name: str(work[field]) for name, field in KNOWN.items()} | told

    def perform(self, reply: Reply) -> None:
        """Raises ``ReplyFailed``, ``BadInput`` or ``OSError``; ``SystemExit`` for a reply that is the last."""
        match reply:
            case Say(text):
                self._voice.speak("text", self._fill(text))
            case Think(text):
                self._voice.speak("reasoning", self._fill(text))
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
            case Tool(name, given, output):
                self._voice.end(self._voice.begin(name, input=self._fill(given)), name, self._fill(output))
            case Call(tool, arguments, may_fail):
                self._call(tool, arguments, may_fail)
            case Ask(tool, given):
                self._ask(tool, self._fill(given))
            case Use(model, given, output, cached, reasoning):
                self._use(self._fill(model), given, output, cached, reasoning)
            case Sleep(ms):
                self._voice.tell("noted", text=f"sleep {ms} ms")
                time.sleep(ms / 1000)
            case Commit(message):
                self._commit(self._fill(message))
            case Fail(message):
                raise ReplyFailed(self._fill(message))
            case Limit(ms):
                raise ReplyFailed("rate limited", retry_after_ms=ms)
            case Print(text, times):
                for _ in range(times):
                    self._voice.raw(self._fill(text))
            case Linger(ms):
                self._linger(ms)
            case Exit(status):
                sys.exit(status)

    def _fill(self, text: str) -> str:
        return _IN_BRACES.sub(lambda match: self._value(match[1]), text)

    def _value(self, name: str) -> str:
        if name in self._values:
            return self._values[name]
        field = name.partition(".")[2]
        if not field:
            return self._result
        try:
            found = json.loads(self._result)[field]
        except (ValueError, LookupError, TypeError):
            raise ReplyFailed(f"the last call brought nothing that is called {field!r}") from None
        return found if isinstance(found, str) else json.dumps(found)

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
        before = _lines(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open(mode, encoding="utf-8", newline="") as file:
            file.write(text)
        verb = "write" if mode == "w" else "append"
        self._edited(
            verb,
            self._fill(path),
            f"{len(text.encode())} bytes",
            change="created" if before is None else "modified",
            added=len(text.splitlines()),
            removed=before or 0 if mode == "w" else 0,
        )

    def _delete(self, path: str) -> None:
        place = self._place(path)
        before = None if place.is_symlink() else _lines(place)
        place.unlink()
        self._edited("delete", self._fill(path), "", change="deleted", added=0, removed=before or 0)

    def _edited(self, verb: str, path: str, output: str, *, change: str, added: int, removed: int) -> None:
        call_id = self._voice.begin(verb, title=path)
        self._voice.edited(path, change, added, removed)
        self._voice.end(call_id, verb, output)

    def _expect(self, path: str, wanted: str) -> None:
        place = inside(self._root, self._fill(path), "path")
        if wanted not in place.read_text(encoding="utf-8", errors="replace"):
            raise ReplyFailed(f"{self._fill(path)} does not contain {wanted!r}")
        self._voice.end(self._voice.begin("read", title=self._fill(path)), "read", f"contains {wanted!r}")

    def _run(self, command: str) -> None:
        # Not filled in: a task with a quote in it would be another command. The facts are in its environment.
        call_id = self._voice.begin("shell", title=command)
        status, output = shell(command, self._root)
        self._voice.end(call_id, "shell", output, "failed" if status else "succeeded")
        if status:
            raise ReplyFailed(f"the command exited with {status}")

    def _call(self, tool: str, arguments: Mapping[str, Any], may_fail: bool) -> None:
        """Whoever serves the tool tells of it."""
        self._voice.count_tool()
        try:
            self._result = self._server.call(tool, self._filled(arguments))
        except CallFailed as error:
            if not may_fail:
                raise ReplyFailed(f"{tool}: {error}") from None
            self._result = str(error)

    def _filled(self, value: Any) -> Any:
        match value:
            case str():
                return self._fill(value)
            case dict():
                return {name: self._filled(inner) for name, inner in value.items()}
            case list():
                return [self._filled(inner) for inner in value]
        return value

    def _ask(self, tool: str, given: str) -> None:
        if self._permissions == "ask" and tool not in self._remembered:
            allowed, remember = self._wait_for_answer(tool, given)
            if remember and allowed:
                self._remembered.add(tool)
        else:
            allowed = self._permissions != "deny"
        call_id = self._voice.begin(tool, input=given)
        self._voice.end(call_id, tool, status="succeeded" if allowed else "denied")
        if not allowed:
            raise ReplyFailed(f"{tool} was not permitted")

    def _wait_for_answer(self, tool: str, given: str) -> tuple[bool, bool]:
        """For as long as it takes: who asked it to work ends it, or answers for a person who does not."""
        if not self._run_folder:
            raise ReplyFailed("nobody can be asked here")
        self._asked += 1
        place = Path(self._run_folder, "answers", f"{self._asked}.json")
        self._voice.tell(
            "asked",
            request_id=str(self._asked),
            tool=tool,
            title=given[:200],
            input=given[:MAX_TOLD],
            can_remember=True,
        )
        while True:
            try:
                answer = json.loads(place.read_text(encoding="utf-8"))
            except FileNotFoundError:
                time.sleep(_LOOK_S)
                continue
            return answer["allowed"] is True, answer.get("remember") is True

    def _use(self, model: str, given: int, output: int, cached: int, reasoning: int) -> None:
        told = {"inputTokens": given, "outputTokens": output, "cachedTokens": cached, "reasoningTokens": reasoning}
        self._voice.tell("used", model=model, usage={**told, "turns": 1})

    def _linger(self, ms: int) -> NoReturn:
        """As agents do that have left a server of theirs running: it holds the pipe, in a session of its own."""
        self._voice.finish()
        subprocess.Popen(["sleep", str(ms / 1000)], stdin=subprocess.DEVNULL, start_new_session=True)
        time.sleep(ms / 1000)
        sys.exit(0)

    def _commit(self, message: str) -> None:
        call_id = self._voice.begin("commit", title=message.splitlines()[0])
        try:
            made = commit(self._root, message)
        except CommandFailed as error:
            self._voice.end(call_id, "commit", str(error), "failed")
            raise ReplyFailed(str(error)) from None
        self._voice.end(call_id, "commit", made)


def _lines(place: Path) -> int | None:
    """How many lines a file has; None when there is none."""
    try:
        return len(place.read_bytes().splitlines())
    except FileNotFoundError:
        return None
