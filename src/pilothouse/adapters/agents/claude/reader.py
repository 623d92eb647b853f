"""What Claude Code prints as JSON lines → news, and its verdict. A table: kind of line → payload → function.

An answer of the model comes three times: as a stream of pieces, as whole blocks, and as its end; text is told from the
first that has it, usage when the stream says what the whole answer took. The sums at the end tell the rest; the cost in
them is made up for models it does not know, and is left out. Kinds that are not in the table say nothing that is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.adapters.agents.claude import events
from pilothouse.adapters.agents.claude.usage import Sums
from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.endings import agrees, reason
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
from pilothouse.adapters.agents.tool_servers import unserved
from pilothouse.core.run.agents import (
    AgentEnded,
    FileEdited,
    News,
    Noted,
    SessionStarted,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.commands import Exit, ExitReason
from pilothouse.core.run.usage import Usage

_PASSING = frozenset({"overloaded", "rate_limit", "server_error"})
_LASTING = frozenset(
    {"authentication_failed", "billing_error", "invalid_request", "max_output_tokens", "model_not_found"}
    | {"oauth_org_not_allowed"}
)
"""Kinds of failures that are over when the same is tried again, and that are not, whatever their status."""
_DENIED = re.compile(
    r"requested permissions? to |\APermission to use |\brequires? approval\b|\bhaven't granted\b|\bFor security, Claude"
)
"""It says so in words only; which were denied stands in the end in its last line as well."""

_event = msgspec.json.Decoder(events.Event)
_edited = msgspec.json.Decoder(events.Edited)


class ClaudeReader:
    """Implements ``AgentReader``."""

    def __init__(self, work: AgentWork) -> None:
        self._worktree = work.worktree
        self._server = work.tools.name if work.tools is not None else None
        self._started: SessionStarted | None = None
        self._sums = Sums()
        self._streamed: set[tuple[str, str]] = set()
        """Messages by id whose text, or whose thoughts, were told piece by piece."""
        self._tools: dict[str, str] = {}
        self._denied: set[str] = set()
        self._error = ""
        """The kind of the failure that it told last."""
        self._resets_at: float | None = None
        self._result: events.Final | None = None

    @property
    def finished(self) -> bool:
        return self._result is not None

    def line(self, line: bytes) -> Iterable[News]:
        try:
            event = _event.decode(line)
            known = _EVENTS.get(event.type) or _EVENTS.get(f"{event.type}/{event.subtype}")
            if known is None:
                return ()
            decoder, function = known
            return list(function(self, decoder.decode(line)))
        except NOT_JSON:
            return noted(line)

    def end(self, exit: Exit, errors: str) -> AgentEnded:
        result = self._result
        news = () if result is not None else tuple(self._sums.unfinished())
        if result is not None and not result.is_error and result.subtype == "success" and agrees(exit):
            return AgentEnded(exit=exit, ok=True, news=news)
        why = "" if result is None else "; ".join(result.errors) or (result.result if result.is_error else "")
        if not why:
            why = reason(exit, errors)
            if result is None and exit.reason is ExitReason.EXITED:
                why = f"it ended without saying how its work went; {why}"
        settled = result is not None or exit.reason is ExitReason.EXITED  # else somebody else ended it
        transient = settled and self._passes(why)
        return AgentEnded(
            exit=exit,
            ok=False,
            error=bounded(why),
            transient=transient,
            retry_after_ms=self._retry_after(exit, why) if transient else 0,
            news=news,
        )

    def _passes(self, why: str) -> bool:
        if self._error in _LASTING or (self._result is not None and self._result.subtype == "error_max_turns"):
            return False
        status = self._result.api_error_status if self._result else None
        return self._error in _PASSING or passes(status, why)

    def _retry_after(self, exit: Exit, why: str) -> int:
        if self._resets_at is not None and exit.ended_at:
            return max(0, round(self._resets_at * 1000) - exit.ended_at)
        return retry_after_ms(why)

    # Functions of the table: each takes the reader and a line.

    def _init(self, event: events.Init) -> Iterator[News]:
        """Told again with every prompt that it gives itself."""
        started = SessionStarted(session_id=event.session_id, model=event.model or "")
        if not event.session_id or started == self._started:
            return
        self._started = started
        yield started
        yield from self._connected(event.mcp_servers)

    def _connected(self, servers: tuple[events.Server, ...] | None) -> Iterable[News]:
        if self._server is None or servers is None:
            return ()
        status = {server.name: server.status for server in servers}.get(self._server, "it was not allowed to")
        return (unserved(status),) if status != "connected" else ()

    def _retried(self, event: events.Retry) -> Iterable[News]:
        what = " ".join(str(part) for part in (event.error_status, event.error) if part)
        when = f"; it tries again in {event.retry_delay_ms / 1000:.1f} s ({event.attempt} of {event.max_retries})"
        return (Noted(text=f"a call of the model failed: {what or 'no connection'}{when}", level="warning"),)

    def _refused(self, event: events.Denied) -> Iterable[News]:
        self._denied.add(event.tool_use_id)
        return ()

    def _task(self, event: events.Task) -> Iterable[News]:
        return (Noted(text=bounded(f"a task in the background has {event.status}: {event.summary}")),)

    def _compacted(self, event: events.Event) -> Iterable[News]:
        return (Noted(text="the conversation was shortened, so that it fits into the model's context"),)

    def _limited(self, event: events.Limited) -> Iterable[News]:
        limit = event.rate_limit_info
        if limit.status != "rejected":
            return ()
        self._error, self._resets_at = "rate_limit", limit.resets_at
        return (Noted(text=f"the limit of this account is reached: {limit.rate_limit_type or ''}", level="warning"),)

    def _piece(self, event: events.Streamed) -> Iterator[News]:
        piece = event.event
        match piece.type:
            case "message_start":
                self._sums.began(piece.message)
            case "content_block_start" if piece.content_block.type == "tool_use":
                self._sums.called()
            case "content_block_delta":
                if piece.delta.type in ("text_delta", "thinking_delta"):
                    self._streamed.add((self._sums.streamed.id, piece.delta.type.removesuffix("_delta")))
                yield from said(piece.delta.text)
                yield from thought(piece.delta.thinking)
            case "message_delta" if piece.usage is not None:
                yield from self._sums.told(piece.usage)

    def _said(self, event: events.Said) -> Iterator[News]:
        message, parent, streamed = event.message, event.parent_tool_use_id, True
        if event.error is not None:
            self._error = event.error
        elif not (streamed := parent is None and message.id == self._sums.streamed.id):
            yield from self._sums.seen(parent or "", message)
        for block in message.content if isinstance(message.content, tuple) else ():
            if block.type == "tool_use":
                self._tools[block.id] = block.name
                if not self._is_served(block.name):
                    yield ToolStarted(
                        call_id=block.id, tool=block.name, title=self._title(block.input), input=shown(block.input)
                    )
                if not streamed:
                    yield Used(usage=Usage(tool_calls=1), model=message.model)
            elif event.error is not None:
                yield Noted(text=bounded(block.text), level="error")
            elif parent is None and (message.id, block.type) not in self._streamed:
                yield from said(block.text)
                yield from thought(block.thinking)

    def _answered(self, event: events.Answered) -> Iterator[News]:
        blocks = event.message.content if isinstance(event.message.content, tuple) else ()
        for block in blocks:
            if block.type == "tool_result":
                tool = self._tools.pop(block.tool_use_id, "")
                if self._is_served(tool):
                    continue
                output = _text(block.content)
                status = self._status(block, output)
                yield ToolEnded(call_id=block.tool_use_id, tool=tool, status=status, output=bounded(output))
                if status is ToolStatus.SUCCEEDED:
                    yield from self._edits(tool, event.tool_use_result)

    def _is_served(self, tool: str) -> bool:
        """Whether it is one of those whose calls are told by whoever serves them."""
        return self._server is not None and tool.startswith(f"mcp__{self._server}__")

    def _status(self, block: events.Block, output: str) -> ToolStatus:
        if not block.is_error:
            return ToolStatus.SUCCEEDED
        if block.tool_use_id not in self._denied and not _DENIED.search(output):
            return ToolStatus.FAILED
        self._denied.add(block.tool_use_id)
        return ToolStatus.DENIED

    def _edits(self, tool: str, result: msgspec.Raw) -> Iterator[News]:
        if tool not in _EDITORS:
            return
        try:
            edited = _edited.decode(result)
        except NOT_JSON:
            return
        lines = [line for hunk in edited.structured_patch or () for line in hunk.lines]
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        if created := edited.type == "create":
            added = len((edited.content or "").splitlines())
        yield FileEdited(
            path=bounded(relative(edited.file_path, self._worktree)),
            change="created" if created else "modified",
            lines_added=added,
            lines_removed=removed,
        )
        model = self._started.model if self._started else ""
        yield Used(usage=Usage(lines_added=added, lines_removed=removed), model=model)

    def _title(self, given: Any) -> str:
        """What people want to know of a tool's input before anything else."""
        if not isinstance(given, dict):
            return ""
        found = next((given[name] for name in _TELLING if isinstance(given.get(name), str)), "")
        return bounded(relative(found, self._worktree))

    def _finish(self, final: events.Final) -> Iterator[News]:
        if self._result is not None:
            return
        self._result = final
        if self._started is None:
            yield from self._init(events.Init(session_id=final.session_id))
        yield from self._sums.reconciled(final.model_usage or {}, final.duration_api_ms)
        for denied in final.permission_denials:
            if denied.tool_use_id not in self._denied:
                yield Noted(text=f"{bounded(denied.tool_name)} was not permitted", level="warning")


def _text(content: Any) -> str:
    """Of what came of a tool: a text, or blocks of it."""
    if isinstance(content, list):
        parts = (block.get("text") for block in content if isinstance(block, dict))
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


_EDITORS = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
_TELLING = ("description", "file_path", "command", "pattern", "url", "query", "path", "skill")

_Function = Callable[[ClaudeReader, Any], Iterable[News]]


def _on(payload: type[msgspec.Struct], function: _Function) -> tuple[msgspec.json.Decoder[Any], _Function]:
    return msgspec.json.Decoder(payload), function


_EVENTS: Mapping[str, tuple[msgspec.json.Decoder[Any], _Function]] = {
    "system/init": _on(events.Init, ClaudeReader._init),
    "system/api_retry": _on(events.Retry, ClaudeReader._retried),
    "system/permission_denied": _on(events.Denied, ClaudeReader._refused),
    "system/compact_boundary": _on(events.Event, ClaudeReader._compacted),
    "system/task_notification": _on(events.Task, ClaudeReader._task),
    "stream_event": _on(events.Streamed, ClaudeReader._piece),
    "assistant": _on(events.Said, ClaudeReader._said),
    "user": _on(events.Answered, ClaudeReader._answered),
    "rate_limit_event": _on(events.Limited, ClaudeReader._limited),
    "result": _on(events.Final, ClaudeReader._finish),
}
