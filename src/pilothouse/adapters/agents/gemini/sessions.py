"""The files in which the Gemini CLI keeps its conversations, as far as a run needs them.

It finds a conversation only from the directory it began in, and sends every answer of a tool of it twice, which its
service refuses; so a conversation is handed to it as a file to import, with each answer once. It is another one then:
the id is new. What a run used stands in these files as well, also of one that was killed.

A file is lines of JSON: a head, messages that replace an earlier one of their id, changes of the head (``$set``, which
may hold all messages) and returns to an earlier message (``$rewindTo``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.adapters.agents.driver import AgentWork
from pilothouse.adapters.agents.launching import is_id
from pilothouse.adapters.agents.private import left_behind
from pilothouse.adapters.agents.reading import NOT_JSON
from pilothouse.core.run.usage import Tally, Usage

MAX_BYTES = 64 << 20
"""Of a file that is read."""
_BEGUN, _IMPORT = "session.json", "conversation.jsonl"

Record = dict[str, Any]


class Begun(msgspec.Struct, frozen=True):
    """How a run began. ``homes`` are the directories in which its conversation may be kept.

    ``file`` is what it goes on with, ready to be imported; empty for a new one. ``messages`` are the ids in it."""

    homes: tuple[str, ...] = ()
    file: str = ""
    session: str = ""
    """The id a new one is given; empty where one of that id is there already."""
    messages: tuple[str, ...] = ()


class _Tokens(msgspec.Struct, frozen=True):
    """Input includes cached tokens; output leaves out thoughts."""

    input: int = 0
    output: int = 0
    cached: int = 0
    thoughts: int = 0


class _Answer(msgspec.Struct, frozen=True):
    tokens: _Tokens
    model: str = ""


def begin(work: AgentWork, homes: tuple[str, ...]) -> Begun:
    """Note how a run begins, once: whoever launches it again finds it begun. A conversation of which nothing is left is
    not gone on with. Raises ``OSError``."""
    note = begun(work.run)
    if note is None:
        note = _beginning(work, homes)
        if work.run:
            Path(work.run, _BEGUN).write_bytes(msgspec.json.encode(note))
    return note


def begun(run: str) -> Begun | None:
    """How a run began; None when that is not known."""
    try:
        return msgspec.json.decode(left_behind(Path(run, _BEGUN)), type=Begun) if run else None
    except (OSError, *NOT_JSON):
        return None


def spent(run: str, session: str) -> Tally:
    """What the answers in a conversation used that are not older than the run."""
    note = begun(run) or Begun()
    earlier, found = frozenset(note.messages), Tally()
    for message in _kept(note.homes, session)[1]:
        if message.get("type") == "gemini" and message.get("id") not in earlier:
            with contextlib.suppress(*NOT_JSON):
                answer = msgspec.convert(message, _Answer)
                found.add(answer.model, _usage(answer.tokens))
    return found


def once(messages: Iterable[Record]) -> Iterator[Record]:
    """The messages of a conversation without those that only repeat what tools have answered: that stands beside the
    calls. A call that has no answer is left out, as the service wants one for each."""
    for message in messages:
        kind, content = message.get("type"), message.get("content")
        if kind == "user" and isinstance(content, list) and content and all(map(_is_answer, content)):
            continue
        if kind == "gemini" and isinstance(calls := message.get("toolCalls"), list):
            answered = [call for call in calls if isinstance(call, dict) and call.get("result")]
            message = {**message, "toolCalls": answered}
        yield message


def _beginning(work: AgentWork, homes: tuple[str, ...]) -> Begun:
    for session in filter(is_id, (work.session_id, work.new_session_id)):
        head, kept = _kept(homes, session)
        messages = list(once(kept))
        if work.run and any(message.get("type") == "gemini" for message in messages):
            file = Path(work.run, _IMPORT)
            file.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in (head, *messages)))
            return Begun(homes, str(file), messages=tuple(str(message["id"]) for message in messages))
    free = is_id(work.new_session_id) and not _files(homes, work.new_session_id)
    return Begun(homes, session=work.new_session_id if free else "")


def _kept(homes: tuple[str, ...], session: str) -> tuple[Record, list[Record]]:
    """Head and messages of the fullest file of a conversation: some have only a head."""
    return max(
        (_read(file, session) for file in _files(homes, session)), key=lambda kept: len(kept[1]), default=({}, [])
    )


def _files(homes: tuple[str, ...], session: str) -> list[Path]:
    pattern = f".gemini/tmp/*/chats/session-*-{session[:8]}.json*"
    return [file for home in homes for file in sorted(Path(home).glob(pattern))] if is_id(session) else []


def _read(file: Path, session: str) -> tuple[Record, list[Record]]:
    """Nothing when this is not the conversation's."""
    head: Record = {}
    messages: dict[str, Record] = {}
    try:
        lines = left_behind(file, MAX_BYTES).splitlines()
    except OSError:
        lines = []
    for line in lines:
        with contextlib.suppress(*NOT_JSON):
            record = msgspec.json.decode(line)
            if isinstance(record, dict):
                _apply(record, head, messages)
    return (head, list(messages.values())) if head.get("sessionId") == session else ({}, [])


def _apply(record: Record, head: Record, messages: dict[str, Record]) -> None:
    if isinstance(record.get("id"), str):
        messages[record["id"]] = record
    elif isinstance(back := record.get("$rewindTo"), str):
        ids = list(messages)
        for later in ids[ids.index(back) if back in ids else 0 :]:
            del messages[later]
    else:
        changes = record["$set"] if isinstance(record.get("$set"), dict) else record
        if isinstance(all_of_them := changes.get("messages"), list):
            messages.clear()
            messages.update((one["id"], one) for one in all_of_them if isinstance(one, dict) and "id" in one)
        head.update((name, value) for name, value in changes.items() if name != "messages")


def _is_answer(part: Any) -> bool:
    return isinstance(part, dict) and "functionResponse" in part


def _usage(tokens: _Tokens) -> Usage:
    return Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output + tokens.thoughts,
        cached_tokens=tokens.cached,
        reasoning_tokens=tokens.thoughts,
    )
