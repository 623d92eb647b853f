"""What OpenCode prints as JSON lines → news, and its verdict. A table: type of event → function.

It has no last event: a run has succeeded when its process ends with 0 and the model's last answer asks for no tool. It
tells whole texts and tools that have ended; of its retries, and of agents below its own, it tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.adapters.agents.diffs import changes_of
from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.endings import reason
from pilothouse.adapters.agents.failures import lasts, message_of
from pilothouse.adapters.agents.opencode.store import Tokens, model_of, spent_below, usage_of
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
    ToolServer,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.usage import Usage

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_DENIED = re.compile(r"rejected permission|rule which prevents")
_NOT_OFFERED = re.compile(r"unavailable tool")
"""What it says of a tool that was taken from the model, or that there never was."""
_INVALID = "invalid"
"""The tool it calls in place of one that cannot be called; it ends well."""
_GOES_ON = frozenset({"tool-calls", "unknown"})
"""Reasons for the end of an answer after which the model is asked again."""
_CUT_OFF = {
    "length": "the model's answer was cut off: it has reached its longest",
    "content-filter": "the model's answer was held back by a filter of its provider",
    "error": "the model's answer broke off",
}
_EDITORS = frozenset({"apply_patch", "edit", "multiedit", "patch", "write"})


class _State(msgspec.Struct, frozen=True):
    """Of a tool that has ended."""

    status: str = ""
    input: Any = None
    output: Any = None
    error: str = ""
    title: str = ""
    metadata: Any = None


class _Part(msgspec.Struct, frozen=True, rename={"message_id": "messageID", "call_id": "callID"}):
    message_id: str = ""
    text: str = ""
    tool: str = ""
    call_id: str = ""
    state: _State = _State()
    reason: str = ""
    tokens: Tokens = Tokens()


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    message: str = ""
    status_code: int | None = None
    is_retryable: bool | None = None
    response_headers: dict[str, str] | None = None


class _Error(msgspec.Struct, frozen=True):
    name: str = ""
    data: _Details = _Details()


class _Event(msgspec.Struct, frozen=True, rename={"session_id": "sessionID"}):
    type: str
    session_id: str = ""
    part: _Part = _Part()
    error: _Error = _Error()


_event = msgspec.json.Decoder(_Event)


class OpenCodeReader:
    """Implements ``AgentReader``."""

    finished = False

    def __init__(self, work: AgentWork) -> None:
        self._run = work.run
        self._worktree = work.worktree
        self._asked_for = (work.model or work.config.model).rpartition("/")[2]
        self._model = self._asked_for
        self._denies = work.permissions is not Permissions.ALLOW
        self._given = prefix_of(work.tools) if work.tools else None
        """What the names of tools begin with of which somebody else tells."""
        self._session = ""
        self._reason = ""
        """Why the last answer ended."""
        self._failed: _Error | None = None

    def line(self, line: bytes) -> Iterable[News]:
        try:
            event = _event.decode(line)
        except NOT_JSON:
            return noted(line)
        function = _EVENTS.get(event.type)
        if function is None:
            return ()
        return [*self._start(event), *function(self, event)]

    def end(self, exit: Exit, errors: str) -> AgentEnded:
        news = tuple(spent_below(self._run, self._session)) if self._session else ()
        through = bool(self._reason) and self._reason not in _GOES_ON and self._reason not in _CUT_OFF
        if through and exit.ok and self._failed is None:
            return AgentEnded(exit=exit, ok=True, news=news)
        if self._failed is not None:
            why = _message(self._failed)
        elif exit.ok and self._reason in _CUT_OFF:
            why = _CUT_OFF[self._reason]
        else:
            why = reason(exit, _COLOURS.sub("", errors))
            if exit.reason is ExitReason.EXITED and not through:
                why = f"it ended without an answer that is its last; {why}"
        transient = self._passes(exit, why)
        return AgentEnded(
            exit=exit,
            ok=False,
            error=bounded(why),
            transient=transient,
            retry_after_ms=self._retry_after(why) if transient else 0,
            news=news,
        )

    def _passes(self, exit: Exit, why: str) -> bool:
        if exit.reason is not ExitReason.EXITED or exit.signal is not None or lasts(why):
            return False
        if self._failed is None:
            return self._reason == "error" or passes(None, why)
        details = self._failed.data
        return bool(details.is_retryable) or passes(details.status_code, why)

    def _retry_after(self, why: str) -> int:
        headers = (self._failed.data.response_headers if self._failed else None) or {}
        for name, unit in (("retry-after-ms", 1), ("retry-after", 1_000)):
            if (told := headers.get(name, "")).replace(".", "", 1).isdecimal():
                return round(float(told) * unit)
        return retry_after_ms(why)

    # Functions of the table.

    def _start(self, event: _Event) -> Iterable[News]:
        if not event.session_id or event.session_id == self._session:
            return ()
        self._session = event.session_id
        return (SessionStarted(session_id=event.session_id, model=self._asked_for),)

    def _begin(self, event: _Event) -> Iterable[News]:
        """An answer of the model begins: after a failure it is another try."""
        self._reason, self._failed = "", None
        return ()

    def _say(self, event: _Event) -> Iterable[News]:
        return said(event.part.text)

    def _think(self, event: _Event) -> Iterable[News]:
        return thought(event.part.text)

    def _step(self, event: _Event) -> Iterable[News]:
        self._reason = event.part.reason or "unknown"
        if not self._asked_for:
            self._model = model_of(self._run, event.part.message_id) or self._model
        return (Used(usage=usage_of(event.part.tokens) + Usage(turns=1), model=self._model),)

    def _use(self, event: _Event) -> Iterator[News]:
        part, state = event.part, event.part.state
        if self._is_given(part):
            yield Used(usage=Usage(tool_calls=1), model=self._model)
            return
        tool = _tool(part)
        yield ToolStarted(call_id=part.call_id, tool=tool, title=bounded(state.title), input=shown(state.input))
        yield Used(usage=Usage(tool_calls=1), model=self._model)
        status = self._status(part)
        if status is ToolStatus.SUCCEEDED and tool in _EDITORS:
            yield from self._edits(state)
        output = state.error or shown(state.output)
        yield ToolEnded(call_id=part.call_id, tool=tool, status=status, output=bounded(output))

    def _is_given(self, part: _Part) -> bool:
        """Of one that the server does not have, it never hears."""
        given = self._given is not None and part.tool.startswith(self._given)
        return given and not _NOT_OFFERED.search(part.state.error)

    def _status(self, part: _Part) -> ToolStatus:
        state = part.state
        refused = state.error or (shown(state.output) if part.tool == _INVALID else "")
        if _DENIED.search(refused) or (self._denies and _NOT_OFFERED.search(refused)):
            return ToolStatus.DENIED
        metadata = state.metadata if isinstance(state.metadata, dict) else {}
        failed = refused or state.status == "error" or metadata.get("exit", 0) not in (0, None)
        return ToolStatus.FAILED if failed else ToolStatus.SUCCEEDED

    def _edits(self, state: _State) -> Iterator[News]:
        metadata = state.metadata if isinstance(state.metadata, dict) else {}
        for path, change, added, removed in _changes(metadata, state.input):
            path = bounded(relative(path, self._worktree))
            yield FileEdited(path=path, change=change, lines_added=added, lines_removed=removed)
            if added or removed:
                yield Used(usage=Usage(lines_added=added, lines_removed=removed), model=self._model)

    def _fail(self, event: _Event) -> Iterable[News]:
        self._failed = event.error
        return (Noted(text=bounded(_message(event.error)), level="error"),)


def prefix_of(tools: ToolServer) -> str:
    """What it puts before the names of a server's tools."""
    return f"{known_as(tools)}_"


def _message(error: _Error) -> str:
    return message_of(error.data.message) or error.name or "it failed, and does not say why"


def _tool(part: _Part) -> str:
    given = part.state.input
    meant = given.get("tool") if part.tool == _INVALID and isinstance(given, dict) else None
    return bounded(str(meant or part.tool))


def _changes(metadata: dict[str, Any], given: Any) -> Iterator[tuple[str, str, int, int]]:
    """Path, kind of change, lines added and removed: each of its editors says that in its own way."""
    files = metadata.get("files")
    if isinstance(files, list):
        for file in filter(lambda one: isinstance(one, dict), files):
            path = file.get("movePath") or file.get("filePath") or file.get("relativePath")
            if isinstance(path, str):
                yield (
                    path,
                    _KINDS.get(file.get("type"), "modified"),
                    _count(file, "additions"),
                    _count(file, "deletions"),
                )
        return
    changed = metadata.get("filediff")
    if isinstance(changed, dict) and isinstance(changed.get("file"), str):
        yield changed["file"], "modified", _count(changed, "additions"), _count(changed, "deletions")
        return
    path = metadata.get("filepath")
    if not isinstance(path, str):
        return
    if metadata.get("exists") is False:
        content = given.get("content") if isinstance(given, dict) else None
        yield path, "created", len(content.splitlines()) if isinstance(content, str) else 0, 0
        return
    diff = metadata.get("diff")
    changes = changes_of(diff).values() if isinstance(diff, str) else ()
    yield path, "modified", sum(one.added for one in changes), sum(one.removed for one in changes)


def _count(values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) and value > 0 else 0


_KINDS: Mapping[Any, str] = {"add": "created", "delete": "deleted"}

_EVENTS: Mapping[str, Callable[[OpenCodeReader, _Event], Iterable[News]]] = {
    "step_start": OpenCodeReader._begin,
    "step_finish": OpenCodeReader._step,
    "text": OpenCodeReader._say,
    "reasoning": OpenCodeReader._think,
    "tool_use": OpenCodeReader._use,
    "error": OpenCodeReader._fail,
}
