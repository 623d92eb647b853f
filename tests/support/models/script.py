"""What a model does in one conversation, turn by turn.

Which turn comes next is read from the conversation itself, not counted here: an agent that resumes goes on where it
was, one that starts afresh hears the script from its start. Only faults are counted, as they leave no trace in a
conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tests.support.models.asked import Asked
from tests.support.models.parts import Drop, Fail, Hold, Part, Say, Turn

ASIDE: Turn = (Say("A short title"),)
"""Answers what a client asks beside the conversation: titles, summaries."""
OVER: Turn = (Say("There is nothing left to do."),)


class Script:
    """Turns, each a part or several.

    ``tools_only``: a request that offers no tools is taken for a side request of the client, answered harmlessly.
    """

    def __init__(self, *turns: Part | Turn, tools_only: bool = True) -> None:
        self.tools_only = tools_only
        self._answers: list[list[tuple[Turn, int]]] = [[]]
        """For each turn of the conversation: the faults before it with how often each is met, then its answer."""
        self._met: Counter[int] = Counter()
        for given in turns:
            turn = tuple(given) if isinstance(given, Sequence) else (given,)
            if times := _faulty(turn):
                self._answers[-1].append((turn, times))
            else:
                self._answers[-1].append((turn, 0))
                self._answers.append([])

    def turn(self, asked: Asked) -> Turn:
        if self.tools_only and not asked.tools:
            return ASIDE
        now = min(asked.turns, len(self._answers) - 1)  # some clients keep half an answer as a turn: a last fault lasts
        met = self._met[now]
        self._met[now] += 1
        for turn, times in self._answers[now]:
            if not times or met < times:
                return turn
            met -= times
        return OVER


def _faulty(turn: Turn) -> int:
    """How often a turn that leaves no answer behind is met; 0 for one that does leave one."""
    for part in turn:
        match part:
            case Fail(times=times) | Drop(times=times):
                return times
            case Hold(name=None):
                return 1
    return 0


Scripted = Script | Callable[[Asked], Turn] | Sequence[Part | Turn]
"""What a test may give: a script, a function of the question, or the turns."""


def player(scripted: Scripted) -> Callable[[Asked], Turn]:
    if isinstance(scripted, Script):
        return scripted.turn
    if callable(scripted):
        return scripted
    return Script(*scripted).turn
