"""What Codex prints as JSON lines → news, and its verdict. Two tables: type of event, and type of item → function.

It tells whole items, no pieces of them, and nothing of a command that its sandbox refused before it ran. Usage is
``usage``'s: known when the run has ended.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from pilothouse.adapters.agents.codex import events
from pilothouse.adapters.agents.codex.usage import spent
from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.endings import agrees, reason
from pilothouse.adapters.agents.failures import lasts, message_of, status_of
from pilothouse.adapters.agents.reading import (
    NOT_JSON,
    bounded,
    noted,
    passes,
    relative,
    retry_after_ms,
    said,
    shown,
    thought,
)
from pilothouse.adapters.agents.tool_servers import known_as
from pilothouse.core.run.agents import (
    AgentEnded,
    FileEdited,
    News,
    Noted,
    Permissions,
    SessionStarted,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.usage import Usage

_PASSES = re.compile(
    r"connection failed|stream disconnected|error sending request|high demand|at capacity", re.IGNORECASE
)
_CONFINED = re.compile(r"read-only file system|operation not permitted|permission denied", re.IGNORECASE)
"""What a command says that its sandbox kept from something."""
_CHANGES = {"add": "created", "delete": "deleted"}

_event = msgspec.json.Decoder(events.Event)


class CodexReader:
    """Implements ``AgentReader``."""

    def __init__(self, work: AgentWork) -> None:
        self._run = work.run
        self._worktree = work.worktree
        self._server = known_as(work.tools) if work.tools is not None else None
        self._model = work.model or work.config.model
        self._confined = work.permissions is not Permissions.ALLOW
        self._thread = ""
        self._open: set[str] = set()
        """Items that have been told to have begun."""
        self._used: events.Tokens | None = None
        self._error = ""
        self._failed = False

    @property
    def finished(self) -> bool:
        return self._failed or self._used is not None

    def line(self, line: bytes) -> Iterable[News]:
        try:
            event = _event.decode(line)
        except NOT_JSON:
            return noted(line)
        function = _EVENTS.get(event.type)
        return list(function(self, event)) if function is not None else ()

    def end(self, exit: Exit, errors: str) -> AgentEnded:
        news = tuple(spent(self._run, self._thread, self._model, self._used)) if self._thread else ()
        if self._used is not None and not self._failed and agrees(exit):
            return AgentEnded(exit=exit, ok=True, news=news)
        why = self._error if self._failed else ""
        if not why:
            why = reason(exit, errors)
            if not self.finished and exit.reason is ExitReason.EXITED:
                why = f"it ended without saying how its work went; {why}"
        transient = self._passes(exit, why)
        return AgentEnded(
            exit=exit,
            ok=False,
            error=bounded(why),
            transient=transient,
            retry_after_ms=retry_after_ms(why) if transient else 0,
            news=news,
        )

    def _passes(self, exit: Exit, why: str) -> bool:
        judged = self._failed or (exit.reason is ExitReason.EXITED and exit.signal is None)
        if not judged or lasts(why):
            return False
        status = status_of(why)
        return passes(status, why) or (status is None and _PASSES.search(why) is not None)

    # Functions of the table of events.

    def _start(self, event: events.Event) -> Iterable[News]:
        if not event.thread_id or event.thread_id == self._thread:
            return ()
        self._thread = event.thread_id
        return (SessionStarted(session_id=event.thread_id, model=self._model),)

    def _item_began(self, event: events.Event) -> Iterable[News]:
        item = event.item
        return self._begin(item) if item is not None and item.type in _TOOLS else ()

    def _item_changed(self, event: events.Event) -> Iterable[News]:
        item = event.item
        return self._plan(item) if item is not None and item.type == "todo_list" else ()

    def _item_ended(self, event: events.Event) -> Iterator[News]:
        item = event.item
        if item is None:
            return
        if item.type in _TOOLS:
            yield from self._begin(item)
            self._open.discard(item.id)
        if (function := _ITEMS.get(item.type)) is not None:
            yield from function(self, item)

    def _finish(self, event: events.Event) -> Iterable[News]:
        self._used = event.usage or events.Tokens()
        return ()

    def _warn(self, event: events.Event) -> Iterable[News]:
        """Of a try that failed, or of the last one: then ``turn.failed`` says the same again."""
        self._error = message_of(event.message)
        retries = event.message.startswith("Reconnecting")
        return (Noted(text=bounded(self._error), level="warning" if retries else "error"),)

    def _fail(self, event: events.Event) -> Iterable[News]:
        self._failed = True
        before, self._error = self._error, message_of(event.error.message) if event.error else self._error
        return (Noted(text=bounded(self._error), level="error"),) if self._error != before else ()

    # Functions of the table of items.

    def _begin(self, item: events.Item) -> Iterator[News]:
        if item.id in self._open:
            return
        self._open.add(item.id)
        if not self._is_served(item):
            tool, title, given = _TOOLS[item.type](item)
            title = relative(title, self._worktree)
            yield ToolStarted(call_id=item.id, tool=tool, title=bounded(title), input=bounded(given))
        yield Used(usage=Usage(tool_calls=1), model=self._model)

    def _say(self, item: events.Item) -> Iterable[News]:
        return said(item.text or "")

    def _think(self, item: events.Item) -> Iterable[News]:
        return thought(item.text or "")

    def _note(self, item: events.Item) -> Iterable[News]:
        return (Noted(text=bounded(item.message or ""), level="warning"),)

    def _plan(self, item: events.Item) -> Iterable[News]:
        steps = "\n".join(f"[{'x' if todo.completed else ' '}] {todo.text}" for todo in item.items or ())
        return (Noted(text=bounded(steps)),) if steps else ()

    def _ran(self, item: events.Item) -> Iterable[News]:
        output = item.aggregated_output or ""
        status = _status(item)
        if status is ToolStatus.FAILED and self._confined and _CONFINED.search(output):
            status = ToolStatus.DENIED
        return (ToolEnded(call_id=item.id, tool="shell", status=status, output=bounded(output)),)

    def _changed(self, item: events.Item) -> Iterator[News]:
        status = _status(item)
        if status is ToolStatus.SUCCEEDED:
            for change in item.changes or ():
                path = bounded(relative(change.path, self._worktree))
                yield FileEdited(path=path, change=_CHANGES.get(change.kind, "modified"))
        elif self._confined:
            status = ToolStatus.DENIED
        yield ToolEnded(call_id=item.id, tool="apply_patch", status=status)

    def _is_served(self, item: events.Item) -> bool:
        """Whether it is a call that is told by whoever serves it."""
        return self._server is not None and item.type == "mcp_tool_call" and item.server == self._server

    def _called(self, item: events.Item) -> Iterable[News]:
        if self._is_served(item):
            return ()
        tool, _, _ = _TOOLS[item.type](item)
        output = item.error.message if item.error else shown(item.result)
        return (ToolEnded(call_id=item.id, tool=tool, status=_status(item), output=bounded(output)),)


def _status(item: events.Item) -> ToolStatus:
    if item.status == "declined":
        return ToolStatus.DENIED
    failed = item.status == "failed" or item.error is not None or item.exit_code not in (0, None)
    return ToolStatus.FAILED if failed else ToolStatus.SUCCEEDED


def _command(item: events.Item) -> tuple[str, str, str]:
    """Commands are told with the shell around them."""
    given = item.command or ""
    try:
        words = shlex.split(given)
    except ValueError:
        words = []
    wrapped = len(words) == 3 and words[1] in ("-lc", "-c")
    return "shell", words[2] if wrapped else given, given


def _patch(item: events.Item) -> tuple[str, str, str]:
    paths = [change.path for change in item.changes or ()]
    return "apply_patch", paths[0] if len(paths) == 1 else "", "\n".join(paths)


def _foreign(item: events.Item) -> tuple[str, str, str]:
    return ".".join(filter(None, (item.server, item.tool))) or item.type, "", shown(item.arguments or item.prompt)


def _search(item: events.Item) -> tuple[str, str, str]:
    return "web_search", item.query or "", item.query or ""


_TOOLS: Mapping[str, Callable[[events.Item], tuple[str, str, str]]] = {
    "command_execution": _command,
    "file_change": _patch,
    "mcp_tool_call": _foreign,
    "collab_tool_call": _foreign,
    "web_search": _search,
}
"""Type of an item that is the use of a tool → the tool's name, a title, its input."""

_ITEMS: Mapping[str, Callable[[CodexReader, events.Item], Iterable[News]]] = {
    "agent_message": CodexReader._say,
    "plan": CodexReader._say,
    "reasoning": CodexReader._think,
    "error": CodexReader._note,
    "todo_list": CodexReader._plan,
    "command_execution": CodexReader._ran,
    "file_change": CodexReader._changed,
    "mcp_tool_call": CodexReader._called,
    "collab_tool_call": CodexReader._called,
    "web_search": CodexReader._called,
}

_EVENTS: Mapping[str, Callable[[CodexReader, events.Event], Iterable[News]]] = {
    "thread.started": CodexReader._start,
    "item.started": CodexReader._item_began,
    "item.updated": CodexReader._item_changed,
    "item.completed": CodexReader._item_ended,
    "turn.completed": CodexReader._finish,
    "turn.failed": CodexReader._fail,
    "error": CodexReader._warn,
}
