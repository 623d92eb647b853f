"""What an agent told, as text for people: the ``plan logs`` of an agent, and its last line in a live tree.

Events in, text out. The text only ever grows: what an event adds depends on those before it alone, so whoever follows
can print what is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pilothouse.core.plan.agent_events import (
    AgentEvent,
    AgentFileEdited,
    AgentNoted,
    AgentReasoning,
    AgentSessionStarted,
    AgentText,
    AgentToolEnded,
    AgentToolStarted,
)
from pilothouse.core.run.agents import ToolStatus
from pilothouse.core.run.events import Event, NeedsApproval

_MOST_LINES = 8
"""Of a tool's output; the raw output has them all."""
_MOST_CHARACTERS = 400


class Transcript:
    """Renders the events of one run of an agent, in their order."""

    def __init__(self) -> None:
        self._at_line_start = True
        self._speaking: type[Event] | None = None
        self._tools: dict[str, str] = {}

    def add(self, event: Event) -> str:
        """The text that ``event`` adds; often none."""
        match event:
            case AgentText(text=text):
                return self._speak(AgentText, text)
            case AgentReasoning(text=text):
                return self._speak(AgentReasoning, text, prefix="(thinks) ")
            case AgentToolEnded():
                return self._tool_ended(event)
            case _:
                if isinstance(event, AgentToolStarted):
                    self._tools[event.call_id] = event.tool
                line = activity(event)
                return self._line(line) if line else ""

    def _speak(self, who: type[Event], text: str, prefix: str = "") -> str:
        if not text:
            return ""
        start = "" if self._speaking is who else self._fresh_line() + prefix
        self._speaking = who
        self._at_line_start = text.endswith("\n")
        return start + text

    def _tool_ended(self, event: AgentToolEnded) -> str:
        tool = event.tool or self._tools.get(event.call_id, "tool")
        said = ""
        if event.status is not ToolStatus.SUCCEEDED:
            said = self._line(f"! {tool} {'was not permitted' if event.status is ToolStatus.DENIED else 'failed'}")
        return said + "".join(self._line(f"  | {line}") for line in _shortened(event.output))

    def _line(self, text: str) -> str:
        start = self._fresh_line()
        self._at_line_start = True
        self._speaking = None
        return f"{start}{text}\n"

    def _fresh_line(self) -> str:
        return "" if self._at_line_start else "\n"


def transcript(events: Iterable[Event]) -> str:
    """All of it at once."""
    told = Transcript()
    return "".join(told.add(event) for event in events)


def activity(event: Event) -> str:
    """What an event says the agent is doing, in one line; empty for one that says nothing of that."""
    match event:
        case AgentToolStarted(tool=tool, title=title, input=given):
            what = _one_line(title or given)
            return f"> {tool}{': ' if what else ''}{what}"
        case AgentFileEdited(path=path, change=change, lines_added=added, lines_removed=removed):
            counts = f" (+{added} -{removed})" if added or removed else ""
            return f"* {change} {_one_line(path)}{counts}"
        case AgentNoted(text=text, level=level):
            return f"{'' if level == 'info' else f'{level}: '}{_one_line(text)}"
        case AgentSessionStarted(session_id=session_id, model=model):
            return f"session {_one_line(session_id)}{f' with {_one_line(model)}' if model else ''}"
        case NeedsApproval(wait=wait):
            return f"? {_one_line(wait.question)}"
        case AgentText(text=text) | AgentReasoning(text=text):
            lines = [line for line in text.splitlines() if line.strip()]
            return _one_line(lines[-1]) if lines else ""
    return ""


def is_told(event: Event, node_id: str, attempt: int, phase: str) -> bool:
    """Whether an event belongs to this run of an agent."""
    if isinstance(event, AgentEvent):
        return (event.node_id, event.attempt, event.phase) == (node_id, attempt, phase)
    if isinstance(event, NeedsApproval):
        detail = event.wait.detail
        return event.wait.scope == node_id and (detail.get("attempt"), detail.get("phase")) == (attempt, phase)
    return False


def _one_line(text: str) -> str:
    line = re.sub(r"\s+", " ", text[: 2 * _MOST_CHARACTERS]).strip()
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


def _shortened(output: str) -> list[str]:
    lines = output.rstrip().splitlines()
    shown = [line[:_MOST_CHARACTERS] for line in lines[:_MOST_LINES]]
    left = len(lines) - _MOST_LINES
    return [*shown, f"… {left} more {'line' if left == 1 else 'lines'}"] if left > 0 else shown
