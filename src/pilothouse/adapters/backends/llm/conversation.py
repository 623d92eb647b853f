"""From a conversation of messages and blocks to the messages of a model library.

A conversation is put together as providers want it: every tool call with exactly one return right after the answer
that made it, ids that are unique in the whole of it, a question last. Knows no provider and asks nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from pilothouse.adapters.backends.llm.attachments import attached, surroundings
from pilothouse.adapters.backends.llm.returns import given, return_of
from pilothouse.core.chat.calls import CallStatus, GivenResult
from pilothouse.core.chat.message import Block, Message, SteeringBlock, TextBlock, ToolBlock
from pilothouse.core.chat.request import BackendRequest

GO_ON = "Go on where you stopped."
NOTHING = "(no message)"
"""Where a conversation begins with an answer: models want a question first."""
SUMMARY = "This conversation was longer than you can read at once. What was said before, in short:\n\n"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def conversation(request: BackendRequest, *, summary: str = "", most: int | None = None) -> list[ModelMessage]:
    """The whole conversation, its last message a question. ``summary`` stands for all before this turn; ``most``:
    characters of each tool result of it that are kept."""
    brought = (*(one for message in request.history for one in message.results), *request.results)
    build = _Build(flat=not request.tools, given={one.id: one for one in brought}, most=most)
    if summary:
        build.ask([SUMMARY + summary])
        build.answer([TextPart("Understood.")])
    else:
        for message in since_compaction(request.history):
            build.message(message)
    unasked = [one for one in request.results if one.id in build.given]
    left_over = [f"Result of the call {one.id} ({one.name}): {given(one).text}" for one in unasked]
    question = [*left_over, *surroundings(request.context), *attached(request.attachments)]
    build.ask([*question, request.message] if request.message else question)
    build.blocks(request.blocks, before=request.call)
    build.ask(request.steering)
    return build.whole(request.instructions)


def lane_of(request: BackendRequest, lane: str, task: str, instructions: str, *, flat: bool) -> list[ModelMessage]:
    """The conversation of a subagent: its task, and what it has said and done."""
    build = _Build(flat=flat, given={}, most=None, lane=lane)
    build.ask([task])
    build.blocks(request.blocks, before=request.call)
    return build.whole(instructions)


def since_compaction(history: Sequence[Message]) -> list[Message]:
    """Without what a summary stands for; the first message then has that summary as its own words."""
    turn = next((message.turn_id for message in reversed(history) if message.compaction), None)
    if turn is None:
        return list(history)
    first = next(index for index, message in enumerate(history) if message.turn_id == turn)
    summary = next(message.compaction for message in history if message.turn_id == turn and message.compaction)
    stands = Message(id="", role="user", content=SUMMARY + summary, turn_id="", at=0)
    return [stands, *history[first:]]


class _Build:
    def __init__(self, *, flat: bool, given: Mapping[str, GivenResult], most: int | None, lane: str = "") -> None:
        self.given = dict(given)
        """Results that have found no call yet."""
        self._flat = flat
        """No tools are offered: providers refuse calls of tools that are not, so they are told as text."""
        self._most = most
        self._lane = lane
        self._messages: list[ModelMessage] = []
        self._ids: set[str] = set()

    def whole(self, instructions: str) -> list[ModelMessage]:
        if not self._messages or isinstance(self._messages[-1], ModelResponse):
            self.ask([GO_ON])
        last = self._messages[-1]
        assert isinstance(last, ModelRequest)
        last.instructions = instructions or None
        return self._messages

    def message(self, message: Message) -> None:
        if message.role == "user":
            self.ask([*attached(message.attachments), message.content] if message.content else [])
            return
        before = len(self._messages)
        self.blocks(message.blocks)
        if not message.blocks and message.content:
            self.answer([TextPart(message.content)])
        if len(self._messages) == before:  # some models insist that questions and answers alternate
            self.answer([TextPart(f"(no answer: {message.error or message.status or 'it was ended'})")])

    def blocks(self, blocks: Iterable[Block], before: int | None = None) -> None:
        """What a turn brought: per request what was said meanwhile, the answer, and what came of its calls. With
        ``before``, only of earlier requests: what is said with this one is told elsewhere."""
        heard = [block for block in blocks if _lane(block) == self._lane]
        of_call = attrgetter("call")
        unheard = [block for block in heard if isinstance(block, SteeringBlock) and not block.call]
        for call, group in groupby(sorted((b for b in heard if b not in unheard), key=of_call), key=of_call):
            if before is not None and call >= before:
                break
            told = list(group)
            self.ask(block.text for block in told if isinstance(block, SteeringBlock))
            self._exchange(told)
        if before is None:
            self.ask(block.text for block in unheard)

    def _exchange(self, blocks: Sequence[Block]) -> None:
        parts: list[ModelResponsePart] = []
        returns: list[ModelRequestPart] = []
        for block in blocks:
            if isinstance(block, TextBlock) and block.text:
                parts.append(TextPart(block.text))
            elif isinstance(block, ToolBlock) and block.status is not CallStatus.GENERATING:
                self._call(block, parts, returns)
        self.answer(parts)
        self._request(returns)

    def _call(self, block: ToolBlock, parts: list[ModelResponsePart], returns: list[ModelRequestPart]) -> None:
        result = self.given.pop(block.id, None)
        came = given(result) if result is not None else return_of(block)
        text = shortened(came.text, self._most)
        if self._flat:  # not in the model's own words: it would learn to write calls like that
            called = msgspec.json.encode(block.arguments).decode()
            returns.append(UserPromptPart(f"[You used the tool {block.name} with {called}. It answered: {text}]"))
            return
        id = self._unique(block.id)
        parts.append(ToolCallPart(block.name, block.arguments, tool_call_id=id))
        returns.append(ToolReturnPart(block.name, text, tool_call_id=id, outcome=came.outcome))

    def ask(self, contents: Iterable[UserContent]) -> None:
        asked = [one for one in contents if one != ""]
        if asked:
            only = asked[0] if len(asked) == 1 and isinstance(asked[0], str) else asked
            self._request([UserPromptPart(only)])

    def answer(self, parts: list[ModelResponsePart]) -> None:
        if not parts:
            return
        if not self._messages:
            self.ask([NOTHING])
        last = self._messages[-1]
        if isinstance(last, ModelResponse):
            last.parts = [*last.parts, *parts]
        else:
            self._messages.append(ModelResponse(parts))

    def _request(self, parts: Sequence[ModelRequestPart]) -> None:
        if not parts:
            return
        last = self._messages[-1] if self._messages else None
        if isinstance(last, ModelRequest):
            last.parts = [*last.parts, *parts]
        else:
            self._messages.append(ModelRequest(list(parts)))

    def _unique(self, id: str) -> str:
        """Ids are unique within a turn only, and other backends make theirs of other letters."""
        safe = _UNSAFE.sub("_", id)[:60] or "call"
        for candidate in _numbered(safe):
            if candidate not in self._ids:
                self._ids.add(candidate)
                return candidate
        raise AssertionError("numbers do not end")


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _lane(block: Block) -> str:
    return "" if isinstance(block, SteeringBlock) else block.lane


def shortened(text: str, most: int | None) -> str:
    if most is None or len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters are left out …\n{text[-half:]}"


def characters(messages: Sequence[ModelMessage], tools: Sequence[Any] = ()) -> int:
    """How much a model has to read, roughly: what estimates of tokens are made of."""
    total = len(msgspec.json.encode(tools)) if tools else 0
    for message in messages:
        for part in message.parts:
            total += 8 + _characters(part)
    last = messages[-1]
    return total + len(getattr(last, "instructions", None) or "")


IMAGE = 4_000
"""Characters that an image is counted as."""


def _characters(part: object) -> int:
    match part:
        case UserPromptPart(content=str(text)) | TextPart(content=text) | ToolReturnPart(content=str(text)):
            return len(text)
        case UserPromptPart(content=contents):
            return sum(len(one) if isinstance(one, str) else IMAGE for one in contents)
        case ToolCallPart():
            return len(part.tool_name) + len(part.args_as_json_str())
    return 0
