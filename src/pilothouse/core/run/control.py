"""What the verbs every kind shares decide: stop, cancel, pause, resume.

The stop protocol in the log: STOP_REQUESTED, STOP_ACKNOWLEDGED (with what is still draining) in one batch, as the
gate was closed before; then, once nothing dispatched is left, STOPPED.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.core.run.events import (
    CancelRequested,
    Event,
    Paused,
    PauseRequested,
    RunCanceled,
    RunResumed,
    Source,
    StopAcknowledged,
    Stopped,
    StopRequested,
)
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.state import Common
from pilothouse.errors import Refused


def stop(run: Common, source: Source, draining: Iterable[str]) -> Sequence[Event]:
    """Stop is idempotent: of a run that has ended, or is stopping, it changes nothing."""
    if run.terminal or run.lifecycle is Lifecycle.STOPPING:
        return ()
    return (StopRequested(source=source), StopAcknowledged(source=source, draining=tuple(draining)))


def cancel(run: Common, source: Source, reason: str, draining: Iterable[str]) -> Sequence[Event]:
    """A final stop. Of a stopped, failed or partial run it is *discard*: final at once. Raises ``Refused``."""
    if run.lifecycle is Lifecycle.CANCELED or (run.lifecycle is Lifecycle.STOPPING and run.final):
        return ()
    if run.lifecycle is Lifecycle.SUCCEEDED:
        raise Refused("it has succeeded already; there is nothing to cancel")
    if run.terminal:
        return (RunCanceled(reason=reason),)
    if run.lifecycle is Lifecycle.STOPPING:
        return (CancelRequested(source=source),)
    return (CancelRequested(source=source), StopAcknowledged(source=source, draining=tuple(draining)))


def pause(run: Common) -> Sequence[Event]:
    """Raises ``Refused``."""
    if run.lifecycle in (Lifecycle.PAUSING, Lifecycle.PAUSED):
        return ()
    if run.lifecycle is not Lifecycle.RUNNING:
        raise Refused(f"only a running run can be paused; this one is {run.lifecycle.lower()}")
    return (PauseRequested(),)


def resume(run: Common) -> Sequence[Event]:
    """Raises ``Refused``."""
    if run.lifecycle is Lifecycle.RUNNING:
        return ()
    if run.lifecycle in (Lifecycle.PAUSED, Lifecycle.PAUSING):
        return (RunResumed(leg=run.leg),)
    if run.lifecycle is Lifecycle.STOPPED:
        return (RunResumed(leg=run.leg + 1),)
    hint = "; retry tries again what failed" if run.lifecycle in (Lifecycle.FAILED, Lifecycle.PARTIAL) else ""
    raise Refused(f"only a paused or stopped run can be resumed; this one is {run.lifecycle.lower()}{hint}")


def settle(run: Common, *, draining: bool, working: bool) -> Sequence[Event]:
    """The ends of stopping and pausing. ``draining``: a dispatched effect has no outcome; ``working``: parts run."""
    if run.lifecycle is Lifecycle.STOPPING and not draining:
        if run.final:
            return (RunCanceled(reason="canceled"),)
        return (Stopped(source=run.stop_source),)
    if run.lifecycle is Lifecycle.PAUSING and not working:
        return (Paused(),)
    return ()
