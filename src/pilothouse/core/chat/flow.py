"""What follows from the state of a turn as it is: calls are begun or refused, the backend is asked again, the leg ends.

Every function answers events and changes nothing; each is asked again until nothing follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from pilothouse.core.chat.approvals import approval, over, policy
from pilothouse.core.chat.calls import BackendEnd, CallReason, CallStatus, OnApproval, RunBy
from pilothouse.core.chat.effects import RunTool
from pilothouse.core.chat.endings import failure, looping, timed_out, why_cancelled
from pilothouse.core.chat.events import STEERING_FAILED, BackendCalled, SteeringApplied, TurnNoticed
from pilothouse.core.chat.routing import for_others
from pilothouse.core.chat.state import Request, ToolCall, TurnState, steer_key
from pilothouse.core.chat.tool_events import ToolEnded, ToolStarted
from pilothouse.core.run import control
from pilothouse.core.run.events import Event, RunFinished, WaitClosed, WaitOpened
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.waits import Wait, WaitKind
from pilothouse.core.tools.spec import Permit

MOST_CALLS = 500
"""Requests of one leg. A backend and its tools can keep each other busy for ever."""
MOST_AT_ONCE = 64
"""Tools of one turn that are executed beside each other; more wait their turn."""
TRIES = 3
"""How often a request is made that brings nothing."""
_BACKOFF_MS = (250, 500)
_NOT_HEARD = "the turn has ended with calls that are left to you; say it with their results"


def settle(state: TurnState) -> Sequence[Event]:
    run = state.common
    if run.lifecycle is Lifecycle.STOPPING:
        return end_rest(state) or control.settle(run, draining=bool(state.open), working=False)
    if run.lifecycle is not Lifecycle.RUNNING:
        return ()
    if state.timed_out:
        return end_rest(state) or (() if state.open else (timed_out(state),))
    last = state.last
    if last is None or state.new_leg:
        return _ask(state, CallReason.FIRST if last is None else CallReason.RESUMED)
    if last.failed:
        return _again(state, last) if passing(state, last) else _fail(state, last)
    if events := policy(state) or judge(state):
        return events
    if last.open:
        return ()
    return leftovers(state, last) or _next(state, last)


# --- calls ---


def judge(state: TurnState) -> list[Event]:
    """What becomes of calls that have been told: those that may are begun while there is room."""
    events: list[Event] = []
    if state.ready:
        room = MOST_AT_ONCE - sum(isinstance(effect, RunTool) for effect in state.open.values())
        events += [ToolStarted(tool_call_id=call_id) for call_id in islice(state.ready, max(0, room))]
    return [*events, *(_judged(state, call) for call in state.fresh.values())]


def _judged(state: TurnState, call: ToolCall) -> Event:
    """Of a call that may not be begun as it is."""
    if call.run_by is RunBy.BACKEND:
        return over(state, call, CallStatus.SUCCESS)  # it is an answer, and nothing to be executed
    if call.run_by is RunBy.CLIENT:
        return over(state, call, CallStatus.SKIPPED, "no_client", f"{call.name} runs in a client, and none is attached")
    if call.name not in state.offered:
        return over(state, call, CallStatus.ERROR, "not_found", f"Tool not found: {call.name or call.id}")
    if call.permit is Permit.DENY:
        return over(state, call, CallStatus.SKIPPED, "not_permitted", f"{call.name} is not permitted here")
    if state.facts.on_approval is OnApproval.WAIT:
        return approval(state, call)
    how = f"{call.name} needs approval: allow it for the chat or always, or send with onApproval wait or run"
    return over(state, call, CallStatus.SKIPPED, "needs_approval", how)


def end_rest(state: TurnState) -> list[Event]:
    """What has not been begun, and what nobody here can end, is over; what waits is not asked for any more."""
    reason, why = why_cancelled(state)
    waits: list[Event] = [WaitClosed(wait_id=wait.id, scope=wait.scope) for wait in state.common.waits.values()]
    rest = [call for call in state.live.values() if not state.executing(call)]
    return [*waits, *(over(state, call, CallStatus.CANCELLED, reason, why) for call in rest)]


def leftovers(state: TurnState, last: Request) -> list[Event]:
    """What a request left behind that had a good end."""
    events: list[Event] = [WaitClosed(wait_id=wait_id) for wait_id in state.questions]
    for call in state.leftover.values():
        if not call.told:
            error = f"The arguments of {call.name or call.id} never came"
            events.append(ToolEnded(tool_call_id=call.id, status=CallStatus.ERROR, error=error, reason="incomplete"))
        elif call.run_by is RunBy.BACKEND:
            events.append(ToolEnded(tool_call_id=call.id, status=CallStatus.SUCCESS))  # it has, and said no more of it
        elif not (call.background or state.executing(call)):  # an agent's: nobody hears of its end any more
            events += [WaitClosed(wait_id=call.wait_id, scope=call.id)] if call.wait_id in state.common.waits else []
            events.append(over(state, call, CallStatus.CANCELLED, "agent_ended", "The agent ended before it was begun"))
    return events


# --- the backend ---


def _next(state: TurnState, last: Request) -> Sequence[Event]:
    waiting = (call for call in state.live.values() if call.ours and not call.answered)
    if (first := next(waiting, None)) is not None:
        left = _is_left(state, first) and all(_is_left(state, call) for call in waiting)
        return _finish(state, pending=True) if left and not state.open else ()
    if steering_open(state):
        return ()
    if last.end is BackendEnd.PAUSED:
        return _ask(state, CallReason.RESULTS, last.paused_at, last.pending)
    if not state.facts.features.reports and unbrought(state):
        return _ask(state, CallReason.RESULTS)
    if unheard(state):
        return _ask(state, CallReason.STEERING)
    return _finish(state) if not (state.open or state.live) else ()


def _is_left(state: TurnState, call: ToolCall) -> bool:
    """It is for whoever sent the message."""
    return call.status is CallStatus.PENDING and for_others(state, call.run_by, call.name)


def _ask(state: TurnState, reason: CallReason, checkpoint_id: str = "", results: Sequence[str] = ()) -> Sequence[Event]:
    last = state.last
    number = last.number + 1 if last is not None else 1
    if number - state.leg_began_with >= MOST_CALLS:
        return end_rest(state) or (() if state.open else (looping(MOST_CALLS),))
    if last is None:
        checkpoint_id = state.facts.checkpoint_id
    elif reason in (CallReason.AGAIN, CallReason.RESUMED) and last.failed and not last.heard:
        checkpoint_id, results = last.checkpoint_id, last.results  # nothing came of it: the same once more
    elif reason is CallReason.RESUMED and last.end is BackendEnd.PAUSED and not state.facts.features.aborts:
        checkpoint_id, results = last.paused_at, last.pending
    brought = [call_id for call_id in results if (call := state.calls.get(call_id)) is not None and call.ours]
    called = BackendCalled(
        call=number,
        reason=reason,
        checkpoint_id=checkpoint_id,
        results=tuple(dict.fromkeys([*brought, *unbrought(state)])),
    )
    steering = unheard(state)
    return (SteeringApplied(steering_ids=steering, call=number), called) if steering else (called,)


def unbrought(state: TurnState) -> list[str]:
    """Calls with something to tell the backend that it has not been told. An agent is told where it called."""
    if state.facts.features.own_tools:
        return []
    return [call.id for call in state.calls.values() if call.ours and call.answered and not call.brought]


def unheard(state: TurnState) -> tuple[str, ...]:
    """What was said meanwhile and no request has brought, or only one that brought nothing."""
    last = state.last
    lost = last.number if last is not None and last.failed and not last.heard else 0
    return tuple(part.id for part in state.steering.values() if not part.call or part.call == lost)


def steering_open(state: TurnState) -> bool:
    return any(steer_key(steering_id) in state.open for steering_id in state.steering)


# --- ends ---


def passing(state: TurnState, last: Request) -> bool:
    """It failed for a reason that passes, and nothing of it was heard."""
    return (
        last.end in (BackendEnd.FAILED, BackendEnd.EOF)
        and last.transient
        and not last.heard
        and state.facts.features.repeats
        and last.tries < TRIES
        and last.ended_at + _wait_ms(last) < state.deadline
    )


def _wait_ms(last: Request) -> int:
    return last.retry_after_ms or _BACKOFF_MS[min(last.tries, len(_BACKOFF_MS)) - 1]


def _again(state: TurnState, last: Request) -> Sequence[Event]:
    if last.again:
        return _ask(state, CallReason.AGAIN)
    if last.backoff:
        return ()
    wait = Wait(
        id=f"{state.common.run_id}.backoff.{last.number}",
        kind=WaitKind.BACKOFF,
        question="The backend is asked again in a moment",
        detail={"error": last.error, "tries": last.tries},
        lasts_ms=_wait_ms(last),
    )
    return (WaitOpened(wait=wait),)


def _fail(state: TurnState, last: Request) -> Sequence[Event]:
    """Once its tools have settled."""
    return end_rest(state) or (() if state.open else (failure(last),))


def _finish(state: TurnState, *, pending: bool = False) -> Sequence[Event]:
    """``pending``: with calls that are left to whoever sent the message, and subagents that wait for them. No request
    comes any more that could bring what nobody has heard yet."""
    assert state.last is not None
    summary: dict[str, object] = {"calls": state.last.number, "toolCalls": len(state.calls)}
    if pending:
        summary["pendingToolCallIds"] = [call.id for call in state.live.values() if call.ours]
    lost = [steering_id for steering_id in unheard(state) if not state.steering[steering_id].told]
    notices = [
        TurnNoticed(kind=STEERING_FAILED, data={"steeringId": steering_id, "error": _NOT_HEARD}) for steering_id in lost
    ]
    return (*notices, RunFinished(summary=summary))
