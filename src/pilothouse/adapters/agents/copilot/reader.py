"""What the Copilot CLI prints as JSON lines → news, and its verdict. A table: event type → payload → function.

An agent that is denied a tool, or that is ended by a signal, exits with 0 and says 0: the verdict looks at what
happened. Events of kinds that are not in the table say nothing that is told. Usage is ``usage``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.adapters.agents.copilot import events
from pilothouse.adapters.agents.copilot.stats import parse_stats
from pilothouse.adapters.agents.copilot.usage import Ledger, begun
from pilothouse.adapters.agents.diffs import Change, changes_of
from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.endings import agrees, reason
from pilothouse.adapters.agents.reading import (
    MAX_NOTE,
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

_MOST_PLAIN = 100
"""Lines that are no events of which the last are kept: statistics for people stand at the end."""
_LASTING = frozenset({"authentication", "authorization", "context_limit", "policy", "quota"})
"""Kinds of errors that are the same when tried again, whatever their status."""
_TOLD_OTHERWISE = frozenset({"cancellation", "file_created", "model_retry"})
"""Kinds of information that other events tell better."""


_event = msgspec.json.Decoder(events.Event)
_final = msgspec.json.Decoder(events.Final)


class CopilotReader:
    """Implements ``AgentReader``."""

    def __init__(self, work: AgentWork) -> None:
        self._worktree = work.worktree
        self._server = work.tools.name if work.tools is not None else None
        self._run = work.run
        self._asked_for = work.session_id or work.new_session_id
        self._model = work.model
        self._ledger = Ledger(work)
        self._started: SessionStarted | None = None
        self._streamed: set[str] = set()
        """Messages and thoughts that were told piece by piece."""
        self._intentions: dict[str, str] = {}
        self._tools: dict[str, str] = {}
        self._served: set[str] = set()
        """Calls of tools that are told by whoever serves them."""
        self._plain: list[str] = []
        self._failed: events.Failure | None = None
        self._call_failed: events.Failure | None = None
        self._aborted = False
        self._result: events.Final | None = None

    @property
    def finished(self) -> bool:
        return self._result is not None

    def line(self, line: bytes) -> Iterable[News]:
        try:
            event = _event.decode(line)
            if event.type == "result":
                return self._finish(_final.decode(line))
            if (known := _EVENTS.get(event.type)) is None:
                return ()
            decoder, function = known
            payload = decoder.decode(event.data)
        except NOT_JSON:
            self._plain = [*self._plain[1 - _MOST_PLAIN :], line[:MAX_NOTE].decode(errors="replace").rstrip()]
            return noted(line)
        news = list(function(self, payload, event))
        if event.type in _UNHURRIED:
            news += self._ledger.settled(event.timestamp)
        return news

    def end(self, exit: Exit, errors: str) -> AgentEnded:
        news = (*self._ledger.rest(), *self._from_stats(errors))
        result, failed = self._result, self._failed
        if result is not None and result.exit_code == 0 and not self._aborted and agrees(exit):
            return AgentEnded(exit=exit, ok=True, news=news)
        settled = result is not None or exit.reason is ExitReason.EXITED  # else somebody else ended it
        if failed is not None and settled:
            why = failed.message or failed.error_message or reason(exit, errors)
        elif result is not None and result.exit_code == 0 and self._aborted and exit.ok:
            why = "it was ended by a signal"
        else:
            why = reason(exit, errors)
            if result is None and exit.reason is ExitReason.EXITED:
                why = f"it ended without saying how its work went; {why}"
        transient = settled and not self._aborted and self._passes(why)
        return AgentEnded(
            exit=exit,
            ok=False,
            error=bounded(why),
            transient=transient,
            retry_after_ms=retry_after_ms(why) if transient else 0,
            news=news,
        )

    def _passes(self, why: str) -> bool:
        failed, call = self._failed, self._call_failed
        if failed is None:
            return passes(None, why)
        if failed.error_type in _LASTING:
            return False
        if failed.status_code is None and call is not None and call.failure_kind == "transport":
            return True
        return failed.error_type == "rate_limit" or passes(failed.status_code, why)

    def _from_stats(self, errors: str) -> Iterable[News]:
        """Of a version that left nothing better."""
        stats = None if self._ledger.told else parse_stats("\n".join((*self._plain, errors)))
        if stats is None:
            return ()
        return [
            Used(usage=usage, model=model or (self._model if usage.tokens else ""))
            for model, usage in stats.used.by_model.items()
        ]

    # Functions of the table: each takes the reader, a payload and its event.

    def _use_model(self, data: events.Model, event: events.Event) -> Iterable[News]:
        if data.model and event.agent_id is None:
            self._model = data.model
        return ()

    def _prompted(self, data: events.Payload, event: events.Event) -> Iterable[News]:
        if event.agent_id is not None or self._started is not None:
            return ()
        note = begun(self._run)
        return self._start(note.conversation if note else self._asked_for)

    def _start(self, conversation: str) -> Iterable[News]:
        """Its id is ours, and in its own words only at the end: it is told as soon as there is a conversation."""
        if not conversation or (self._started and self._started.session_id == conversation):
            return ()
        self._started = SessionStarted(session_id=conversation, model=self._model)
        return (self._started,)

    def _text_delta(self, data: events.Delta, event: events.Event) -> Iterable[News]:
        self._streamed.add(data.message_id)
        return said(data.delta_content) if event.agent_id is None else ()

    def _reasoning_delta(self, data: events.Delta, event: events.Event) -> Iterable[News]:
        self._streamed.add(data.reasoning_id)
        return thought(data.delta_content) if event.agent_id is None else ()

    def _message(self, data: events.Message, event: events.Event) -> Iterable[News]:
        if data.message_id not in self._streamed and event.agent_id is None:
            yield from said(data.content)
        for request in data.tool_requests or ():
            self._intentions[request.tool_call_id] = request.intention_summary or ""
        yield Used(usage=Usage(turns=1), model=data.model or self._model)

    def _reasoned(self, data: events.Reasoned, event: events.Event) -> Iterable[News]:
        return thought(data.content) if data.reasoning_id not in self._streamed and event.agent_id is None else ()

    def _tool_started(self, data: events.ToolStart, event: events.Event) -> Iterable[News]:
        title = self._intentions.pop(data.tool_call_id, "") or data.tool_title or ""
        if self._server is not None and data.mcp_server_name == self._server:
            self._served.add(data.tool_call_id)
        else:
            self._tools[data.tool_call_id] = data.tool_name
            yield ToolStarted(
                call_id=data.tool_call_id, tool=data.tool_name, title=bounded(title), input=shown(data.arguments)
            )
        yield Used(usage=Usage(tool_calls=1), model=self._model)

    def _tool_ended(self, data: events.ToolEnd, event: events.Event) -> Iterable[News]:
        if data.tool_call_id in self._served:
            self._served.remove(data.tool_call_id)
            return
        output = data.result.content if data.result else data.error.message if data.error else ""
        yield ToolEnded(
            call_id=data.tool_call_id,
            tool=self._tools.pop(data.tool_call_id, ""),
            status=_status(data),
            output=bounded(output),
        )
        if not data.success or not data.file_edits:
            return
        lines = changes_of(data.result.detailed_content or "" if data.result else "")
        edits = [
            FileEdited(
                path=bounded(relative(edit.path, self._worktree)),
                change=_CHANGES.get(edit.kind, "modified"),
                lines_added=change.added,
                lines_removed=change.removed,
            )
            for edit in data.file_edits
            for change in (lines.get(edit.path.lstrip("/"), Change()),)
        ]
        yield from edits
        added, removed = sum(edit.lines_added for edit in edits), sum(edit.lines_removed for edit in edits)
        yield Used(usage=Usage(lines_added=added, lines_removed=removed), model=self._model)

    def _call_fails(self, data: events.Failure, event: events.Event) -> Iterable[News]:
        self._call_failed = data
        status = f" with {data.status_code}" if data.status_code else ""
        yield Noted(text=bounded(f"a call of the model failed{status}: {_plain(data.error_message)}"), level="warning")

    def _fails(self, data: events.Failure, event: events.Event) -> Iterable[News]:
        if event.agent_id is None:
            self._failed = data
        yield Noted(text=bounded(data.message), level="error")

    def _warned(self, data: events.Info, event: events.Event) -> Iterable[News]:
        return (Noted(text=bounded(data.message), level="warning"),)

    def _informed(self, data: events.Info, event: events.Event) -> Iterable[News]:
        return () if data.info_type in _TOLD_OTHERWISE else (Noted(text=bounded(data.message)),)

    def _connected(self, data: events.Servers, event: events.Event) -> Iterable[News]:
        for server in data.servers or ():
            if server.name == self._server and server.status != "connected":
                yield unserved(server.error or server.status)

    def _delegated(self, data: events.Subagent, event: events.Event) -> Iterable[News]:
        what = event.type.removeprefix("subagent.")
        failed = data.error or ""
        text = f"the agent {data.agent_display_name!r} below it has {what}{f': {failed}' if failed else ''}"
        return (Noted(text=bounded(text), level="warning" if failed else "info"),)

    def _compacted(self, data: events.Payload, event: events.Event) -> Iterable[News]:
        return (Noted(text="the conversation was shortened, so that it fits into the model's context"),)

    def _abort(self, data: events.Payload, event: events.Event) -> Iterable[News]:
        if event.agent_id is None and self._result is None:
            self._aborted = True
        return ()

    def _idle(self, data: events.Idle, event: events.Event) -> Iterable[News]:
        return self._abort(data, event) if data.aborted else ()

    def _finish(self, result: events.Final) -> Iterable[News]:
        self._result = self._result or result
        return self._start(result.session_id)


def _status(data: events.ToolEnd) -> ToolStatus:
    if data.success:
        failed = data.shell_execution is not None and data.shell_execution.exit_code not in (0, None)
        return ToolStatus.FAILED if failed else ToolStatus.SUCCEEDED
    code, message = (data.error.code, data.error.message) if data.error else (None, "")
    denied = code in _DENIALS or (code is None and message.startswith("Permission denied"))
    return ToolStatus.DENIED if denied else ToolStatus.FAILED


def _plain(message: str) -> str:
    """The text in an error that is JSON, where it is."""
    try:
        found = msgspec.json.decode(message)
    except NOT_JSON:
        return message
    inner = found.get("message", found) if isinstance(found, dict) else found
    return shown(inner)


_DENIALS = frozenset({"denied", "rejected"})
_CHANGES = {"create": "created", "delete": "deleted"}
_UNHURRIED = frozenset(
    {"assistant.message", "assistant.turn_start", "model.call_start", "tool.execution_complete", "tool.execution_start"}
)
"""Events at which it is looked whether more usage is known: deltas come too often for that."""

_Function = Callable[[CopilotReader, Any, events.Event], Iterable[News]]


def _on(payload: type[events.Payload], function: _Function) -> tuple[msgspec.json.Decoder[Any], _Function]:
    return msgspec.json.Decoder(payload), function


_EVENTS: Mapping[str, tuple[msgspec.json.Decoder[Any], _Function]] = {
    "session.mcp_servers_loaded": _on(events.Servers, CopilotReader._connected),
    "session.tools_updated": _on(events.Model, CopilotReader._use_model),
    "user.message": _on(events.Payload, CopilotReader._prompted),
    "model.call_start": _on(events.Payload, lambda reader, data, event: ()),
    "model.call_failure": _on(events.Failure, CopilotReader._call_fails),
    "assistant.turn_start": _on(events.Payload, lambda reader, data, event: ()),
    "assistant.message_delta": _on(events.Delta, CopilotReader._text_delta),
    "assistant.reasoning_delta": _on(events.Delta, CopilotReader._reasoning_delta),
    "assistant.message": _on(events.Message, CopilotReader._message),
    "assistant.reasoning": _on(events.Reasoned, CopilotReader._reasoned),
    "assistant.idle": _on(events.Idle, CopilotReader._idle),
    "tool.execution_start": _on(events.ToolStart, CopilotReader._tool_started),
    "tool.execution_complete": _on(events.ToolEnd, CopilotReader._tool_ended),
    "subagent.started": _on(events.Subagent, CopilotReader._delegated),
    "subagent.completed": _on(events.Subagent, CopilotReader._delegated),
    "subagent.failed": _on(events.Subagent, CopilotReader._delegated),
    "session.compaction_complete": _on(events.Payload, CopilotReader._compacted),
    "session.truncation": _on(events.Payload, CopilotReader._compacted),
    "session.info": _on(events.Info, CopilotReader._informed),
    "session.warning": _on(events.Info, CopilotReader._warned),
    "session.error": _on(events.Failure, CopilotReader._fails),
    "abort": _on(events.Payload, CopilotReader._abort),
}
