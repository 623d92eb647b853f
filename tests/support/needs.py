"""What a test may need from the machine beyond Python, and how to get it.

A need that is not met skips the test with that advice; the summary prints each piece of advice once.
"""

from __future__ import annotations

import shutil

import pytest

HOW_TO_GET = {
    "bash": "apt-get install bash",
    "curl": "apt-get install curl",
    "git": "apt-get install git",
}


def need(program: str) -> str:
    """The path of ``program``; skips the calling test when it is not installed."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program} ({HOW_TO_GET[program]})")
    return found
