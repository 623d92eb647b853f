"""What to make of how an agent's process ended: shared by the readers of all agents. Pure."""

from __future__ import annotations

from pilothouse.core.run.commands import Exit, ExitReason

MAX_TOLD = 2_000
"""Characters of standard error that a reason for failure quotes."""
_ENDED_BY_US = frozenset({ExitReason.CANCELED, ExitReason.TIMEOUT})


def agrees(exit: Exit) -> bool:
    """Whether an exit is compatible with the success that the agent's final event told.

    An agent that lingers after it is ended by us, and that says nothing against its work; who asked for its end for
    another reason knows that. Everything else but status 0 says that something went wrong after all.
    """
    return exit.ok or exit.reason in _ENDED_BY_US


def reason(exit: Exit, errors: str) -> str:
    """One sentence on why there is no success: how the process ended, and what it said on standard error."""
    match exit.reason:
        case ExitReason.TIMEOUT:
            return "it ran into its time limit"
        case ExitReason.CANCELED:
            return "it was ended"
        case ExitReason.NOT_STARTED:
            return exit.error or "it could not be started"
        case ExitReason.LOST:
            return exit.error or "how it ended is not known"
        case ExitReason.EXITED:
            how = f"was killed by signal {exit.signal}" if exit.signal else f"exited with {exit.code}"
            said = errors.strip()[-MAX_TOLD:]
            return f"it {how}: {said}" if said else f"it {how}"
