"""What an agent is told of a call that is its turn's: what it waits for, and how it ended. Words for models; pure."""

from __future__ import annotations

from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.state import ToolCall, TurnState
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.engine.tools.callers import ToolOutcome

_SAID = {
    "needs_approval": "{name} was not executed: a person would have to allow it, and in this conversation nobody is"
    " asked. Go on without it, and say what is left to be done.",
    "not_permitted": "{name} was not executed: it is not permitted in this conversation. Do not try it again.",
    "user_rejected": "A person refused this call of {name}, and it was not executed ({error}). Do not make it again"
    " unless they ask for it.",
    "timeout": "{name} was not executed: nobody allowed it in time. Go on without it, and say so.",
    "lost": "{error}. It may have taken effect all the same: look before you call it again.",
    "watchdog": "{error}, and was ended. It may have taken effect in part: look before you call it again.",
}
"""By a call's reason, where its own words are for people or do not say what to do."""
_PENDING = (
    "{name} goes on in the background: a person decided that nobody waits for it. Do not call it again; its outcome is"
    " shown in the conversation once there is one. Go on with what does not need it."
)


def outcome_of(call: ToolCall) -> ToolOutcome | None:
    """None: there is none yet."""
    if call.status is CallStatus.SUCCESS:
        return ToolOutcome(ok=True, result=call.result)
    if call.over:
        said = _SAID.get(call.reason, "{error}") if call.status is not CallStatus.CANCELLED else "{error}"
        words = said.format(name=call.name, error=call.error.rstrip(".") or f"{call.name} ended as {call.status}")
        return ToolOutcome(ok=False, result=call.result, error=words)
    if call.background:
        return ToolOutcome(ok=True, pending=True, error=_PENDING.format(name=call.name))
    return None


def nobody_waits(state: TurnState) -> ToolOutcome:
    """The turn does not wait for the agent any more."""
    if state.timed_out:
        why = "the time of this turn is up"
    elif state.common.lifecycle in (Lifecycle.STOPPING, Lifecycle.STOPPED, Lifecycle.CANCELED):
        why = "this turn was stopped"
    else:
        why = "this turn does not wait for this agent any more"
    return ToolOutcome(ok=False, error=f"{why}; nothing that is done now counts")


def waiting_for(call: ToolCall) -> str:
    match call.status:
        case CallStatus.AWAITING_APPROVAL:
            return f"a person is asked whether {call.name} may be used"
        case CallStatus.EXECUTING:
            return f"{call.name} is being executed"
    return f"{call.name} is about to be executed"
