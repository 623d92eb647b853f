"""The process beside an agent that speaks the Agent Client Protocol: it holds the other end of the agent's pipes.

Agents survive the end of the server, so the server cannot hold them. Its standard input is an ``Errand`` as JSON, its
standard output the news of the agent as ``lines`` has them; what the agent prints on standard error passes by. It exits
with 0 when the work was done, 1 when it was not.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterable
from typing import NoReturn

import msgspec

from pilothouse.adapters.agents.acp.errand import Errand
from pilothouse.adapters.agents.lines import Finished, encode
from pilothouse.core.run.agents import News


def main() -> NoReturn:
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    errand = msgspec.json.decode(sys.stdin.buffer.read(), type=Errand)
    finished = _run(errand)
    tell((finished,))
    sys.exit(0 if finished.ok else 1)


def _run(errand: Errand) -> Finished:
    try:
        agent = subprocess.Popen(
            errand.argv, cwd=errand.worktree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
    except OSError as error:
        return Finished(ok=False, error=f"{errand.argv[0]} cannot be started: {error.strerror}")
    # Half a second of work, which the agent's own start is not to wait for.
    from pilothouse.adapters.agents.acp.run import Run  # noqa: PLC0415

    return asyncio.run(Run(errand, tell).work(agent))


def tell(news: Iterable[News | Finished]) -> None:
    sys.stdout.buffer.write(encode(*news))
    sys.stdout.buffer.flush()
