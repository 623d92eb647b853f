"""Waiting for what is committed: a bell rings for those who wait at that moment, and knows of nobody else.

In a burst it rings once a pace, so that what comes meanwhile is dealt with at once; after silence it rings immediately.
Knows neither what was committed nor where it is kept.
"""

from __future__ import annotations

import asyncio

PACE_S = 0.001
"""Between two rings of a burst."""


class Bell:
    """Of one run, or of all. Belongs to the loop in which it is made."""

    __slots__ = ("__weakref__", "_loop", "_paced", "_rang", "_waiting", "count")

    def __init__(self) -> None:
        self.count = 0
        """How often there was something new, whether anybody waited for it or not."""
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[asyncio.Future[bool], None] = {}
        self._rang = -PACE_S
        self._paced: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """There is something new."""
        self.count += 1
        if not self._waiting or self._paced is not None:
            return
        if self._loop.time() - self._rang < PACE_S:
            self._paced = self._loop.call_later(PACE_S, self._wake)
        else:
            self._wake()

    def after(self, count: int) -> asyncio.Future[bool]:
        """True once it has rung more often than ``count``."""
        found = self._loop.create_future()
        if self.count > count:
            found.set_result(True)
        else:
            self._waiting[found] = None
        return found

    def forget(self, waiting: asyncio.Future[bool]) -> None:
        """Nobody waits for that any more."""
        self._waiting.pop(waiting, None)

    def _wake(self) -> None:
        self._paced, self._rang = None, self._loop.time()
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            if not each.done():
                each.set_result(True)


class Ear:
    """Of one who looks what there is, and then waits at a bell, or for so many seconds without it. What comes between
    looking and waiting is not missed.

    One timer serves for everything that comes before it ends: one per event and listener costs more than all the rest.
    """

    __slots__ = ("_bell", "_heard", "_loop", "_seconds", "_since", "_timer", "_waiting")

    def __init__(self, bell: Bell, seconds: float | None = None) -> None:
        self._bell = bell
        self._seconds = seconds
        self._heard = bell.count
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Future[bool] | None = None

    def __enter__(self) -> Ear:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting is not None:
            self._bell.forget(self._waiting)

    def look(self) -> None:
        """To be called before looking what there is: what comes from now on is news."""
        self._heard = self._bell.count

    @property
    def missed(self) -> bool:
        """Whether there is news."""
        return self._heard != self._bell.count

    def rings(self) -> asyncio.Future[bool]:
        """True when there is news, which may be now; False when the seconds went by without any."""
        self._since = self._loop.time()
        if self._seconds is not None and self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._silence)
        self._waiting = self._bell.after(self._heard)
        return self._waiting

    def _silence(self) -> None:
        assert self._seconds is not None
        rest = self._since + self._seconds - self._loop.time()
        self._timer = self._loop.call_later(rest, self._silence) if rest > 0 else None
        if self._timer is None and self._waiting is not None and not self._waiting.done():
            self._bell.forget(self._waiting)
            self._waiting.set_result(False)
