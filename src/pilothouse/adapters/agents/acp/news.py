"""From the updates of a conversation over the Agent Client Protocol to news. Pure: values in, values out.

Owns what a tool call is while its updates come in, and what counts as a round. Agents fill the same updates very
differently: some name the input of a tool later, some show a diff only when they ask, some only when they are done.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    FileEditToolCallContent,
    TextContentBlock,
    ToolCall,
    ToolCallUpdate,
)

from pilothouse.adapters.agents.acp.served import Served
from pilothouse.adapters.agents.reading import bounded, relative, shown
from pilothouse.core.run.agents import (
    MAX_TEXT,
    FileEdited,
    News,
    Noted,
    Reasoning,
    Text,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    Used,
)
from pilothouse.core.run.usage import Usage

Call: TypeAlias = ToolCall | ToolCallUpdate

_MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
_OUTPUTS = ("output", "content", "formatted_output", "stdout")
"""Where in a structured output the text for people is."""


class Wanted(NamedTuple):
    """A tool that the agent asks for. ``paths`` are as it names them."""

    name: str
    kind: str
    title: str
    input: str
    paths: tuple[str, ...]
    url: str
    given: bool = False
    """Whether it is certainly one that it was given for this work, which is asked for elsewhere."""


@dataclass
class _Tool:
    """A tool call as it is known so far."""

    kind: str = ""
    name: str = ""
    title: str = ""
    input: str = ""
    url: str = ""
    output: str = ""
    edits: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    """Text before and after, by path."""
    places: list[str] = field(default_factory=list)
    content: str = ""
    """All that a file is to hold, where that is its input."""
    is_new: bool = False
    """Whether it says that the file was not there before."""
    told: bool = False
    served: bool = False
    """Whether somebody else tells of it."""
    denied: bool = False

    @property
    def called(self) -> str:
        return self.name or self.kind or "other"

    def learn(self, call: Call) -> None:
        self.kind = call.kind or self.kind
        self.title = call.title or self.title
        self.name = _own_name(call) or self.name
        if call.raw_input:
            self.input = _input(call.raw_input)
            self.url = _text_in(call.raw_input, ("url",)) or self.url
            self.content = _text_in(call.raw_input, ("content",)) or self.content
        match call.raw_output:
            case {"metadata": {"exists": False}}:
                self.is_new = True
        if call.locations:
            self.places = [place.path for place in call.locations]
        said = []
        for content in call.content or ():
            if isinstance(content, FileEditToolCallContent):
                self.edits[content.path] = (content.old_text, content.new_text)
            elif isinstance(content, ContentToolCallContent) and isinstance(content.content, TextContentBlock):
                said.append(content.content.text)
        self.output = bounded("\n".join(said)) or _output(call.raw_output) or self.output


_SOMETHING = "?"
"""In a file whose content nobody tells."""
_ENDED = _Tool(told=True)


class Updates:
    """Of one prompt. ``worktree`` is where the agent works: paths are told relative to it. ``server``: what it calls
    the server of tools whose calls somebody else tells of, ``titles`` as in ``Served``."""

    def __init__(self, worktree: str, server: str = "", titles: str = "") -> None:
        self._worktree = worktree
        self._served = Served(server, titles)
        self._tools: dict[str, _Tool] = {}
        self._in_round = False
        self._written: set[str] = set()
        self.acted = False
        """Whether it has said or done anything."""
        self.sums = Usage()
        """Tools it used and lines it changed."""

    def news(self, update: object) -> Iterator[News]:
        """What an update tells. Kinds that say nothing about the work tell nothing."""
        match update:
            case AgentMessageChunk(content=TextContentBlock(text=text)) if text:
                yield from self._round()
                yield from (Text(text=piece) for piece in _pieces(text))
            case AgentThoughtChunk(content=TextContentBlock(text=text)) if text:
                yield from self._round()
                yield from (Reasoning(text=piece) for piece in _pieces(text))
            case ToolCall() | ToolCallUpdate():
                yield from self._call(update)
            case AgentPlanUpdate(entries=entries):
                lines = (f"{_MARKS.get(entry.status, '[ ]')} {entry.content}" for entry in entries)
                yield Noted(text=bounded("\n".join(("plan:", *lines))))

    def asked(self, call: ToolCallUpdate) -> tuple[Wanted, list[News]]:
        """It asks whether it may use a tool: whoever decides has to know the tool by then."""
        if self._tools.get(call.tool_call_id) is _ENDED:
            del self._tools[call.tool_call_id]
        tool = self._learn(call)
        tool.output = ""  # what it showed for the question
        news = list(self._start(call.tool_call_id, tool))
        paths = tuple(dict.fromkeys((*tool.edits, *tool.places)))
        given = self._served.is_asked(call)
        return Wanted(tool.called, tool.kind, tool.title, tool.input, paths, tool.url, given), news

    def denied(self, call_id: str) -> None:
        if (tool := self._tools[call_id]) is not _ENDED:
            tool.denied = True

    def written(self, path: str, before: str | None, after: str) -> Iterator[News]:
        """It wrote a file through us."""
        self._written.add(path)
        yield self._edited(path, before, after)

    def close(self) -> Iterator[News]:
        """Nothing more will come: tools that have not ended never will."""
        for call_id, tool in list(self._tools.items()):
            if tool.told and tool is not _ENDED:
                yield from self._end(call_id, tool, failed=True)

    def _learn(self, call: Call) -> _Tool:
        tool = self._tools.get(call.tool_call_id)
        if tool is None:
            tool = self._tools[call.tool_call_id] = _Tool(served=self._served.is_call(call))
        tool.learn(call)
        return tool

    def _call(self, call: Call) -> Iterator[News]:
        if self._tools.get(call.tool_call_id) is _ENDED:
            return
        tool = self._learn(call)
        # Many begin a call before they know its input.
        if tool.input or call.status not in (None, "pending"):
            yield from self._start(call.tool_call_id, tool)
        if call.status in ("completed", "failed"):
            yield from self._end(call.tool_call_id, tool, failed=call.status == "failed")

    def _start(self, call_id: str, tool: _Tool) -> Iterator[News]:
        if tool.told:
            return
        tool.told = True
        self.sums += Usage(tool_calls=1)
        yield from self._round()
        if not tool.served:
            yield ToolStarted(call_id=call_id, tool=tool.called, title=bounded(tool.title), input=tool.input)

    def _end(self, call_id: str, tool: _Tool, *, failed: bool) -> Iterator[News]:
        self._tools[call_id] = _ENDED  # what it was need not be kept: work may take a thousand of them
        self._in_round = False
        if tool.served:
            return
        status = ToolStatus.FAILED if failed else ToolStatus.SUCCEEDED
        yield ToolEnded(
            call_id=call_id,
            tool=tool.called,
            status=ToolStatus.DENIED if tool.denied else status,
            output=tool.output,
        )
        if failed or tool.denied:
            return
        changes = dict(tool.edits)
        if tool.kind == "edit" and not changes:
            # It shows no difference, but says where it was.
            changes = dict.fromkeys(tool.places, (None, tool.content) if tool.is_new else (_SOMETHING, _SOMETHING))
        for path, (before, after) in changes.items():
            if path in self._written:
                self._written.discard(path)
            else:
                yield self._edited(path, before, after)
        if tool.kind == "delete" and not changes:
            yield from (FileEdited(path=relative(path, self._worktree), change="deleted") for path in tool.places)

    def _edited(self, path: str, before: str | None, after: str) -> FileEdited:
        added, removed = lines_changed(before or "", after)
        self.sums += Usage(lines_added=added, lines_removed=removed)
        change = "modified" if before else "created"
        return FileEdited(path=relative(path, self._worktree), change=change, lines_added=added, lines_removed=removed)

    def _round(self) -> Iterator[News]:
        """What it says and does between two results of tools is taken for one answer of its model."""
        self.acted = True
        if not self._in_round:
            self._in_round = True
            yield Used(usage=Usage(turns=1))


def lines_changed(before: str, after: str) -> tuple[int, int]:
    """How many lines were added and removed; one that was only moved is neither."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total(), (old - new).total()


def _input(raw: Any) -> str:
    """A command as a person would type it; it is what matters when somebody is asked."""
    command = raw.get("command") if isinstance(raw, dict) else None
    match command:
        case str():
            return bounded(command)
        case [*words] if words and all(isinstance(word, str) for word in words):
            return bounded(shlex.join(words))
    return shown(raw)


def _output(raw: Any) -> str:
    text = _text_in(raw, _OUTPUTS)
    return shown(raw) if text is None and raw else bounded(text or "")


def _text_in(raw: Any, names: Iterable[str]) -> str | None:
    """The first of these fields that holds text; None when there is none."""
    if not isinstance(raw, dict):
        return None
    return next((raw[name] for name in names if isinstance(raw.get(name), str)), None)


def _own_name(call: Call) -> str:
    """What the agent itself calls the tool, where it says so beside the protocol."""
    for meta in (call.field_meta or {}).values():
        if isinstance(meta, dict) and isinstance(name := meta.get("toolName"), str):
            return name
    return ""


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + MAX_TEXT] for start in range(0, len(text), MAX_TEXT))
