"""What a test may need from the machine beyond Python, and how to get it.

A need that is not met skips the test with that advice; the summary prints each piece of advice once.
"""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import pytest
from tests.support import agent_clis, agui_client

from pilothouse.adapters.work.sandbox.probe import why_not

HOW_TO_GET = {
    "bash": "apt-get install bash",
    "curl": "apt-get install curl",
    "git": "apt-get install git",
    "redis-server": "apt-get install redis-server",
    "unshare": "apt-get install util-linux",
    "the agent CLIs": "./dev agents",
    "the AG-UI client": "./dev agents",
    "a sandbox": "a Linux that gives user namespaces to everybody",
}


def need(program: str) -> str:
    """The path of ``program``; skips the calling test when it is not installed."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"needs {program} ({HOW_TO_GET[program]})")
    return found


def need_agents() -> Path:
    """The folder with the programs of all agent CLIs and ACP adapters, for a PATH; skips when they are not there."""
    if not agent_clis.installed():
        pytest.skip(f"needs the agent CLIs ({HOW_TO_GET['the agent CLIs']})")
    return agent_clis.programs()


def need_agui_client() -> tuple[str, Path]:
    """(Node, the folder below which scripts find ``@ag-ui/client``); skips when one of them is not there."""
    node, root = agui_client.node(), agui_client.root()
    if node is None or not root.is_dir():
        pytest.skip(f"needs the AG-UI client ({HOW_TO_GET['the AG-UI client']})")
    return node, root


def need_sandbox() -> None:
    """Skips the calling test on a machine that cannot confine commands."""
    if why := _why_no_sandbox():
        pytest.skip(f"needs a sandbox ({HOW_TO_GET['a sandbox']}): {why}")


@functools.cache
def _why_no_sandbox() -> str:
    return why_not()
