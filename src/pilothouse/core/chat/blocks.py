"""From the state of a turn to what people and models read: content blocks and messages."""

from __future__ import annotations

from pilothouse.core.chat.message import Block, Message, SteeringBlock, TextBlock, ThinkingBlock, ToolBlock
from pilothouse.core.chat.state import Part, SteeringPart, TextPart, ToolCall, TurnState


def blocks_of(state: TurnState) -> tuple[Block, ...]:
    """What the turn has brought so far, in the order in which each block began."""
    return tuple([part.block or _block(part) for part in state.parts])


def content_of(state: TurnState) -> str:
    """The answer: the text of the turn itself, without its subagents'."""
    return "".join(part.text for part in state.parts if isinstance(part, TextPart) and not (part.thinking or part.lane))


def messages_of(state: TurnState) -> tuple[Message, Message]:
    """The user's message and the answer, as far as it has come."""
    facts, run = state.facts, state.common
    user = Message(
        id=facts.message_id,
        role="user",
        content=facts.message,
        turn_id=run.run_id,
        at=run.created_at,
        mode=facts.mode,
        attachments=facts.attachments,
        results=facts.tool_results,
    )
    answer = Message(
        id=run.run_id,
        role="assistant",
        content=content_of(state),
        turn_id=run.run_id,
        at=run.started_at or run.created_at,
        blocks=blocks_of(state),
        status=run.lifecycle.lower(),
        error=state.error,
        model=facts.model,
        mode=facts.mode,
        lanes=dict(state.lanes),
        compaction=state.compaction,
    )
    return user, answer


def _block(part: Part) -> Block:
    """Of what does not change any more it is made once: every request of a turn brings all there is."""
    block: Block
    match part:
        case TextPart(thinking=True):
            block = ThinkingBlock(text=part.text, call=part.call, lane=part.lane, ended=part.ended)
        case TextPart():
            block = TextBlock(text=part.text, call=part.call, lane=part.lane)
        case SteeringPart():
            return SteeringBlock(id=part.id, text=part.text, call=part.call)
        case ToolCall():
            block = tool_block(part)
    if part.over if isinstance(part, ToolCall) else part.ended:
        part.block = block
    return block


def tool_block(call: ToolCall) -> ToolBlock:
    return ToolBlock(
        id=call.id,
        name=call.name,
        status=call.status,
        arguments=call.arguments,
        result=call.result,
        error=call.error,
        reason=call.reason,
        call=call.call,
        lane=call.lane,
        run_by=call.run_by,
        started_at=call.started_at,
        ended_at=call.ended_at,
        runs=call.runs,
    )
