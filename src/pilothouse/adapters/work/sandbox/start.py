"""Which process to start for a policy. Starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pilothouse
from pilothouse.adapters.work.sandbox.policy import Policy

_START = (
    "import sys; sys.path.append(sys.argv.pop(1)); from pilothouse.adapters.work.sandbox.launcher import main; main()"
)


def argv(policy: Policy, command: Sequence[str]) -> tuple[str, ...]:
    """``command`` under ``policy``. Without ``site`` and blind to the environment, which is the command's and may come
    from a plan: what it says of Python's paths must not decide which launcher confines it."""
    root = Path(pilothouse.__file__).resolve().parent.parent
    return (sys.executable, "-I", "-S", "-X", "utf8", "-c", _START, str(root), policy.to_json(), *command)
