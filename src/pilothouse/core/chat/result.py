"""What came of a turn, as programs without a stream get it: the chat document's answer.

Words are the document's where it has them; nothing is hidden that went wrong, and nothing is thrown away with it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.chat.blocks import content_of
from pilothouse.core.chat.calls import CallStatus
from pilothouse.core.chat.state import ToolCall, TurnState
from pilothouse.core.run.lifecycle import Lifecycle
from pilothouse.core.run.usage import Usage

_FOR_OTHERS = frozenset({CallStatus.PENDING, CallStatus.AWAITING_APPROVAL})


class CallResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One tool call; one that is still being generated is pending. ``duration_ms`` counts its execution, None where
    there was none, or no end."""

    id: str
    name: str
    status: CallStatus
    params: dict[str, Any]
    result: Any = None
    error: str | None = None
    reason: str | None = None
    duration_ms: int | None = None


class TurnResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``success``: the turn came to its end by itself. ``requires_action``: a call waits for whoever sent the message
    to execute it, or to allow it. ``status`` is the lifecycle in lower case; ``code`` is the error's, for programs."""

    success: bool
    content: str
    tool_calls: tuple[CallResult, ...]
    chat_id: str
    conversation_id: str | None = None
    error: str | None = None
    code: str | None = None
    requires_action: bool = False
    usage: dict[str, Any] = {}
    turn_id: str
    title: str | None = None
    status: str


def result_of(state: TurnState) -> TurnResult:
    """The turn as it stands."""
    run = state.common
    return TurnResult(
        success=run.lifecycle is Lifecycle.SUCCEEDED,
        content=content_of(state),
        tool_calls=tuple(_call(call) for call in state.calls.values()),
        chat_id=state.chat_id,
        conversation_id=state.conversation_id or None,
        error=state.error or None,
        code=state.code or None,
        requires_action=any(call.status in _FOR_OTHERS for call in state.live.values()),
        usage=_usage(state),
        turn_id=run.run_id,
        title=state.title or None,
        status=run.lifecycle.lower(),
    )


def _usage(state: TurnState) -> dict[str, Any]:
    """Empty when nothing was told; without a cost where a price is not known."""
    by_model = state.usage.by_model
    if not by_model:
        return {}
    models = [{"model": model, **_amount(usage)} for model, usage in sorted(by_model.items()) if model]
    return {**_amount(state.usage.total), "models": models}


def _amount(usage: Usage) -> dict[str, Any]:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cachedTokens": usage.cached_tokens,
        "totalTokens": usage.tokens,
        "cost": None if usage.unpriced_tokens else usage.cost,
    }


def _call(call: ToolCall) -> CallResult:
    took = call.ended_at - call.started_at if call.started_at is not None and call.ended_at is not None else None
    return CallResult(
        id=call.id,
        name=call.name,
        status=CallStatus.PENDING if call.status is CallStatus.GENERATING else call.status,
        params=call.arguments,
        result=call.result,
        error=call.error or None,
        reason=call.reason or None,
        duration_ms=took,
    )
