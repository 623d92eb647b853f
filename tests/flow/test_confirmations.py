"""Approvals of a whole engine through a real Redis server: decided in another process, and when Redis is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from tests.support.flow import engine, run
from tests.support.redis_server import RedisServer, redis_server
from tests.support.services import happened

from pilothouse.adapters.signals.over_redis import RedisSignals
from pilothouse.adapters.signals.signed import SignedSignals
from pilothouse.core.auth.principals import THE_LOCAL_USER
from pilothouse.core.chat.calls import CallStatus, OnApproval
from pilothouse.core.chat.inputs import Confirm
from pilothouse.core.run.rows import RunRow
from pilothouse.engine.chats.confirmations import CHANNEL, Confirmations, Decision, key
from pilothouse.engine.chats.values import Send
from pilothouse.engine.services import Services
from pilothouse.errors import Refused

SCRIPT = """\
rules:
  - when: { contains: run }
    steps:
      - call: { tool: run_workflow, id: c1, arguments: { workflowId: nope } }
      - say: "Over."
"""


@dataclass(frozen=True)
class Asked:
    """An engine with a turn that waits for a person, and another process beside it."""

    services: Services
    elsewhere: Confirmations
    turn_id: str
    redis: RedisServer

    async def status(self) -> CallStatus:
        result = await self.services.chats.wait(self.turn_id, THE_LOCAL_USER, 20)
        (call,) = result.tool_calls
        return CallStatus(call.status)


@asynccontextmanager
async def asked(folder: Path) -> AsyncIterator[Asked]:
    script = folder / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")

    async def nothing(*_: object) -> list[RunRow]:
        return []

    async def refused(*_: object) -> None:
        raise AssertionError("it drives nothing")

    (folder / "redis").mkdir()
    with redis_server(folder / "redis") as redis:
        async with engine(folder / "data", backend="script", script=script, redis_url=redis.url) as services:
            sent = await services.chats.send(Send(message="run it", on_approval=OnApproval.WAIT), THE_LOCAL_USER)
            await happened(services, sent.turn_id, "NEEDS_APPROVAL")
            secret = (folder / "data" / "signals.key").read_bytes()
            signals = SignedSignals(RedisSignals(redis.url), secret)
            elsewhere = Confirmations(
                signals=signals, tell=refused, drives=lambda _: False, waiting=nothing, shared=True
            )
            try:
                yield Asked(services, elsewhere, sent.turn_id, redis)
            finally:
                await signals.close()


def decision(status: str) -> Confirm:
    return Confirm(tool_call_id="c1", status=status, by="ann")


def test_a_call_is_refused_from_another_process_and_the_turn_goes_on(tmp_path: Path) -> None:
    async def journey() -> None:
        async with asked(tmp_path) as at:
            await at.elsewhere.confirm(at.turn_id, decision("rejected"))
            assert await at.status() is CallStatus.REJECTED
            with pytest.raises(Refused):
                await at.elsewhere.confirm(at.turn_id, decision("accepted"))

    run(journey())


def test_a_call_that_was_decided_here_is_decided_for_everybody(tmp_path: Path) -> None:
    async def journey() -> None:
        async with asked(tmp_path) as at:
            await at.services.chats.confirm(THE_LOCAL_USER, "c1", "rejected")
            with pytest.raises(Refused):
                await at.elsewhere.confirm(at.turn_id, decision("accepted"))
            assert await at.status() is CallStatus.REJECTED

    run(journey())


def test_who_can_write_to_redis_allows_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def journey() -> None:
        async with asked(tmp_path) as at:
            raw = RedisSignals(at.redis.url)
            forged = msgspec.json.encode(Decision(turn_id=at.turn_id, confirm=decision("accepted")))
            await raw.publish(CHANNEL, forged)
            assert await raw.keep(key(at.turn_id, "c1"), forged, 60)
            await raw.close()
            await at.elsewhere.confirm(at.turn_id, decision("rejected"))
            assert await at.status() is CallStatus.REJECTED

    run(journey())
    assert "signals.rejected" in caplog.text


def test_without_redis_a_turn_that_is_driven_here_is_still_decided_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async def journey() -> None:
        async with asked(tmp_path) as at:
            await asyncio.to_thread(at.redis.stop)
            await at.services.chats.confirm(THE_LOCAL_USER, "c1", "rejected")
            assert await at.status() is CallStatus.REJECTED
            async with asyncio.timeout(20):
                while "signals.lost" not in caplog.text:
                    await asyncio.sleep(0.01)

    run(journey())
