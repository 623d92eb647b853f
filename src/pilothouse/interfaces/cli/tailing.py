"""Output of a plan as it grows: ``plan logs --follow``.

The log says when output has grown; the text is then asked for whole, and what has been printed before is left out.
Large outputs are therefore asked for less often: never more than a small part of the time goes into asking.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path

from pilothouse.client.sse import Message
from pilothouse.core.plan.agent_events import AgentEvent
from pilothouse.core.plan.events import LogAppended
from pilothouse.core.plan.kind import PlanKind
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.state import PlanState
from pilothouse.engine.kinds import REGISTRY
from pilothouse.errors import NotFound, PilothouseError
from pilothouse.interfaces.cli.client import Client, segment
from pilothouse.interfaces.cli.feed import Ended, Feed, Reconnected
from pilothouse.interfaces.cli.printing import end_output, print_output
from pilothouse.interfaces.cli.telling import name_of
from pilothouse.interfaces.cli.words import one_line

_PAUSE = 0.2
_ASKING_SHARE = 10
"""A question that took t seconds is followed by this many times t without one."""
_Output = tuple[str, int, Phase]


class _Printer:
    """What has been printed of every output, and what is still owed."""

    def __init__(self, plan_id: str, *, headers: bool, tail: int | None, raw: bool) -> None:
        self._plan_id = plan_id
        self._raw = raw
        self._headers = headers
        self._tail = tail
        self._printed: dict[_Output, int] = {}
        self._held: dict[_Output, str] = {}
        self._last: _Output | None = None
        self._in_line = False
        self.owed: dict[_Output, None] = {}

    def pay(self, client: Client, state: PlanState) -> None:
        for output in list(self.owed):
            node_id, attempt, phase = output
            path = f"/api/plans/{self._plan_id}/nodes/{segment(node_id)}/logs"
            text = str(client.get(path, phase=str(phase), attempt=attempt, raw=self._raw)["text"])
            del self.owed[output]
            self._print(output, text, name_of(state, node_id))

    def _print(self, output: _Output, text: str, name: str) -> None:
        if output not in self._printed and self._tail is not None:
            text_before = len(text) - len("".join(text.splitlines(keepends=True)[-self._tail :] if self._tail else []))
            self._printed[output] = text_before
        fresh = text[self._printed.get(output, 0) :]
        self._printed[output] = len(text)
        if not fresh:
            return
        if self._last != output:
            self.close()
            if self._headers:
                print(f"==> {one_line(name)}, {output[2]}, attempt {output[1]} <==")
        self._last = output
        self._held[output] = print_output(fresh, self._held.get(output, ""))
        self._in_line = not fresh.endswith("\n")
        sys.stdout.flush()

    def close(self) -> None:
        """No more of the output printed last, for now: what follows begins a line."""
        if self._last is not None:
            end_output()
            print(end="\n" if self._in_line else "")
            self._in_line = False
            sys.stdout.flush()


def follow_logs(
    client: Client,
    data_dir: Path,
    plan_id: str,
    node: str | None,
    *,
    phase: str | None,
    tail: int | None,
    raw: bool = False,
) -> None:
    """Print output until the plan has ended. Raises ``NotFound`` for a node it does not have."""
    since = int(client.get(f"/api/runs/{plan_id}")["seq"])
    wanted = str(client.get(f"/api/plans/{plan_id}/nodes/{segment(node)}")["id"]) if node is not None else None
    kind = PlanKind()
    state = kind.initial(plan_id)
    printer = _Printer(plan_id, headers=node is None, tail=tail, raw=raw)
    asked_until = 0.0
    with Feed(client, data_dir, plan_id) as feed, closing(printer):
        while True:
            item = feed.next(_PAUSE)
            match item:
                case Message():
                    recorded = REGISTRY.unwire(item.data)
                    state = kind.evolve(state, recorded)
                    match recorded.event:
                        case (
                            LogAppended(node_id=at, attempt=number, phase=in_phase)
                            | AgentEvent(node_id=at, attempt=number, phase=in_phase)
                        ):
                            if (wanted is None or at == wanted) and (phase is None or in_phase == phase):
                                printer.owed[(at, number, in_phase)] = None
                case Reconnected():
                    client = item.client
                case PilothouseError():
                    raise item
            ended = isinstance(item, Ended) or (state.common.terminal and state.common.seq >= since)
            now = time.monotonic()
            if ended or (now >= asked_until and state.common.seq >= since):
                try:
                    printer.pay(client, state)
                except NotFound:
                    raise
                except PilothouseError:
                    if ended:
                        raise
                took = time.monotonic() - now
                asked_until = now + took + max(_PAUSE, took * _ASKING_SHARE)
            if ended:
                return
