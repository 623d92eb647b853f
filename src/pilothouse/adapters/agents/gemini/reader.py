"""What the Gemini CLI prints as JSON lines → news, and its verdict. A table: type of event → function.

Ended by a signal it exits with 0, but without its last event. Of tokens it tells the sums, in that event; of thoughts
and of how a command exited nothing. An answer of the model begins with the first thing told after the prompt, or after
what tools have answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.endings import agrees, reason
from pilothouse.adapters.agents.failures import lasts, message_of, status_of
from pilothouse.adapters.agents.gemini.sessions import spent
from pilothouse.adapters.agents.reading import (
    NOT_JSON,
    bounded,
    noted,
    passes,
    relative,
    retry_after_ms,
    said,
    shown,
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
from pilothouse.core.run.usage import Tally, Usage

_EDITORS = frozenset({"replace", "write_file"})
_TELLING = ("description", "file_path", "command", "pattern", "url", "query", "dir_path", "prompt")
_DENIED = frozenset({"path_not_in_workspace", "permission_denied", "policy_violation", "sandbox_expansion_required"})
_OUTSIDE = "Path not in workspace"
_NOT_OFFERED = "tool_not_registered"
_UNHEARD = _DENIED | {_NOT_OFFERED, "invalid_tool_params"}
"""Errors of calls that the server of a tool has not heard of."""
_API = re.compile(r"\A\[API Error: (.*?)\](?:\n.*)?\Z", re.DOTALL)
"""What its service said, and advice for people behind it."""
_PASSES = re.compile(r"\bterminated\b|premature close|empty response|high demand", re.IGNORECASE)
_CHATTER = re.compile(r"(?:Warning: |YOLO mode |Ripgrep is not |\[STARTUP\] )")
"""Lines on standard error that say nothing of the work."""
_STATUS = range(400, 512)
"""It exits with the HTTP status of a failure, of which eight bits are left."""


class _Error(msgspec.Struct, frozen=True):
    type: str = ""
    message: str = ""


class _Sums(msgspec.Struct, frozen=True):
    """Input includes cached tokens; output leaves out thoughts, the total does not."""

    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached: int = 0


class _Stats(msgspec.Struct, frozen=True):
    models: dict[str, _Sums] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str
    session_id: str = ""
    model: str = ""
    role: str = ""
    content: str = ""
    tool_name: str = ""
    tool_id: str = ""
    parameters: Any = None
    status: str = ""
    severity: str = ""
    message: str = ""
    output: Any = None
    error: _Error | None = None
    stats: _Stats | None = None


_event = msgspec.json.Decoder(_Event)


class GeminiReader:
    """Implements ``AgentReader``."""

    def __init__(self, work: AgentWork) -> None:
        self._run = work.run
        self._worktree = work.worktree
        self._denies = work.permissions is not Permissions.ALLOW
        self._model = work.model or work.config.model
        self._session = ""
        self._answering = False
        self._given = f"mcp_{known_as(work.tools)}_" if work.tools else None
        """What the names of tools begin with of which somebody else tells."""
        self._withheld: dict[str, ToolStarted] = {}
        """By call, those of such tools: until it is known that they came to that one."""
        self._tools: dict[str, tuple[str, str]] = {}
        """By call: the tool's name, and the file it is to edit."""
        self._error = ""
        self._result: _Event | None = None

    @property
    def finished(self) -> bool:
        return self._result is not None

    def line(self, line: bytes) -> Iterable[News]:
        try:
            event = _event.decode(line)
        except NOT_JSON:
            return noted(line)
        function = _EVENTS.get(event.type)
        return list(function(self, event)) if function is not None else ()

    def end(self, exit: Exit, errors: str) -> AgentEnded:
        result = self._result
        news = () if result is not None else tuple(_used(spent(self._run, self._session)))
        if result is not None and result.status == "success" and agrees(exit):
            return AgentEnded(exit=exit, ok=True, news=news)
        status, why = None, ""
        if result is not None and result.status != "success":
            told = result.error.message if result.error else self._error
            status, why = _failure(told, exit.code)
        if not why:
            kept = "\n".join(line for line in errors.splitlines() if not _CHATTER.match(line))
            why = reason(exit, kept)
            if result is None and exit.reason is ExitReason.EXITED:
                why = f"it ended without saying how its work went; {why}"
        judged = result is not None or (exit.reason is ExitReason.EXITED and exit.signal is None)
        transient = judged and not lasts(why) and (passes(status, why) or (not status and bool(_PASSES.search(why))))
        return AgentEnded(
            exit=exit,
            ok=False,
            error=bounded(why),
            transient=transient,
            retry_after_ms=retry_after_ms(why) if transient else 0,
            news=news,
        )

    # Functions of the table.

    def _start(self, event: _Event) -> Iterable[News]:
        if not event.session_id or event.session_id == self._session:
            return ()
        self._session, self._model = event.session_id, event.model or self._model
        return (SessionStarted(session_id=event.session_id, model=event.model),)

    def _answer(self) -> Iterable[News]:
        if self._answering:
            return ()
        self._answering = True
        return (Used(usage=Usage(turns=1), model=self._model),)

    def _say(self, event: _Event) -> Iterable[News]:
        if event.role != "assistant":
            return ()
        return (*self._answer(), *said(event.content))

    def _use(self, event: _Event) -> Iterator[News]:
        given = event.parameters if isinstance(event.parameters, dict) else {}
        title = next((given[name] for name in _TELLING if isinstance(given.get(name), str)), "")
        path = given.get("file_path") if event.tool_name in _EDITORS else None
        self._tools[event.tool_id] = event.tool_name, path if isinstance(path, str) else ""
        yield from self._answer()
        title = relative(title, self._worktree)
        started = ToolStarted(
            call_id=event.tool_id, tool=event.tool_name, title=bounded(title), input=shown(event.parameters)
        )
        if self._given is not None and event.tool_name.startswith(self._given):
            self._withheld[event.tool_id] = started
        else:
            yield started
        yield Used(usage=Usage(tool_calls=1), model=self._model)

    def _used(self, event: _Event) -> Iterator[News]:
        self._answering = False
        tool, path = self._tools.pop(event.tool_id, ("", ""))
        if withheld := self._withheld.pop(event.tool_id, None):
            if event.error is None or event.error.type not in _UNHEARD:
                return
            yield withheld
        status = self._status(event)
        if status is ToolStatus.SUCCEEDED and path:
            yield FileEdited(path=bounded(relative(path, self._worktree)))
        output = shown(event.output) or (event.error.message if event.error else "")
        yield ToolEnded(call_id=event.tool_id, tool=tool, status=status, output=bounded(output))

    def _status(self, event: _Event) -> ToolStatus:
        if event.status != "error":
            return ToolStatus.SUCCEEDED
        error = event.error or _Error()
        denied = error.type in _DENIED or error.message.startswith(_OUTSIDE)
        return ToolStatus.DENIED if denied or (self._denies and error.type == _NOT_OFFERED) else ToolStatus.FAILED

    def _warn(self, event: _Event) -> Iterable[News]:
        self._error = event.message
        level = "warning" if event.severity == "warning" else "error"
        return (Noted(text=bounded(message_of(event.message)), level=level),)

    def _finish(self, event: _Event) -> Iterable[News]:
        if self._result is not None:
            return ()
        self._result = event
        sums = Tally()
        for model, used in ((event.stats.models if event.stats else None) or {}).items():
            sums.add(model, _usage(used))
        return _used(sums)


def _used(tally: Tally) -> Iterator[Used]:
    return (Used(usage=usage, model=model) for model, usage in tally.by_model.items() if usage.tokens)


def _usage(sums: _Sums) -> Usage:
    output = max(sums.output_tokens, sums.total_tokens - sums.input_tokens)
    return Usage(
        input_tokens=sums.input_tokens,
        output_tokens=output,
        cached_tokens=sums.cached,
        reasoning_tokens=output - sums.output_tokens,
    )


def _failure(told: str, code: int | None) -> tuple[int | None, str]:
    """The HTTP status of what went wrong, as far as that is known, and what was said of it."""
    found = _API.match(told)
    said_of_it = found[1] if found else told
    status = status_of(said_of_it)
    if status is None and found is not None and code is not None and code + 256 in _STATUS:
        status = code + 256
    return status, message_of(said_of_it)


_EVENTS: Mapping[str, Callable[[GeminiReader, _Event], Iterable[News]]] = {
    "init": GeminiReader._start,
    "message": GeminiReader._say,
    "tool_use": GeminiReader._use,
    "tool_result": GeminiReader._used,
    "error": GeminiReader._warn,
    "result": GeminiReader._finish,
}
