"""One turn at the terminal, from its message to its end.

A thread listens; what it hears, what is typed and Ctrl-C come to one loop, so that text goes on while a tool runs and
an approval that is answered elsewhere is asked no more. Ctrl-C ends the turn, a second one leaves it to itself.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from pilothouse.client.chats import OnApproval, Saying
from pilothouse.client.clients import Client
from pilothouse.client.events import ApprovalRequired, ApprovalResolved, ChatEvent, Done, Failed
from pilothouse.client.turns import Turn
from pilothouse.errors import PilothouseError, Refused
from pilothouse.interfaces.cli.chatting_asking import can_ask, choices, elsewhere, question, read_answer
from pilothouse.interfaces.cli.chatting_screen import ChatScreen
from pilothouse.interfaces.cli.feed import interrupts
from pilothouse.interfaces.cli.words import one_line, short

_TYPED_POLL = 0.05
_IDLE = 1.0


@dataclass(frozen=True, slots=True)
class _Pressed:
    """Ctrl-C."""


@dataclass(frozen=True, slots=True)
class _Quiet:
    """The stream is at its end."""


_Item = ChatEvent | _Pressed | _Quiet | Exception


@dataclass(slots=True)
class Outcome:
    """``end`` is None where the turn was left before it had ended."""

    end: Done | Failed | None = None
    pressed: bool = False


class TurnWatch:
    """Shows a turn to its end. ``talks``: lines that are typed meanwhile are said to it. ``pressed``: Ctrl-C was
    pressed already."""

    def __init__(self, turn: Turn, screen: ChatScreen, *, talks: bool = False, pressed: bool = False) -> None:
        self._turn = turn
        self._screen = screen
        self._talks = talks and sys.stdin.isatty()
        self._items: SimpleQueue[_Item] = SimpleQueue()  # its put may be called by a signal handler
        self._later: deque[_Item] = deque()
        self._outcome = Outcome()
        self._presses = 0
        if pressed:
            self._items.put(_Pressed())

    def follow(self) -> Outcome:
        """Raises what the stream gives up with."""
        threading.Thread(target=self._listen, name="turn", daemon=True).start()
        with interrupts(lambda: self._items.put(_Pressed())):
            for item in self._each():
                match item:
                    case _Pressed():
                        if self._pressed():
                            break
                    case ApprovalRequired():
                        self._asked(item)
                    case Done() | Failed():
                        self._outcome.end = item
                        break
                    case ChatEvent():
                        self._screen.show(item)
                    case Exception():
                        self._screen.end()
                        raise item
                    case _Quiet():
                        break
        self._screen.end()
        return self._outcome

    def _listen(self) -> None:
        try:
            for event in self._turn:
                self._items.put(event)
        except Exception as error:  # handed to whoever waits
            self._items.put(error)
        else:
            self._items.put(_Quiet())

    def _each(self) -> Iterator[_Item]:
        while True:
            if self._later:
                yield self._later.popleft()
            elif (item := self._next(_TYPED_POLL if self._talks else _IDLE)) is not None:
                yield item
            elif self._talks and (line := typed_line()) is not None:
                self._said(line)

    def _next(self, timeout: float) -> _Item | None:
        try:
            return self._items.get(timeout=timeout)
        except Empty:
            return None

    def _pressed(self) -> bool:
        """Ctrl-C; whether that was the one that leaves."""
        self._presses += 1
        self._outcome.pressed = True
        if self._presses > 1:
            return True
        self._screen.say("stopping; Ctrl-C again leaves at once")
        threading.Thread(target=self._abort, name="abort", daemon=True).start()  # a second one must not wait for it
        return False

    def _abort(self) -> None:
        try:
            self._turn.abort()
        except Refused:
            pass  # it has ended by itself
        except Exception as error:  # handed to whoever waits
            self._items.put(error)

    def _said(self, line: str) -> None:
        if line.strip() == "/stop":
            self._abort()
        elif line.strip():
            try:
                self._turn.steer(line)
                self._screen.say("said; it is heard when the answer goes on")
            except PilothouseError as error:  # what it says goes on to be shown
                self._screen.say(str(error))

    def _asked(self, asked: ApprovalRequired) -> None:
        if not can_ask():
            self._screen.say(elsewhere(asked))
            return
        self._screen.end()
        workflow = self._workflow_of(asked)
        while True:
            prompt(question(asked, workflow))
            typed = self._answer_or_news(asked)
            if typed is None:
                return
            if not typed:  # nothing more will be typed
                self._screen.say(f"\n{elsewhere(asked)}")
                return
            decision = read_answer(asked, typed)
            if decision is None:
                if typed.strip() and typed.strip().lower() not in choices(asked):
                    self._screen.say(f"{one_line(typed)!r} is none of the answers; Ctrl-C ends the turn")
                continue
            try:
                if not self._turn.decide(asked, decision):
                    self._screen.say("it has been answered elsewhere")
            except PilothouseError as error:
                self._screen.say(str(error))
                continue
            return

    def _workflow_of(self, asked: ApprovalRequired) -> dict[str, Any] | None:
        try:
            return self._turn.workflow_of(asked)
        except PilothouseError as error:  # the question stands without it
            self._screen.say(str(error))
            return None

    def _answer_or_news(self, asked: ApprovalRequired) -> str | None:
        """A line that was typed; None when there is nothing to answer any more. What else comes is kept."""
        while True:
            if (line := typed_line(_TYPED_POLL)) is not None:
                return line
            while (item := self._next(0.0001)) is not None:
                self._later.append(item)
                if isinstance(item, ApprovalResolved) and item.approval_id == asked.approval_id:
                    by = f" by {one_line(item.by)}" if item.by else ""
                    self._screen.say(f"\nanswered elsewhere{by}: {one_line(item.answer) or 'nobody did in time'}")
                    return None
                if isinstance(item, _Pressed | _Quiet | Done | Failed | Exception):
                    print(file=sys.stderr)
                    return None


def typed_line(timeout: float = 0.0) -> str | None:
    """A line from the terminal, if there is one; None: nothing was typed. At its end an empty one."""
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], timeout)
    # Not by sys.stdin: what its buffer holds of a second line is not ready for anybody.
    return os.read(sys.stdin.fileno(), 1 << 16).decode("utf-8", "replace") if ready else None


def prompt(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def begin(client: Client, message: str, on_approval: OnApproval | None, saying: Saying) -> tuple[Turn, bool]:
    """Send a message; also whether Ctrl-C was pressed before the turn had begun. A second one does not wait for that.
    Raises what the server refuses with."""
    presses = 0

    def press() -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            raise KeyboardInterrupt

    with interrupts(press):
        turn = client.stream(message, on_approval=on_approval, **saying)
    return turn, presses > 0


def left_note(turn: Turn) -> str:
    """What somebody is told who left a turn."""
    stop, go_on = f"pilothouse runs stop {short(turn.id)}", f"pilothouse chat --chat {turn.chat_id or 'last'}"
    return f"it may still go on: `{stop}` ends it, `{go_on}` goes on with the conversation"
