"""What answers when nothing is configured: it says so, tells how to connect a model, and runs a few real tools.

It knows phrases, not language, and does not pretend otherwise. Stateless: where it stands is read from the request.
``guide_words`` is what it says.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilothouse.adapters.backends import guide_words as words
from pilothouse.core.chat.backend import BackendEvent, Completed, Paused, Said, ToolCalled
from pilothouse.core.chat.calls import CallReason, CallStatus, Features
from pilothouse.core.chat.effects import AbortBackend, AnswerBackend, MakeTitle, SteerBackend
from pilothouse.core.chat.message import ToolBlock
from pilothouse.core.chat.request import BackendRequest, ChatModel, ToolReport
from pilothouse.errors import BackendFailed

_EXAMPLE: Mapping[str, Any] = {
    "blocks": [
        {
            "id": "greet",
            "type": "shell",
            "task": "Write a greeting",
            "config": {"command": "echo 'Hello from Pilothouse' > HELLO.txt"},
        },
        {
            "id": "check",
            "type": "shell",
            "task": "Look whether it is there",
            "config": {"command": "grep Hello HELLO.txt"},
            "expectsNoChanges": True,
        },
    ],
    "edges": [{"source": "greet", "target": "check"}],
}


@dataclass(frozen=True, slots=True)
class _Phrase:
    """``arguments`` answers the tool's, or why it cannot be used; ``tells`` its result."""

    pattern: re.Pattern[str]
    tool: str
    arguments: Callable[[re.Match[str], BackendRequest], dict[str, Any] | str]
    tells: Callable[[Mapping[str, Any]], str]


class GuideBackend:
    name = "guide"
    features = Features(repeats=True)

    async def call(self, request: BackendRequest) -> AsyncIterator[Sequence[BackendEvent]]:
        yield list(_answer(request))

    async def report(self, report: ToolReport) -> None:
        """It is told with its next request."""

    async def steer(self, steer: SteerBackend) -> None:
        raise BackendFailed("the guide answers at once: there is nothing to steer")

    async def abort(self, abort: AbortBackend) -> None:
        """There is nobody to tell."""

    async def answer(self, answer: AnswerBackend) -> None:
        """It asks for nothing."""

    async def title(self, make: MakeTitle) -> str:
        return " ".join(make.message.split())[:60]

    async def models(self) -> list[ChatModel]:
        return [ChatModel(id="guide", name="Built-in guide (no model is connected)", default=True)]


def _answer(request: BackendRequest) -> Iterator[BackendEvent]:
    steered = request.reason is CallReason.STEERING
    found = _meant("\n".join(request.steering) if steered else request.message)
    if found is None:
        yield from (Said(words.WELCOME), Completed())
        return
    phrase, match = found
    call_id = f"guide-{request.turn_id[-12:]}" + (f"-{request.call}" if steered else "")
    for block in reversed(request.blocks):
        if isinstance(block, ToolBlock) and block.id == call_id:
            yield from (Said(_told(phrase, block)), Completed())
            return
    arguments = phrase.arguments(match, request)
    if isinstance(arguments, str):
        yield from (Said(arguments), Completed())
    elif phrase.tool not in {spec.name for spec in request.tools}:
        yield from (Said(words.NOT_OFFERED.format(tool=phrase.tool)), Completed())
    else:
        yield ToolCalled(id=call_id, name=phrase.tool, arguments=arguments)
        yield Paused(checkpoint_id="result", pending=(call_id,))


def _told(phrase: _Phrase, block: ToolBlock) -> str:
    if block.status is not CallStatus.SUCCESS:
        return words.failed(phrase.tool, str(block.status), block.error)
    return phrase.tells(block.result if isinstance(block.result, Mapping) else {})


def _meant(message: str) -> tuple[_Phrase, re.Match[str]] | None:
    for phrase in _PHRASES:
        if match := phrase.pattern.search(message):
            return phrase, match
    return None


def _create(match: re.Match[str], request: BackendRequest) -> dict[str, Any]:
    return {"name": (match["name"] or "demo").strip(), **_EXAMPLE}


def _run(match: re.Match[str], request: BackendRequest) -> dict[str, Any] | str:
    if not request.workflow_id:
        return words.NO_WORKFLOW
    return {"repoPath": match["repo"]} if match["repo"] else {}


def _status(match: re.Match[str], request: BackendRequest) -> dict[str, Any] | str:
    for message in reversed(request.history):
        for block in reversed(message.blocks):
            if isinstance(block, ToolBlock) and block.name == "run_workflow" and isinstance(block.result, Mapping):
                return {"runId": block.result.get("runId", "")}
    return words.NO_RUN


def _nothing(match: re.Match[str], request: BackendRequest) -> dict[str, Any]:
    return {}


def _query(match: re.Match[str], request: BackendRequest) -> dict[str, Any]:
    return {"query": match["query"].strip(" .?!\"'“”")}


def _phrase(
    pattern: str,
    tool: str,
    arguments: Callable[[re.Match[str], BackendRequest], dict[str, Any] | str],
    tells: Callable[[Mapping[str, Any]], str],
) -> _Phrase:
    return _Phrase(re.compile(pattern, re.IGNORECASE), tool, arguments, tells)


_PHRASES = (
    _phrase(
        r"\b(?:create|make|build|add|new)\b.*?\bworkflow\b(?:.*?\b(?:called|named)\s+[\"'“]?(?P<name>[\w-]{1,60}))?",
        "create_workflow",
        _create,
        words.created,
    ),
    _phrase(r"\b(?:list|show|which)\b.*\bworkflows\b", "list_workflows", _nothing, words.workflows),
    _phrase(r"\b(?:list|show|which)\b.*\bplans\b", "list_plans", _nothing, words.plans),
    _phrase(
        r"\b(?:search|find|look)\b.*?\bpatterns?\b(?:\s+(?:for|about|of|on))?\s*(?P<query>.*)",
        "search_patterns",
        _query,
        words.patterns,
    ),
    _phrase(
        r"\b(?:search|find|look)\b.*?\b(?:docs|documentation)\b(?:\s+(?:for|about|on))?\s*(?P<query>\S.*)",
        "search_documentation",
        _query,
        words.sections,
    ),
    _phrase(r"\bhow is it going\b|\bhow does it go\b|\bstatus\b", "get_workflow_run", _status, words.going),
    _phrase(
        r"\b(?:run|start)\s+(?:it|this|(?:the|my)\s+workflow)\b(?:.*?\bin\s+(?P<repo>/\S*[^\s.,;!?]))?",
        "run_workflow",
        _run,
        words.started,
    ),
)
"""The first that fits is meant."""
