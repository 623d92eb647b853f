"""What the performers of a turn's effects answer, as events."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pilothouse.core.chat.approvals import expired, over
from pilothouse.core.chat.calls import BackendEnd, CallStatus
from pilothouse.core.chat.effects import (
    AbortBackend,
    AnswerBackend,
    CallBackend,
    CallEnded,
    MakeTitle,
    RememberPermit,
    ReportTool,
    RunTool,
    SteerBackend,
    Title,
    TookTooLong,
)
from pilothouse.core.chat.endings import ENDED, end_of, why_cancelled
from pilothouse.core.chat.events import (
    STEERING_FAILED,
    BackendAborted,
    BackendAnswered,
    SteeringApplied,
    TitleUpdated,
    TurnNoticed,
    TurnTimedOut,
)
from pilothouse.core.chat.plain import cut, plain
from pilothouse.core.chat.state import (
    Fault,
    ToolCall,
    TurnState,
    abort_key,
    answer_key,
    backoff_key,
    expire_key,
)
from pilothouse.core.chat.tool_events import PermitRemembered, ToolEnded, ToolReported
from pilothouse.core.run.contract import Ended, Failed, NotStarted, Timer
from pilothouse.core.run.events import Event, WaitClosed
from pilothouse.core.run.inputs import Outcome
from pilothouse.core.tools.spec import ToolAnswer

_TITLE = 200


def outcome(state: TurnState, given: Outcome) -> Sequence[Event]:
    """What follows from the end of an effect; of one that the turn no longer knows, nothing."""
    key, result = given.key, given.result
    effect = state.open.get(key) or state.timers.get(key) or state.housekeeping.get(key)
    match effect:
        case None:
            return ()
        case CallBackend():
            return (_call_ended(state, result),)
        case RunTool():
            return (_tool_ended(state, state.calls[effect.tool_call_id], result),)
        case Timer():
            return _time_up(state, key) if not isinstance(result, Ended | NotStarted) else ()
    if isinstance(result, Ended | NotStarted) and not effect.gated:
        return ()  # it is still owed, and begun again
    error = result.error if isinstance(result, Failed) else ""
    match effect:
        case SteerBackend():
            return (_steered(state, effect, result),)
        case AnswerBackend():
            return (BackendAnswered(wait_id=key.removeprefix(answer_key("")), error=error),)
        case ReportTool():
            return (ToolReported(tool_call_id=effect.tool_call_id, status=effect.status, error=error),)
        case MakeTitle():
            return (_titled(state, result, error),)
        case AbortBackend():
            return (BackendAborted(leg=int(key.removeprefix(abort_key(0)[:-1])), error=error),)
        case RememberPermit():
            return (PermitRemembered(tool_call_id=effect.tool_call_id, error=error),)
    raise TypeError(f"unknown effect {effect}")


def _call_ended(state: TurnState, result: msgspec.Struct) -> Event:
    """The stream is over, and did not say so itself."""
    request = state.request
    assert request is not None
    if isinstance(result, Ended | NotStarted):
        return end_of(request, BackendEnd.ENDED, request.fault)
    if request.fault is not None:
        return end_of(request, BackendEnd.ERROR, request.fault)
    if isinstance(result, Failed):
        return end_of(request, BackendEnd.FAILED, Fault(result.error))
    if not isinstance(result, CallEnded):
        raise TypeError(f"{request.key} was answered with {type(result).__name__}")
    end = BackendEnd.FAILED if result.end is BackendEnd.FAILED else BackendEnd.EOF
    # Nothing at all is as good as a refused connection, as long as nothing was brought either.
    unheard = end is BackendEnd.EOF and not request.heard and not request.results
    fault = Fault(result.error or ENDED[end].error, result.shown, result.code)
    return end_of(
        request, end, fault, transient=result.transient or unheard, retry_after_ms=max(0, result.retry_after_ms)
    )


def _tool_ended(state: TurnState, call: ToolCall, result: msgspec.Struct) -> ToolEnded:
    match result:
        case ToolAnswer():
            status = CallStatus.SUCCESS if result.ok else CallStatus.ERROR
            error = "" if result.ok else result.error or f"{call.name} failed"
            ended = over(state, call, status, error=error, result=plain(result.result))
            made = result.workflow_id if result.ok else ""
            return msgspec.structs.replace(ended, workflow_id=made, runs=tuple(result.runs))
        case TookTooLong():
            seconds = state.offered[call.name].timeout_ms / 1000
            return over(state, call, CallStatus.ERROR, "watchdog", f"{call.name} took longer than {seconds:g} s")
        case Failed():
            return over(state, call, CallStatus.ERROR, error=result.error)
        case Ended() | NotStarted():
            reason, why = why_cancelled(state)
            return over(state, call, CallStatus.CANCELLED, reason, why)
    raise TypeError(f"tool {call.id} was answered with {type(result).__name__}")


def _time_up(state: TurnState, key: str) -> Sequence[Event]:
    if key == state.clock:
        return (TurnTimedOut(timeout_ms=state.facts.timeout_ms),)
    last = state.last
    if last is not None and key == backoff_key(last.number):
        return (WaitClosed(wait_id=last.backoff, by="time"),)
    return expired(state, state.common.waits[key.removeprefix(expire_key(""))])


def _steered(state: TurnState, effect: SteerBackend, result: msgspec.Struct) -> Event:
    if isinstance(result, Failed | Ended | NotStarted):
        error = result.error if isinstance(result, Failed) else "it was ended"
        return TurnNoticed(kind=STEERING_FAILED, data={"steeringId": effect.steering_id, "error": cut(error, _TITLE)})
    number = state.last.number if state.last is not None else 1
    return SteeringApplied(steering_ids=(effect.steering_id,), call=number)


def _titled(state: TurnState, result: msgspec.Struct, error: str) -> TitleUpdated:
    """What the backend told of itself stays."""
    title = state.title or (cut(result.title.strip(), _TITLE) if isinstance(result, Title) else "")
    return TitleUpdated(title=title, error=error, made=True)
