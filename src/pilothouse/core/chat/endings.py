"""How requests and turns end that do not come to a good end: the words for people, and the codes for programs."""

from __future__ import annotations

from typing import NamedTuple

from pilothouse.core.chat.calls import BackendEnd
from pilothouse.core.chat.events import BackendEnded
from pilothouse.core.chat.plain import cut
from pilothouse.core.chat.state import Fault, Request, TurnState
from pilothouse.core.run.events import RunFailed, Source
from pilothouse.core.run.lifecycle import Lifecycle

_SENTENCE = 4_000


class Ending(NamedTuple):
    code: str
    error: str


ENDED: dict[BackendEnd, Ending] = {
    BackendEnd.ERROR: Ending("backend_error", "The backend reported an error"),
    BackendEnd.FAILED: Ending("backend_unreachable", "The backend could not be asked"),
    BackendEnd.EOF: Ending("backend_eof", "The backend stopped before it had finished"),
    BackendEnd.ENDED: Ending("backend_ended", "The request to the backend was ended"),
    BackendEnd.LOST: Ending(
        "interrupted",
        "The server was restarted while the answer was coming; what had come is kept, and a retry goes on with it",
    ),
}
"""What is said of a request where nobody said it better."""
TIMEOUT = "timeout"


def end_of(
    request: Request, end: BackendEnd, fault: Fault | None, *, transient: bool = False, retry_after_ms: int = 0
) -> BackendEnded:
    """The end of a request that did not come to a good one."""
    known = ENDED[end]
    fault = fault or Fault(known.error)
    return BackendEnded(
        call=request.number,
        end=end,
        error=cut(fault.error or known.error, _SENTENCE),
        shown=cut(fault.shown, _SENTENCE),
        code=fault.code or known.code,
        transient=transient,
        retry_after_ms=retry_after_ms,
    )


def why_cancelled(state: TurnState) -> tuple[str, str]:
    """Why a call is ended that did not end by itself: a word and a sentence."""
    if state.common.lifecycle is Lifecycle.STOPPING:
        return "stopped", "Stopped by user" if state.common.stop_source is Source.USER else "Stopped by the server"
    if state.timed_out:
        return TIMEOUT, "The turn's time was up"
    return "turn_failed", "The turn ended before it could be executed"


def timed_out(state: TurnState) -> RunFailed:
    ms = state.facts.timeout_ms
    return RunFailed(error=f"Request timed out after {ms / 1000:g} s", summary={"code": TIMEOUT, "timeoutMs": ms})


def failure(request: Request) -> RunFailed:
    """The leg fails as its last request did."""
    summary: dict[str, object] = {"code": request.code, "message": request.error, "call": request.number}
    if request.shown:
        summary["displayMessage"] = request.shown
    if request.retry_after_ms:
        summary["retryAfterMs"] = request.retry_after_ms
    return RunFailed(error=request.shown or request.error, summary=summary)


def looping(calls: int) -> RunFailed:
    error = f"The backend was asked {calls} times without coming to an end"
    return RunFailed(error=error, summary={"code": "too_many_calls", "message": error})
