"""The live tree on a terminal. Imported only when one is drawn: rich takes a while to load."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from pilothouse.core.plan.events import TargetOpened
from pilothouse.core.plan.state import PlanState
from pilothouse.core.plan.states import ACTIVE
from pilothouse.core.run.events import Recorded, RunRecovered, StopDelayed
from pilothouse.interfaces.cli.telling import tell, waiting
from pilothouse.interfaces.cli.tree import Line, Tree, totals
from pilothouse.interfaces.cli.words import duration, look, one_line, short

_WIDE = 60
"""Columns from which there is room for times and details."""
_LEAST_DETAIL = 12
_MOST_WAITS = 3
_SAID_FOR = 8.0
"""Seconds that a message stays."""


def _length(line: Line) -> int:
    return len(line.name) + (2 + len(line.title) if line.title else 0)


class LiveScreen:
    """Draws a plan again and again in the same place. Use as a context manager, or ``close`` it."""

    redraws = True

    def __init__(self, *, no_color: bool = False, unicode: bool = True) -> None:
        self._console = Console(no_color=True if no_color else None, highlight=False, markup=False, emoji=False)
        self._unicode = unicode
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._tree: Tree | None = None
        self._output: dict[str, str] = {}
        self._said, self._said_at = "", 0.0

    def show(self, state: PlanState, recorded: Recorded) -> None:
        """The tree shows most by itself; what it cannot is kept as a message."""
        if isinstance(recorded.event, StopDelayed | RunRecovered) or (
            isinstance(recorded.event, TargetOpened) and recorded.event.note
        ):
            self.say(tell(state, recorded) or "")

    def output(self, node_id: str, line: str) -> None:
        self._output[node_id] = line

    def visible(self, state: PlanState) -> list[str]:
        """Active nodes with a place on the screen."""
        active = [node.node.id for node in state.in_status(*ACTIVE)]
        return active[: self._console.height]

    def say(self, text: str) -> None:
        self._said, self._said_at = one_line(text), time.monotonic()

    def draw(self, state: PlanState) -> None:
        if not self._live.is_started:
            self._live.start()
        self._live.update(self.render(state, int(time.time() * 1000)), refresh=True)

    def close(self, state: PlanState) -> None:
        self._said = ""
        if self._live.is_started:
            self.draw(state)
            self._live.stop()

    def render(self, state: PlanState, now: int) -> Group:
        """The whole picture at ``now``, as tall as the terminal allows."""
        if state.built is None:
            return Group(Text(""))
        self._tree = self._tree or Tree(state)
        width, height = self._console.size
        messages = [line for text in self._messages(state) for line in text.wrap(self._console, width)]
        messages = messages[: height // 2]
        lines = self._tree.lines(state, max(1, height - len(messages) - 3), now, self._output)
        texts = [self._header(state, now), *self._columns(lines, width), self._totals(state)]
        for text in texts:
            text.truncate(width, overflow="ellipsis" if self._unicode else "crop")
        for text in [*texts, *messages]:
            text.no_wrap = True
        return Group(*texts, *messages)

    def _header(self, state: PlanState, now: int) -> Text:
        run = state.common
        status = run.lifecycle.lower()
        text = Text()
        text.append(f"{self._glyph(status)} {status}", style=look(status).colour)
        text.append(f"  {one_line(run.name)}", style="bold")
        if run.started_at is not None:
            text.append(f"  {duration((run.ended_at or now) - run.started_at)}")
        text.append(f"  {short(run.run_id)}", style="dim")
        return text

    def _columns(self, lines: list[Line], width: int) -> list[Text]:
        names = max((2 * line.depth + 2 + _length(line) for line in lines), default=0)
        names = min(names, max(12, width * 2 // 5))
        words = max((len(line.word) for line in lines), default=0)
        wide = width >= _WIDE
        texts = []
        for line in lines:
            text = Text(" " * (2 * line.depth))
            if not line.status:
                texts.append(text.append(line.name if self._unicode else line.name.replace("…", "..."), style="dim"))
                continue
            text.append(f"{self._glyph(line.status)} ", style=look(line.status).colour)
            text.append(line.name)
            if line.title:
                text.append(f"  {line.title}", style="dim")
            text.truncate(names, overflow="ellipsis" if self._unicode else "crop", pad=True)
            text.append(f"  {line.word.ljust(words)}", style=look(line.status).colour)
            if wide:
                text.append(f"  {line.elapsed:>7}", style="dim")
                if line.detail and width - text.cell_len > _LEAST_DETAIL:
                    text.append(f"  {line.detail}", style="dim")
            elif line.elapsed:
                text.append(f" {line.elapsed}", style="dim")
            text.rstrip()
            texts.append(text)
        return texts

    def _totals(self, state: PlanState) -> Text:
        text = Text()
        separator = " · " if self._unicode else ", "
        for status, count in totals(state):
            if text:
                text.append(separator, style="dim")
            text.append(f"{count} {status}", style=look(status).colour)
        return text

    def _messages(self, state: PlanState) -> list[Text]:
        waits = list(state.common.waits.values())
        told = [Text(waiting(state, wait), style="yellow") for wait in waits[:_MOST_WAITS]]
        if len(waits) > _MOST_WAITS:
            told.append(Text("more: `pilothouse approvals list`", style="yellow"))
        if self._said and time.monotonic() - self._said_at < _SAID_FOR:
            told.append(Text(self._said, style="yellow"))
        return told

    def _glyph(self, status: str) -> str:
        found = look(status)
        return found.glyph if self._unicode else found.plain
