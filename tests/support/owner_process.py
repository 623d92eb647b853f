"""An owner as a process of its own, to be killed: runs the engine over a data directory until every run has ended.

``python owner_process.py DATA_DIR SHOWN [PLAN REPO]``: submits a plan first when one is given. Every event it
is shown is appended to the file SHOWN, one line in wire form, the moment it is shown.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from pilothouse.assembly import assembled
from pilothouse.core.plan.spec_parse import parse_plan
from pilothouse.core.run.lifecycle import TERMINAL
from pilothouse.engine.plans.plans import Origin
from pilothouse.engine.services import Services
from pilothouse.settings import Settings


async def main(data_dir: str, shown: str, *submission: str) -> None:
    settings = Settings(data_dir=Path(data_dir), orphan_grace=float(os.environ.get("TEST_ORPHAN_GRACE", "20")))
    async with assembled(settings, listens=False) as services:
        if submission:
            plan, repo = submission
            await services.plans.submit(parse_plan(Path(plan).read_bytes()), Origin("local", "test"), repo=repo)
        showing = asyncio.create_task(_show(services, shown))
        try:
            await _until_all_have_ended(services)
        finally:
            showing.cancel()
            await asyncio.wait((showing,))


async def _show(services: Services, shown: str) -> None:
    target = os.open(shown, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async for batch in services.queries.follow_all(0):
        os.write(target, b"".join(wire + b"\n" for wire in batch.wires))


async def _until_all_have_ended(services: Services) -> None:
    while True:
        rows = await services.queries.runs()
        if rows and all(row.lifecycle in TERMINAL or row.waits for row in rows) and not _busy(services):
            return
        await asyncio.sleep(0.01)


def _busy(services: Services) -> bool:
    return any(actor.in_flight for actor in services.supervisor.live.values())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
