"""Running a command: who listens to it must not be able to leave it running alone."""

from __future__ import annotations

import pytest
from tests.engine.desk import Desk, printing, work
from tests.engine.server import run

from pilothouse.core.run.agents import Text
from pilothouse.engine.driving.commands import Commands


class Broken:
    def grew(self, to: int) -> None:
        pass

    async def run(self) -> None:
        raise ZeroDivisionError("a bug")


def test_a_listener_that_fails_takes_the_command_with_it() -> None:
    async def test() -> None:
        desk = Desk(printing(Text(text="x"), duration_s=1000.0))
        commands = Commands(desk.executor, desk.clock)
        with pytest.raises(ExceptionGroup):
            await commands.run(work(), desk.within, desk.agents.command, (Broken(),))
        assert not desk.warden.running()

    run(test)
