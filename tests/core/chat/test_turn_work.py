"""However much a turn brings, each of it is looked at a few times, not again with all that comes after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.support.turns import Turn
from tests.support.work import lines_run

from pilothouse.core.chat.backend import Completed, ToolAnswered, ToolArguments, ToolCalled
from pilothouse.core.chat.calls import Features
from pilothouse.core.chat.inputs import Confirm

FEW, MANY = 100, 800


def calls(name: str, number: int) -> list[ToolCalled]:
    return [ToolCalled(id=f"c{each}", name=name, arguments={}) for each in range(number)]


def confirm(call_id: str, status: str = "success", scope: str = "once") -> Confirm:
    return Confirm(tool_call_id=call_id, status=status, scope=scope, by="alice", may_decide=True)


def executed(turn: Turn, number: int) -> None:
    for each in range(number):
        turn.answer_tool(f"c{each}")


def tools_of_the_server(number: int) -> None:
    turn = Turn()
    turn.hear(*calls("look", number))
    executed(turn, number)


def tools_after_the_last_word(number: int) -> None:
    turn = Turn()
    turn.hear(*calls("look", number), Completed())
    executed(turn, number)


def tools_of_an_agent(number: int) -> None:
    turn = Turn(features=Features(own_tools=True))
    turn.hear(*(ToolCalled(id=f"c{each}", name="look", executor="server") for each in range(number)))
    executed(turn, number)
    turn.hear(Completed())


def tools_allowed_for_good(number: int) -> None:
    turn = Turn()
    turn.hear(*calls("ask", 1))
    turn.tell(confirm("c0", "accepted", "always"))
    turn.hear(*calls("ask", number))
    executed(turn, number)


def tools_of_the_backend(number: int) -> None:
    turn = Turn()
    for call in calls("edit", number):
        turn.hear(call)
    for each in range(number):
        turn.hear(ToolAnswered(id=f"c{each}", success=True, result=1))


def tools_of_a_client(number: int) -> None:
    turn = Turn()
    turn.hear(*(ToolCalled(id=f"c{each}", name="open", arguments={}, executor="client") for each in range(number)))
    for each in range(number):
        turn.tell(confirm(f"c{each}"))


def tools_left_to_the_sender(number: int) -> None:
    turn = Turn(auto_execute=False)
    turn.hear(*calls("look", number))
    for each in range(number // 2):
        turn.tell(confirm(f"c{each}"))
    turn.hear(Completed())


@pytest.mark.parametrize(
    "turn",
    [
        tools_of_the_server,
        tools_after_the_last_word,
        tools_of_an_agent,
        tools_allowed_for_good,
        tools_of_the_backend,
        tools_of_a_client,
        tools_left_to_the_sender,
    ],
)
def test_eight_times_as_many_calls_are_eight_times_the_work(turn: Callable[[int], None]) -> None:
    few, many = lines_run(lambda: turn(FEW)), lines_run(lambda: turn(MANY))
    assert many < 1.3 * MANY / FEW * few


def test_arguments_that_come_in_many_chunks_are_read_when_they_are_whole() -> None:
    class Read(list[str]):
        times = 0

        def __iter__(self) -> Iterator[str]:
            self.times += 1
            return super().__iter__()

    turn = Turn()
    turn.hear(ToolArguments(id="a", name="look", delta='{"x": "'))
    pieces = turn.state.calls["a"].pieces = Read(turn.state.calls["a"].pieces)
    for _ in range(MANY):
        turn.hear(ToolArguments(id="a", delta="y"))
    assert pieces.times == 0
    turn.hear(ToolArguments(id="a", delta='"}'), ToolCalled(id="a", name="look"))
    assert turn.state.calls["a"].arguments == {"x": MANY * "y"}
    assert pieces.times == 1
