"""What a credential can be refused for. Each door translates these to its wire like any other error of the tree."""

from __future__ import annotations

from pilothouse.core.auth.principals import Scope
from pilothouse.errors import Denied


class InvalidKey(Denied):
    """Raised for an API key that is mistyped, unknown or revoked."""

    code = "invalid_key"


class NeedsScope(Denied):
    """Raised when a principal may not do that to anything, whoever it belongs to."""

    code = "needs_scope"

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        super().__init__(f"this needs a key with scope {scope}")


class TooManyRequests(Denied):
    """Raised when a key is used more often than it may be. ``retry_after`` is in whole seconds."""

    code = "too_many_requests"

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(f"this key is used too often; wait {retry_after} s")
