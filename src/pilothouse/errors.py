"""The error tree. Every expected failure is one of these; anything else that escapes is a bug.

::

    PilothouseError
    ├── BadInput             what was given is wrong; names the field and the fix      exit 2, HTTP 422
    ├── NotFound             no such run, plan, node, repository …                     exit 2, HTTP 404
    ├── Gone                 it existed and was deleted                                exit 2, HTTP 410
    ├── Denied               no credential, or one that may not                        exit 2, HTTP 401/403
    ├── Refused              the verb does not apply in this state                     exit 2, HTTP 409
    │   └── Busy             a turn of this conversation is going on; names it
    ├── Unavailable          something this machine lacks (git too old, no owner …)    exit 2, HTTP 503
    ├── StoreFailed          the log could not be written: the run halts, truth does not
    │   ├── WrongSequence    somebody else appended first
    │   └── StaleOwner       a newer owner holds this run
    ├── BackendFailed        where replies come from could not be asked, or broke off   HTTP 502
    ├── GitFailed            a git command failed in a way nobody planned for
    └── ExecutorFailed       a command could not be placed or followed

Each door (HTTP, CLI, MCP) has exactly one translation from this tree to its wire or exit code.
"""

from __future__ import annotations


class PilothouseError(Exception):
    """Base of every expected failure. ``str(error)`` is one sentence for a person."""

    code = "error"


class BadInput(PilothouseError):
    """Raised when what was given is wrong.

    ``field`` is the path of the offending field in the caller's own terms (``jobs[2].dependencies[0]``),
    empty when the input as a whole is meant; ``fix`` says what to write instead.
    """

    code = "bad_input"

    def __init__(self, message: str, *, field: str = "", fix: str = "") -> None:
        self.message = message
        self.field = field
        self.fix = fix
        super().__init__(": ".join(part for part in (field, message) if part) + (f" ({fix})" if fix else ""))


class NotFound(PilothouseError):
    """Raised when a name or id matches nothing the caller may see."""

    code = "not_found"


class Gone(PilothouseError):
    """Raised when a run existed and was deleted."""

    code = "gone"


class Denied(PilothouseError):
    """Raised when a credential is missing, wrong, or does not allow this."""

    code = "denied"


class Refused(PilothouseError):
    """Raised when a verb does not apply to a run, node or wait in its present state."""

    code = "refused"


class Busy(Refused):
    """Raised when a conversation cannot take a message, or be deleted, while one of its turns is live."""

    code = "busy"

    def __init__(self, message: str, *, active_turn_id: str) -> None:
        self.active_turn_id = active_turn_id
        super().__init__(message)


class Unavailable(PilothouseError):
    """Raised when this machine lacks something the request needs."""

    code = "unavailable"


class BackendFailed(PilothouseError):
    """Raised when a backend cannot be asked, refuses, or breaks off.

    ``transient``: the same again may succeed, not before ``retry_after_ms`` milliseconds where that was told.
    ``status`` is its HTTP status, 0 where there is none.
    """

    code = "backend_failed"

    def __init__(self, message: str, *, transient: bool = False, retry_after_ms: int = 0, status: int = 0) -> None:
        self.transient = transient
        self.retry_after_ms = retry_after_ms
        self.status = status
        super().__init__(message)


class StoreFailed(PilothouseError):
    """Raised when the event log could not be written (disk full, locked, corrupt)."""

    code = "store_failed"


class WrongSequence(StoreFailed):
    """Raised when the expected sequence number of an append is not the run's last one."""

    code = "wrong_sequence"


class StaleOwner(StoreFailed):
    """Raised when an append carries an older owner epoch than the one that holds the run."""

    code = "stale_owner"


class GitFailed(PilothouseError):
    """Raised when a git command failed unexpectedly; carries the command, its exit status and stderr."""

    code = "git_failed"

    def __init__(self, argv: list[str], status: int, stderr: str) -> None:
        self.argv = argv
        self.status = status
        self.stderr = stderr
        super().__init__(f"git {' '.join(argv[:3])} … exited {status}: {stderr.strip()[:500]}")


class ExecutorFailed(PilothouseError):
    """Raised when a command could not be placed, reached or followed."""

    code = "executor_failed"
