"""What people and models read of a turn."""

from __future__ import annotations

from tests.support.turns import Turn

from pilothouse.core.chat.backend import Completed, LaneClosed, LaneOpened, Said, Thought, ToolAnswered, ToolCalled
from pilothouse.core.chat.blocks import blocks_of
from pilothouse.core.chat.effects import CallBackend
from pilothouse.core.chat.message import ThinkingBlock, ToolBlock


def test_however_often_a_turn_asks_each_block_that_does_not_change_is_made_once() -> None:
    turn, requests = Turn(), 60
    for number in range(1, requests):
        turn.hear(Thought("hm", ends=True), Said("Looking."), ToolCalled(id=f"c{number}", name="look"), Completed())
        turn.answer_tool(f"c{number}")
    asked = [effect for effect in turn.begun if isinstance(effect, CallBackend)]
    assert [len(call.blocks) for call in asked] == [3 * number for number in range(requests)]
    made = {id(block) for call in asked for block in call.blocks}
    assert len(made) == 3 * (requests - 1)


def test_what_is_told_late_of_a_call_that_is_over_is_read() -> None:
    turn = Turn()
    turn.hear(ToolAnswered(id="a", success=True, result=1))
    assert blocks_of(turn.state) == blocks_of(turn.state)
    turn.hear(ToolCalled(id="a", name="look", arguments={"n": 1}))
    (block,) = blocks_of(turn.state)
    assert isinstance(block, ToolBlock)
    assert (block.name, block.arguments, block.result) == ("look", {"n": 1}, 1)


def test_a_thought_ends_with_the_subagent_that_thinks_it() -> None:
    turn = Turn()
    turn.hear(LaneOpened(id="a", agent="research"), Thought("hm", "a"), LaneClosed(id="a"))
    assert blocks_of(turn.state) == (ThinkingBlock(text="hm", lane="a", ended=True),)
