"""What this machine can do to end process trees for certain, and to confine them. Looks, changes nothing."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pilothouse.adapters.work.sandbox import probe


def capabilities() -> list[tuple[str, bool, str]]:
    """(name, whether it is there, what that means for the user), one per capability."""
    if sys.platform == "win32":
        return [("commands", False, "commands cannot be ended for certain on Windows: run Pilothouse in WSL")]
    return [
        _say(
            "subreaper",
            sys.platform == "linux",
            "every process a command leaves behind is found and ended",
            "best effort: a process that leaves its process group survives a stop",
        ),
        _say(
            "pidfd",
            hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal") and _pidfd_works(),
            "no signal can hit a process that reuses a number",
            "Linux 5.3 or newer is needed",
        ),
        _say(
            "process list",
            Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists(),
            "the tree of a command can be walked",
            "/proc is missing, or the kernel was built without CONFIG_PROC_CHILDREN",
        ),
        *probe.capabilities(),
    ]


def _say(name: str, ok: bool, good: str, bad: str) -> tuple[str, bool, str]:
    return name, ok, good if ok else bad


def _pidfd_works() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True
