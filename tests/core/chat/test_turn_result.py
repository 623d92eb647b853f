"""What programs without a stream get of a turn."""

from __future__ import annotations

import msgspec
from tests.support.turns import Turn

from pilothouse.core.chat.backend import Completed, ConversationKnown, Said, ToolCalled, ToolGenerating
from pilothouse.core.chat.blocks import messages_of
from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.message import ToolBlock
from pilothouse.core.chat.result import result_of
from pilothouse.core.chat.told import told_of
from pilothouse.core.run.contract import Failed


def test_a_result_has_the_fields_of_the_document_as_it_spells_them() -> None:
    turn = Turn()
    turn.hear(ConversationKnown("conv"), Said("Done."), ToolCalled(id="a", name="look", arguments={"q": 1}))
    turn.now += 234
    turn.answer_tool("a", {"found": 1})
    turn.hear(Completed())
    turn.hear(Completed())
    assert msgspec.json.decode(msgspec.json.encode(result_of(turn.state))) == {
        "success": True,
        "content": "Done.",
        "toolCalls": [
            {
                "id": "a",
                "name": "look",
                "status": "success",
                "params": {"q": 1},
                "result": {"found": 1},
                "error": None,
                "reason": None,
                "durationMs": 234,
            }
        ],
        "chatId": "chat-1",
        "conversationId": "conv",
        "error": None,
        "code": None,
        "requiresAction": False,
        "usage": {},
        "turnId": "turn-1",
        "title": None,
        "status": "succeeded",
    }


def test_a_call_goes_from_pending_over_executing_to_its_end() -> None:
    turn = Turn()

    def status() -> str:
        return result_of(turn.state).tool_calls[0].status

    turn.hear(ToolGenerating(id="a", name="look"))
    assert status() == "pending"
    turn.hear(ToolCalled(id="a", name="look"))
    assert status() == "executing"
    turn.land("tool/a/1", Failed(error="no"))
    assert status() == "error"


def test_a_failure_keeps_what_was_done_before_it() -> None:
    turn = Turn()
    turn.hear(Said("Half "), ToolCalled(id="a", name="look"))
    turn.answer_tool("a", 1)
    turn.land("call/1", Failed(error="connection reset"))
    result = result_of(turn.state)
    assert (result.success, result.error, result.content) == (False, "connection reset", "Half ")
    assert [call.status for call in result.tool_calls] == [CallStatus.SUCCESS]
    assert messages_of(turn.state)[1].content == "Half "


def test_what_a_backend_is_told_of_a_call_is_as_the_document_has_it() -> None:
    def told(status: CallStatus, reason: str = "", error: str = "") -> tuple[int, bool, object]:
        answer = told_of(ToolBlock(id="a", status=status, result=None, reason=reason, error=error))
        return answer.status, answer.success, answer.data

    assert told(CallStatus.SUCCESS) == (200, True, None)
    assert told(CallStatus.BACKGROUND) == (202, True, {"background": True})
    assert told(CallStatus.PENDING) == (202, True, {"background": True})
    assert told(CallStatus.REJECTED, "user_rejected") == (400, False, {"skipped": True, "reason": "user_rejected"})
    assert told(CallStatus.REJECTED, "timeout") == (408, False, {"skipped": True, "reason": "timeout"})
    assert told(CallStatus.SKIPPED, "needs_approval")[0] == 400
    assert told(CallStatus.CANCELLED, "stopped", "Stopped by user")[0] == 499
    assert told(CallStatus.ERROR, "", "no") == (500, False, {"error": "no"})
