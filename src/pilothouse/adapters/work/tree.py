"""The tree of processes below this one: find all of it, signal all of it, reap what is dead.

On Linux the caller is a *subreaper*: whatever a descendant forks, however it detaches, stays below the caller, so
that "no child is left" means "nothing of the tree is left". Standard library only. Knows nothing of commands.

macOS has no subreaper and no pidfd. There only the process groups of the direct children are signalled: a
descendant that left its group survives, and ``doctor`` says so.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_FORKING_FASTER_THAN_WE_KILL = 3
"""Sweeps after which everything is stopped before it is killed: a stopped process cannot fork."""

_prctl: Callable[..., int] | None = None
if sys.platform == "linux":
    _prctl = ctypes.CDLL(None, use_errno=True).prctl


def become_subreaper() -> bool:
    """Adopt every orphan below this process from now on. False where the system has no such thing."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def signal_on_parent_death(number: int) -> bool:
    """Have ``number`` sent to this process when its parent dies. Check ``getppid`` afterwards: it may be dead."""
    return _prctl is not None and _prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) == 0


def children(pid: int) -> list[int]:
    """The children of all threads of ``pid``, zombies included."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - hot path: Path objects double its cost
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123 - as above
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # gone, or of another user where /proc is mounted with hidepid
    return found


def reap() -> Iterator[tuple[int, int]]:
    """(pid, exit code as of ``waitstatus_to_exitcode``) of every child that is dead, without waiting.

    Raises ``ChildProcessError`` when there is no child at all: the tree is empty.
    """
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def stopped() -> Iterator[int]:
    """Every child that was stopped since the last look. Raises ``ChildProcessError`` when there is no child at all."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return
    while found := os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG):
        yield found.si_pid


class Tree:
    """Every descendant of this process but those below (and among) ``spared`` children."""

    def __init__(self, spared: Callable[[int], bool] = lambda _: False) -> None:
        self._spared = spared
        self._sweeps = 0

    def terminate(self) -> None:
        """Ask everything to end, once. What is stopped is woken, so that it can hear it."""
        self._each(signal.SIGTERM)
        self._each(signal.SIGCONT)

    def kill(self) -> int:
        """One sweep: kill everything found. To be repeated until ``reap`` says that nothing is left.

        Answers how many processes could not be signalled because they belong to another user.
        """
        self._sweeps += 1
        if self._sweeps > _FORKING_FASTER_THAN_WE_KILL:
            seen = -1
            for _ in range(100):
                stopped = self._each(signal.SIGSTOP)[0]
                if stopped <= seen:
                    break
                seen = stopped
        return self._each(signal.SIGKILL)[1]

    def leave_none(self) -> None:
        """Called when no child is left. On Linux nothing is left then; elsewhere the process groups may go on."""
        if not _PROC:
            self._each_group(signal.SIGKILL)

    def pids(self) -> list[int]:
        """What there is, parents before their children. Empty where /proc is missing."""
        found = [pid for pid in children(os.getpid()) if not self._spared(pid)]
        for pid in found:  # grows while it is walked
            found += children(pid)
        return found

    def _each(self, number: signal.Signals) -> tuple[int, int]:
        """Signal everything; answers (signalled, refused)."""
        if not _PROC:
            return self._each_group(number)
        me = os.getpid()
        found = [pid for pid in children(me) if not self._spared(pid)]
        known = {me, *found}
        signalled = refused = 0
        for pid in found:  # grows while it is walked; parents first, so that they cannot fork again
            try:
                reached = _signal_child(pid, known, number)
            except PermissionError:
                refused += 1
                reached = False
            signalled += reached
            below = children(pid)
            known.update(below)
            found += below
        return signalled, refused

    def _each_group(self, number: signal.Signals) -> tuple[int, int]:
        """Best effort without /proc: the process groups the keeper started. See the module's docstring."""
        signalled = 0
        for group in list(GROUPS):
            try:
                os.killpg(group, number)
                signalled += 1
            except ProcessLookupError:
                GROUPS.discard(group)
            except PermissionError:  # macOS says so for a group of zombies
                pass
        return signalled, 0


GROUPS: set[int] = set()
"""Process groups started here; only used where there is no /proc."""

_PROC = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()


def _signal_child(pid: int, parents: set[int], number: signal.Signals) -> bool:
    """Signal ``pid`` if it still is a child of one of ``parents``.

    The pidfd is taken first and the parent is checked after it: then either the process that is checked is the one
    that the pidfd means, or that one is dead and the signal goes nowhere. So a reused pid is never hit.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        parent, state = _parent_and_state(pid)
        if parent not in parents or state in "ZX":
            return False
        signal.pidfd_send_signal(pidfd, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)


def _parent_and_state(pid: int) -> tuple[int, str]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - hot path
            fields = file.read().rpartition(b")")[2].split()
    except FileNotFoundError as gone:
        raise ProcessLookupError from gone
    return int(fields[1]), fields[0].decode("ascii")
