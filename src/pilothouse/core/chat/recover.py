"""What is unknown after a restart, and what follows from that.

* A request that the executor still knows is adopted. Any other is lost, and with it the turn: half an answer is not
  asked for once more behind the back of who reads it. What had come is kept.
* A tool that is as good twice as once runs again, while somebody waits for its result. No other is ever begun twice.
* What waits for a person, or for a moment, goes on waiting.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.chat.approvals import over
from pilothouse.core.chat.calls import BackendEnd, CallStatus
from pilothouse.core.chat.effects import AnswerBackend, CallBackend, RunTool, SteerBackend
from pilothouse.core.chat.endings import end_of, why_cancelled
from pilothouse.core.chat.events import STEERING_FAILED, BackendAnswered, TurnNoticed
from pilothouse.core.chat.state import ToolCall, TurnState
from pilothouse.core.chat.tool_events import ToolStarted
from pilothouse.core.run.contract import Effect
from pilothouse.core.run.events import Event, RunRecovered
from pilothouse.core.run.inputs import Recover
from pilothouse.core.run.lifecycle import Lifecycle


def effect_key(run_id: str, key: str) -> str:
    """What an executor calls a turn's effect: unique over all runs."""
    return f"{run_id}/{key}"


def recover(state: TurnState, given: Recover) -> list[Event]:
    known = [key for key in state.open if effect_key(state.common.run_id, key) in given.known]
    gone = [effect for key, effect in state.open.items() if key not in known]
    request = state.request
    asking = request is not None and request.key in known
    events: list[Event] = []
    for effect in gone:
        events += _lost(state, effect, asking)
    lost = tuple(effect.key for effect in gone)
    return [RunRecovered(epoch=given.epoch, adopted=tuple(known), lost=lost), *events]


def _lost(state: TurnState, effect: Effect, asking: bool) -> Sequence[Event]:
    match effect:
        case CallBackend():
            assert state.last is not None
            return (end_of(state.last, BackendEnd.LOST, None),)
        case RunTool():
            return (_lost_tool(state, state.calls[effect.tool_call_id], asking),)
        case SteerBackend() if not asking:
            return (TurnNoticed(kind=STEERING_FAILED, data={"steeringId": effect.steering_id}),)
        case AnswerBackend() if not asking:
            return (BackendAnswered(wait_id=effect.key.partition("/")[2], error="the agent is gone"),)
    return ()  # told again: the backend knows it by its id


def _lost_tool(state: TurnState, call: ToolCall, asking: bool) -> Event:
    if state.common.lifecycle is not Lifecycle.RUNNING or state.timed_out:
        return over(state, call, CallStatus.CANCELLED, *why_cancelled(state))
    request = state.last
    doomed = request is not None and (request.failed or (request.open and not asking))
    if state.offered[call.name].repeatable and not doomed:
        return ToolStarted(tool_call_id=call.id, attempt=call.attempt + 1)
    error = f"{call.name} was interrupted by a restart of the server; it was not run again"
    return over(state, call, CallStatus.ERROR, "lost", error)
