"""A conversation at the terminal: a line, its answer, the next line.

A line that begins with a slash is for the conversation itself. What is typed while an answer comes is said to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pilothouse.client.chats import OnApproval, Saying
from pilothouse.client.clients import Client
from pilothouse.client.events import Failed
from pilothouse.client.turns import Turn
from pilothouse.errors import PilothouseError
from pilothouse.interfaces.cli.chatting import TurnWatch, begin, left_note
from pilothouse.interfaces.cli.chatting_screen import ChatScreen
from pilothouse.interfaces.cli.door import ExitCode, note
from pilothouse.interfaces.cli.words import one_line

HISTORY_LINES = 1000
HELP = """\
/new          begin another conversation
/model [M]    show the models, or answer with M from now on
/stop         end what is going on; so does Ctrl-C
/retry        try the last answer again, when it failed or was stopped
/quit         leave; so does Ctrl-D"""


@dataclass(slots=True)
class Talk:
    """``saying`` is how every message is said; it learns the conversation from the first answer."""

    client: Client
    screen: ChatScreen
    history: Path
    on_approval: OnApproval | None = None
    saying: Saying = field(default_factory=Saying)
    unfinished: Turn | None = None
    """The last turn, where it came to no good end."""

    def go(self) -> int:
        """Until the person leaves; answers the exit code. Raises nothing but what cannot be talked over."""
        note("/help says what else there is")
        ask = _reader(self.history)
        interrupted = False
        while True:
            try:
                line = ask("> ").strip()
            except EOFError:
                print(file=sys.stderr)
                return ExitCode.SUCCEEDED
            except KeyboardInterrupt:
                print(file=sys.stderr)
                if interrupted:
                    return ExitCode.INTERRUPTED
                interrupted = True
                note("Ctrl-C again leaves")
                continue
            interrupted = False
            if line == "/quit":
                return ExitCode.SUCCEEDED
            try:
                if line.startswith("/"):
                    self._command(line)
                elif line:
                    self._say(line)
            except PilothouseError as error:
                note(f"error: {error}")

    def _say(self, line: str) -> None:
        turn, pressed = begin(self.client, line, self.on_approval, self.saying)
        self.saying["chat_id"] = turn.chat_id
        self._watch(turn, pressed=pressed)

    def _watch(self, turn: Turn, *, pressed: bool = False) -> None:
        self.unfinished = None
        outcome = TurnWatch(turn, self.screen, talks=True, pressed=pressed).follow()
        if outcome.end is None:
            note(left_note(turn))
        elif isinstance(outcome.end, Failed):
            self.unfinished = turn
            note(f"error: {outcome.end.display_message or outcome.end.message}")
            note("/retry tries it again")
        elif outcome.end.status != "complete":
            self.unfinished = turn
            note(
                "stopped; /retry goes on with it"
                if outcome.pressed
                else "stopped from elsewhere; /retry goes on with it"
            )

    def _retry(self) -> None:
        turn = self.unfinished
        if turn is None:
            note("there is nothing to try again")
            return
        failed = self.client.runs.show(turn.id)["status"] == "failed"
        (self.client.runs.retry if failed else self.client.runs.resume)(turn.id)
        self._watch(self.client.follow(turn.id, after=turn.seq))

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        match name:
            case "/new":
                self.saying["chat_id"] = self.unfinished = None
                note("what you say next begins another conversation")
            case "/model":
                self._model(rest.strip())
            case "/stop":
                self._stop()
            case "/retry":
                self._retry()
            case _:
                note(HELP)

    def _model(self, wanted: str) -> None:
        models = self.client.chats.models()
        if wanted:
            known = {model.id for model in models}
            if known and wanted not in known:
                note(f"there is no model {one_line(wanted)}; `/model` shows what there is")
                return
            self.saying["model"] = wanted
            note(f"{one_line(wanted)} answers from now on")
            return
        for model in models:
            chosen = model.id == self.saying.get("model") or (model.default and not self.saying.get("model"))
            note(f"{'*' if chosen else ' '} {model.id}  {model.name}".rstrip())

    def _stop(self) -> None:
        chat_id = self.saying.get("chat_id")
        active = self.client.chats.get(chat_id).active_stream_id if chat_id else None
        if active is None:
            note("nothing is going on")
            return
        self.client.chats.abort(active)
        note("stopped")


def _reader(history: Path) -> Callable[[str], str]:
    """Lines with editing and a history that outlives this process, where Python has them."""
    try:
        import readline
    except ImportError:
        return input
    try:
        if history.exists():
            readline.read_history_file(history)
    except OSError:
        pass  # it is a convenience
    readline.set_history_length(HISTORY_LINES)

    def ask(prompt: str) -> str:
        line = input(prompt)
        try:
            history.touch(mode=0o600, exist_ok=True)
            readline.write_history_file(history)
        except OSError:
            pass
        return line

    return ask
