"""Following one plan to its end: the fold of its events, a screen that shows it, and Ctrl-C.

The rules of the fold are the plan's own (``PlanKind``); here events are only taken in. Lost connections are the
feed's affair.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pilothouse.client.sse import Message
from pilothouse.core.plan.effects import Rescue
from pilothouse.core.plan.intents import phase_spec
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.phases import COMMANDS
from pilothouse.core.plan.spec import AgentSpec
from pilothouse.core.plan.state import PlanState
from pilothouse.core.run.events import Recorded
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.engine.kinds import REGISTRY
from pilothouse.errors import PilothouseError, Refused
from pilothouse.interfaces.cli.activities import Activities
from pilothouse.interfaces.cli.client import Client, segment
from pilothouse.interfaces.cli.door import ExitCode
from pilothouse.interfaces.cli.feed import Ended, Feed, Interrupted, Presses, Reconnected
from pilothouse.interfaces.cli.tree import running_phase
from pilothouse.interfaces.cli.words import last_line, short

FRAME = 0.1
"""Seconds between two pictures while something happens."""
IDLE_FRAME = 0.5
"""Seconds between two while only time passes."""
TAIL_PAUSE = 0.25
"""Seconds between two questions for output."""
STOP_PATIENCE = 10.0
RESCUE_PATIENCE = 3.0
_RESCUE_PAUSE = 0.02
_MOST_AT_ONCE = 2000

KIND = PlanKind()

EXIT_CODES = {
    Lifecycle.SUCCEEDED: ExitCode.SUCCEEDED,
    Lifecycle.PARTIAL: ExitCode.PARTIAL,
    Lifecycle.FAILED: ExitCode.FAILED,
    Lifecycle.CANCELED: ExitCode.FAILED,
    Lifecycle.STOPPED: ExitCode.INTERRUPTED,
}


class Screen(Protocol):
    """Something that shows a plan's progress."""

    redraws: bool
    """Whether time alone changes the picture."""

    def show(self, state: PlanState, recorded: Recorded) -> None: ...
    def draw(self, state: PlanState) -> None: ...
    def visible(self, state: PlanState) -> list[str]:
        """Ids of nodes whose output it would show."""
        ...

    def output(self, node_id: str, line: str) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self, state: PlanState) -> None: ...


@dataclass(frozen=True, slots=True)
class Watched:
    """How it ended. ``client`` reaches whoever owns the data directory now; ``left``: the person left before the end,
    ``stopping``: having asked for a stop."""

    state: PlanState
    client: Client
    left: bool = False
    stopping: bool = False


class Watch:
    """One plan being followed."""

    def __init__(
        self,
        client: Client,
        data_dir: Path,
        plan_id: str,
        screen: Screen,
        presses: Presses,
        *,
        stops: bool,
        seen: int = 0,
        ended: int = 0,
    ) -> None:
        """``stops``: whether Ctrl-C stops the plan, or only leaves it. ``seen``: events up to this number are folded
        and not shown. ``ended``: an end before this number is that of an earlier leg."""
        self._client = client
        self._data_dir = data_dir
        self._screen = screen
        self._presses = presses
        self._stops = stops
        self._seen, self._ended = seen, ended
        self._state = KIND.initial(plan_id)
        self._tails = _Tails()
        self._activities = Activities()
        self._handled = 0
        self._owes_stop = self._asked_stop = False

    def follow(self) -> Watched:
        """Follow until the plan has ended or the person has left. Raises what the feed gives up with."""
        run_id = self._state.common.run_id
        with Feed(self._client, self._data_dir, run_id) as feed:
            self._presses.feed = feed
            try:
                left = self._loop(feed)
                if not left:
                    self._await_rescues()
            finally:
                self._presses.feed = None
                self._screen.close(self._state)
        return Watched(self._state, self._client, left, stopping=self._asked_stop)

    def _loop(self, feed: Feed) -> bool:
        """True when the person left before the end."""
        drawn, dirty = 0.0, True
        while True:
            if self._pressed():
                return True
            changed = self._take(feed)
            if changed is None or (self._state.common.terminal and self._state.common.seq >= self._ended):
                return False
            dirty = dirty or changed
            now = time.monotonic()
            if now - drawn >= (FRAME if dirty else IDLE_FRAME):
                self._draw()
                drawn, dirty = now, False

    def _take(self, feed: Feed) -> bool | None:
        """Take in what has come, waiting a moment for the first; None: nothing more will come."""
        item = feed.next(FRAME if self._screen.redraws else IDLE_FRAME)
        taken = 0
        while item is not None:
            match item:
                case Message():
                    self._fold(REGISTRY.unwire(item.data))
                case Ended():
                    return None
                case Reconnected(client=client):
                    self._client = client
                    if self._owes_stop:
                        self._stop()
                case Interrupted():
                    return taken > 0
                case PilothouseError():
                    raise item
            taken += 1
            if taken >= _MOST_AT_ONCE or self._state.common.terminal:
                break
            item = feed.next(0)
        return taken > 0

    def _fold(self, recorded: Recorded) -> None:
        self._state = KIND.evolve(self._state, recorded)
        if recorded.seq > self._seen:
            self._screen.show(self._state, recorded)
            if (found := self._activities.add(recorded.event)) is not None:
                self._screen.output(*found)

    def _await_rescues(self) -> None:
        """The edits of nodes that were stopped are saved after the end; wait for that, a moment."""
        path = f"/api/runs/{self._state.common.run_id}/events"
        deadline = time.monotonic() + RESCUE_PATIENCE
        while any(isinstance(one, Rescue) for one in self._state.housekeeping.values()):
            if time.monotonic() > deadline:
                return
            time.sleep(_RESCUE_PAUSE)
            try:
                events = self._client.get(path, after=self._state.common.seq)["events"]
            except PilothouseError:
                return  # the answer is as true without
            for event in events:
                self._state = KIND.evolve(self._state, REGISTRY.unwire(json.dumps(event)))

    def _draw(self) -> None:
        self._screen.draw(self._state)
        if (found := self._tails.poll(self._client, self._state, self._screen.visible(self._state))) is not None:
            self._screen.output(*found)

    def _pressed(self) -> bool:
        """Whether the person has left: by the first Ctrl-C where nothing is to be stopped, else by the second."""
        if self._presses.count <= self._handled:
            return False
        self._handled += 1
        if not self._stops or self._handled > 1:
            return True
        self._screen.say("stopping; Ctrl-C again leaves before it has ended")
        self._stop()
        return False

    def _stop(self) -> None:
        self._owes_stop = False
        try:
            self._client.post(f"/api/runs/{self._state.common.run_id}/stop", timeout=STOP_PATIENCE)
            self._asked_stop = True
        except Refused:
            pass  # it has just ended
        except PilothouseError as error:
            self._owes_stop = True
            self._screen.say(f"the stop could not be delivered yet: {error}")


class _Tails:
    """The last line that running nodes printed, asked for now and then, whoever was asked longest ago first."""

    def __init__(self) -> None:
        self._asked: dict[str, float] = {}
        self._size: dict[str, tuple[int, int]] = {}
        self._last = 0.0

    def poll(self, client: Client, state: PlanState, nodes: list[str]) -> tuple[str, str] | None:
        """(node id, its last line) of one node that has printed more, at most one every ``TAIL_PAUSE``."""
        now = time.monotonic()
        if now - self._last < TAIL_PAUSE:
            return None
        for node_id in sorted(nodes, key=lambda one: self._asked.get(one, 0.0)):
            node = state.nodes[node_id]
            phase = running_phase(node)
            if phase not in COMMANDS or isinstance(phase_spec(node, phase), AgentSpec):
                continue  # what an agent does is in the log
            size = (node.attempt.number, node.attempt.phases[phase].output_to)
            if not size[1] or self._size.get(node_id) == size:
                continue
            self._last = self._asked[node_id] = now
            path = f"/api/plans/{state.common.run_id}/nodes/{segment(node_id)}/logs"
            try:
                text = client.get(path, phase=str(phase), tail=1, timeout=2.0)["text"]
            except (PilothouseError, KeyError):
                return None
            self._size[node_id] = size
            return node_id, last_line(str(text))
        return None


def left_note(plan_id: str, *, stopping: bool) -> str:
    """What to say when the person left."""
    name = short(plan_id)
    again = f"`pilothouse plan show {name} --follow` comes back to it"
    if stopping:
        return f"it was asked to stop and ends without you; {again}, `pilothouse plan resume {name}` goes on"
    return f"it goes on without you; {again}, `pilothouse plan stop {name}` stops it"
