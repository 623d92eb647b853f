"""What a model streams, as events of a backend. One reader per request; asks and decides nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from pilothouse.core.chat.backend import (
    BackendEvent,
    Said,
    Thought,
    ToolAnswered,
    ToolArguments,
    ToolCalled,
    ToolGenerating,
)

_SHOWN = 200
"""Characters of arguments that could not be read that are repeated to the model."""


class Hearing:
    """``taken``: ids of calls that the turn has; those of this answer are added. Some servers count from nought each
    time. ``its_own``: tools that the backend executes."""

    def __init__(self, taken: set[str], lane: str = "", its_own: frozenset[str] = frozenset()) -> None:
        self._taken = taken
        self._lane = lane
        self._its_own = its_own
        self._ids: dict[int, str] = {}
        self.calls: list[str] = []
        """The calls of this answer for somebody else to execute, and those that went wrong."""
        self.own: list[ToolCalled] = []
        """Those for the backend itself."""

    def hear(self, event: ModelResponseStreamEvent, *, cut: bool) -> Iterator[BackendEvent]:
        """``cut``: the answer has ended by now, for want of room. Raises ``TypeError`` and the like for events that no
        server means, which the library hands on all the same."""
        match event:
            case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                if said := text_of(text):
                    yield Said(said, self._lane)
            case PartStartEvent(part=ThinkingPart(content=text)):
                yield Thought(text_of(text), self._lane, begins=True)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=more)):
                if thought := text_of(more):
                    yield Thought(thought, self._lane)
            case PartEndEvent(part=ThinkingPart()):
                yield Thought(lane=self._lane, ends=True)
            case PartStartEvent(index=index, part=ToolCallPart() as part):
                id = self._ids[index] = self._own(text_of(part.tool_call_id))
                yield ToolGenerating(id=id, name=text_of(part.tool_name), lane=self._lane)
                yield from self._arguments(index, part.args)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=args)):
                yield from self._arguments(index, args)
            case PartEndEvent(index=index, part=ToolCallPart() as part):
                yield from self._called(self._ids[index], part, cut)

    def _arguments(self, index: int, args: Any) -> Iterator[BackendEvent]:
        delta = args if isinstance(args, str) else json.dumps(args) if args else ""
        if delta:
            yield ToolArguments(id=self._ids[index], delta=delta, lane=self._lane)

    def _called(self, id: str, part: ToolCallPart, cut: bool) -> Iterator[BackendEvent]:
        arguments, wrong = _read(part.args)
        name = text_of(part.tool_name)
        if cut:
            wrong = "The answer was cut off in the middle of this call, so it was not executed. Make it shorter."
        own = name in self._its_own
        called = ToolCalled(id=id, name=name, arguments=arguments, lane=self._lane, executor="subagent" if own else "")
        if own and not wrong:
            self.own.append(called)
        else:
            self.calls.append(id)
        if wrong:  # its result first: so nobody executes it, and the model hears why
            yield ToolCalled(id=id, name=name, partial=True, lane=self._lane)
            yield ToolAnswered(id=id, name=name, success=False, error=wrong, lane=self._lane)
        yield called

    def _own(self, id: str) -> str:
        own, number = id, 2
        while own in self._taken:
            own, number = f"{id}_{number}", number + 1
        self._taken.add(own)
        return own


def text_of(value: object) -> str:
    """A text; None is an empty one. Raises ``TypeError`` for anything else, which servers have been seen to send."""
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"{type(value).__name__} in the place of a text")


def _read(args: str | dict[str, Any] | None) -> tuple[dict[str, Any], str]:
    """The arguments, or what is wrong with them. None, and an empty text, are no arguments."""
    if isinstance(args, dict):
        return args, ""
    text = (args or "").strip() or "{}"
    try:
        read = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return {}, f"The arguments are not valid JSON ({error}): {text[:_SHOWN]}"
    if isinstance(read, dict):
        return read, ""
    return {}, f"The arguments have to be a JSON object: {text[:_SHOWN]}"
