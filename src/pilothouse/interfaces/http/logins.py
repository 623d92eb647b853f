"""Who has logged in over TCP: one-time tokens, and the sessions they became.

All of it in memory: a restart logs everybody out, and ``serve`` prints a new token. Knows no HTTP.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import deque
from collections.abc import Callable

from pilothouse.interfaces.http.problems import NoCredential, TooManyTries

IDLE_S = 30 * 24 * 3600.0
"""A session that is not used for so long ends."""
FAILURES = 10
WINDOW_S = 60.0
"""More failures than ``FAILURES`` in this time are told to slow down."""


class Logins:
    """Tokens and sessions. Both are 256 random bits, of which only digests are kept."""

    def __init__(self, now: Callable[[], float]) -> None:
        """``now``: seconds of a clock that never goes back."""
        self._now = now
        self._tokens: set[bytes] = set()
        self._sessions: dict[bytes, float] = {}
        self._failures: deque[float] = deque(maxlen=FAILURES)

    def new_token(self) -> str:
        """A token that logs in once, whenever that is."""
        token = secrets.token_urlsafe(32)
        self._tokens.add(_digest(token))
        return token

    def log_in(self, token: str) -> str:
        """Turn a token into a session; answers its secret.

        A good token is good however many bad ones were tried: nobody can lock a person out by guessing. Raises
        ``NoCredential``, or ``TooManyTries`` after too many failures."""
        given = _digest(token)
        found = [known for known in self._tokens if secrets.compare_digest(known, given)]
        if not found:
            self._fail()
        self._tokens.discard(given)
        self._expire()
        session = secrets.token_urlsafe(32)
        self._sessions[_digest(session)] = self._now()
        return session

    def _fail(self) -> None:
        now = self._now()
        often = len(self._failures) == FAILURES and now - self._failures[0] < WINDOW_S
        if often:
            raise TooManyTries("too many failed logins; wait a minute")
        self._failures.append(now)
        raise NoCredential("this login token is unknown or was used already; restart `pilothouse serve` for a new one")

    def knows(self, session: str) -> bool:
        """Whether it is logged in; using it keeps it so."""
        given = _digest(session)
        seen = self._sessions.get(given)
        if seen is None:
            return False
        if self._now() - seen > IDLE_S:
            del self._sessions[given]
            return False
        self._sessions[given] = self._now()
        return True

    def log_out(self, session: str) -> None:
        """Idempotent."""
        self._sessions.pop(_digest(session), None)

    def _expire(self) -> None:
        late = self._now() - IDLE_S
        self._sessions = {session: seen for session, seen in self._sessions.items() if seen >= late}


def _digest(secret: str) -> bytes:
    # A plain hash will do: what is hashed is random, so there is nothing to guess.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
