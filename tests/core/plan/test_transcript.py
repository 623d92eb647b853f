"""What people read of an agent."""

from __future__ import annotations

from typing import Any

from pilothouse.core.plan.agent_events import (
    AgentFileEdited,
    AgentNoted,
    AgentReasoning,
    AgentSessionStarted,
    AgentText,
    AgentToolEnded,
    AgentToolStarted,
    AgentUsed,
)
from pilothouse.core.plan.phases import Phase
from pilothouse.core.plan.transcript import Transcript, activity, is_told, transcript
from pilothouse.core.run.agents import ToolStatus
from pilothouse.core.run.events import NeedsApproval
from pilothouse.core.run.usage import Usage
from pilothouse.core.run.waits import Wait, WaitKind

SPOT: dict[str, Any] = {"node_id": "n", "attempt": 1, "phase": Phase.WORK, "to": 10}


def test_pieces_of_a_text_follow_one_another_and_a_tool_begins_a_line() -> None:
    said = transcript(
        [
            AgentSessionStarted(**SPOT, session_id="s-1", model="m"),
            AgentReasoning(**SPOT, text="Let me "),
            AgentReasoning(**SPOT, text="look."),
            AgentText(**SPOT, text="I will "),
            AgentText(**SPOT, text="write it."),
            AgentToolStarted(**SPOT, call_id="c", tool="bash", title="ls\n-la"),
            AgentToolEnded(**SPOT, call_id="c", output="a\nb\n"),
            AgentFileEdited(**SPOT, path="a.py", change="created", lines_added=3),
            AgentText(**SPOT, text="Done.\n"),
        ]
    )
    assert said == (
        "session s-1 with m\n(thinks) Let me look.\nI will write it.\n> bash: ls -la\n  | a\n  | b\n"
        "* created a.py (+3 -0)\nDone.\n"
    )


def test_a_tool_that_failed_or_was_not_permitted_says_so_by_its_name() -> None:
    assert (
        transcript(
            [
                AgentToolStarted(**SPOT, call_id="c", tool="write"),
                AgentToolEnded(**SPOT, call_id="c", status=ToolStatus.DENIED),
                AgentToolEnded(**SPOT, call_id="d", status=ToolStatus.FAILED, output="no such file"),
            ]
        )
        == "> write\n! write was not permitted\n! tool failed\n  | no such file\n"
    )


def test_long_output_of_a_tool_is_shortened_and_says_by_how_much() -> None:
    text = transcript([AgentToolEnded(**SPOT, call_id="c", output="\n".join(map(str, range(20))))])
    assert text.endswith("  | 7\n  | … 12 more lines\n")


def test_the_text_only_grows() -> None:
    events = [
        AgentText(**SPOT, text="a"),
        AgentToolStarted(**SPOT, call_id="c", tool="t"),
        AgentText(**SPOT, text="b"),
        AgentNoted(**SPOT, text="careful", level="warning"),
    ]
    follower = Transcript()
    grown = ""
    for count, event in enumerate(events, 1):
        grown += follower.add(event)
        assert transcript(events[:count]) == grown


def test_usage_says_nothing_of_what_an_agent_does() -> None:
    assert activity(AgentUsed(**SPOT, usage=Usage(turns=1))) == ""
    assert activity(AgentText(**SPOT, text="first\nlast\n\n")) == "last"


def test_a_request_for_permission_is_told_in_the_run_it_came_from() -> None:
    wait = Wait(id="w", kind=WaitKind.APPROVAL, scope="n", question="May it?", detail={"attempt": 1, "phase": "work"})
    asked = NeedsApproval(wait=wait, action="bash")
    assert is_told(asked, "n", 1, "work") and not is_told(asked, "n", 2, "work")
    assert activity(asked) == "? May it?"
