"""A turn on a terminal or in a pipe: the answer on stdout as it comes, what happens beside it on stderr, a line each.

Values in, text out; knows no server. On a terminal the line of a tool that runs stands until something else is to be
said.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

from pilothouse.client.events import (
    ChatEvent,
    Notice,
    Reasoning,
    SubagentStarted,
    Text,
    ToolBackgrounded,
    ToolCalled,
    ToolEnded,
    ToolRunning,
)
from pilothouse.interfaces.cli.printing import colours
from pilothouse.interfaces.cli.words import duration, glyph, has_unicode, look, one_line, paint, tame

_CLEAR_LINE = "\r\x1b[K"
_LONGEST_ARGUMENTS = 60
_STATES = {"success": "succeeded", "background": "running"}
"""Where a call stands, in the words that have a look."""


class ChatScreen:
    """One turn after another. ``answers``: whether the answer itself is shown."""

    def __init__(self, *, answers: bool = True, no_color: bool = False) -> None:
        self._answers = answers
        self._color = colours(no_color) and sys.stderr.isatty()
        self._live = sys.stderr.isatty() and sys.stdout.isatty() and answers
        self._held = ""
        self._open_line = False
        """Text stands on the last line, without a newline."""
        self._passing = False
        """The last line is of a tool that runs, and will be replaced."""
        self._calls: dict[str, tuple[str, dict[str, Any]]] = {}
        self._began: dict[str, float] = {}

    def show(self, event: ChatEvent) -> None:
        match event:
            case Text(text=text) if not event.parent_tool_call_id:
                self._answer(text)
            case Reasoning() if not event.parent_tool_call_id:
                self._pass("thinks")
            case ToolCalled(tool_call_id=call, tool_name=name, arguments=arguments):
                self._calls[call] = name, arguments
            case ToolRunning(tool_call_id=call, tool_name=name):
                self._began[call] = time.monotonic()
                self._pass(f"{name} {brief(self._arguments(call))}")
            case ToolBackgrounded(tool_name=name):
                self.say(f"{name} goes on in the background")
            case ToolEnded():
                self._ended(event)
            case Notice(kind="backend_retry", data=data):
                self.say(asked_again(data))
            case Notice(kind="compaction_start"):
                self._pass("summarises what was said before")
            case SubagentStarted(agent=agent):
                self._pass(f"{agent or 'a subagent'} works")

    def say(self, text: str) -> None:
        """A line about what happens."""
        self._settle()
        print(tame(text, colour=self._color)[0], file=sys.stderr, flush=True)

    def end(self) -> None:
        """The turn is over: whatever comes next begins a line."""
        self._held = ""
        self._settle()
        self._end_line()

    def _answer(self, text: str) -> None:
        if not self._answers:
            return
        self._clear()
        if sys.stdout.isatty():
            text, self._held = tame(self._held + text, colour=False)
        if not text:
            return
        sys.stdout.write(text)
        sys.stdout.flush()
        self._open_line = not text.endswith("\n")

    def _ended(self, event: ToolEnded) -> None:
        name, arguments = self._calls.get(event.tool_call_id, (event.tool_name, {}))
        status = _STATES.get(event.status.value, "succeeded" if event.ok else "failed")
        mark = paint(glyph(status, unicode=has_unicode()), look(status).colour, enabled=self._color)
        began = self._began.pop(event.tool_call_id, None)
        took = duration(int((time.monotonic() - began) * 1000)) if began is not None else ""
        why = "" if event.ok else one_line(event.error)
        indent = "  " if event.parent_tool_call_id else ""
        parts = [f"{indent}{mark} {one_line(name)}", brief(arguments), took, why]
        self.say("  ".join(part for part in parts if part))

    def _arguments(self, call: str) -> dict[str, Any]:
        return self._calls.get(call, ("", {}))[1]

    def _pass(self, text: str) -> None:
        """A line that is there while nothing else is."""
        if not self._live or self._open_line:
            return
        self._clear()
        room = shutil.get_terminal_size().columns - 1
        sys.stderr.write(paint(one_line(text)[:room], "dim", enabled=self._color))
        sys.stderr.flush()
        self._passing = True

    def _clear(self) -> None:
        if self._passing:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
            self._passing = False

    def _settle(self) -> None:
        """What comes next stands on a line of its own. An answer that goes elsewhere is left as it is."""
        self._clear()
        if sys.stdout.isatty():
            self._end_line()

    def _end_line(self) -> None:
        if self._open_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._open_line = False


def asked_again(data: Mapping[str, Any]) -> str:
    """Why nothing comes, and when it is tried again."""
    why, wait_ms = one_line(str(data.get("error") or "it did not answer")), data.get("waitMs")
    when = f"in {duration(wait_ms)}" if isinstance(wait_ms, int) else "in a moment"
    return f"asked again {when}: {why}"


def brief(arguments: dict[str, Any]) -> str:
    """Arguments in one short line: a lone one without its name."""
    values = [
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in arguments.values()
    ]
    if len(values) == 1:
        text = one_line(values[0])
    else:
        text = one_line(" ".join(f"{name}={value}" for name, value in zip(arguments, values, strict=True)))
    return text if len(text) <= _LONGEST_ARGUMENTS else f"{text[: _LONGEST_ARGUMENTS - 3]}..."
