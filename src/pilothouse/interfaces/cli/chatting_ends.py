"""How a turn that was watched ended: what the person is told, how they go on from there, and the exit code."""

from __future__ import annotations

from pathlib import Path

from pilothouse.client.clients import Client
from pilothouse.client.events import Failed
from pilothouse.client.turns import Turn
from pilothouse.interfaces.cli.chatting import Outcome, TurnWatch, left_note
from pilothouse.interfaces.cli.chatting_screen import ChatScreen
from pilothouse.interfaces.cli.door import ExitCode, note, say_error
from pilothouse.interfaces.cli.words import short


def told_end(turn: Turn, outcome: Outcome) -> ExitCode:
    """Say how it ended where that is no good end."""
    end = outcome.end
    if end is None:
        note(left_note(turn))
        return ExitCode.INTERRUPTED
    if isinstance(end, Failed):
        say_error(end.display_message or end.message, ExitCode.FAILED)
        if end.recoverable:
            note(f"`pilothouse runs retry {short(turn.id)} --follow` tries it again")
        return ExitCode.FAILED
    if end.status != "complete":
        note("stopped" if outcome.pressed else "stopped from elsewhere")
        note(f"`pilothouse runs resume {short(turn.id)} --follow` goes on with it")
        return ExitCode.INTERRUPTED
    if end.requires_action:
        note(f"waits for the results of {', '.join(end.pending_tool_call_ids)}")
    return ExitCode.SUCCEEDED


def follow_turn(data_dir: Path, turn_id: str, after: int, *, no_color: bool) -> ExitCode:
    """Watch a turn that goes on, from what comes after an event's number, to its end."""
    with Client(data_dir=data_dir) as client:
        turn = client.follow(turn_id, after=after)
        return told_end(turn, TurnWatch(turn, ChatScreen(no_color=no_color)).follow())
