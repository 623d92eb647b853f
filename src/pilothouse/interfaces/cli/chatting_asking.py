"""Asking the person at the terminal whether a tool may be used."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from pilothouse.client.decisions import Decision
from pilothouse.client.events import ApprovalRequired
from pilothouse.interfaces.cli.feed import ctrl_c_raises
from pilothouse.interfaces.cli.words import how_to_answer, one_line

_LETTERS = {"approve": "a", "approve-chat": "c", "approve-always": "l", "refuse": "r", "background": "b"}
_WORDS = {
    "a": "[a]pprove",
    "c": "for this [c]hat",
    "l": "a[l]ways",
    "r": "[r]efuse",
    "b": "in the [b]ackground",
    "e": "[e]dit",
}
_EDIT = "e"
_CHECKS = ("prechecks", "postchecks")
_HABITS = {"y": "approve", "yes": "approve", "n": "refuse", "no": "refuse"}
"""What people type without reading."""


def can_ask() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def choices(asked: ApprovalRequired) -> dict[str, str]:
    """What may be typed, and the answer that it means. An agent's own answers are numbered."""
    found = {_LETTERS.get(option, str(number)): option for number, option in enumerate(asked.options, 1)}
    return found | ({_EDIT: "approve"} if "a" in found else {})


def question(asked: ApprovalRequired, workflow: Mapping[str, Any] | None = None) -> str:
    """What is to be decided, over several lines; the last is the prompt. ``workflow``: what the call would run."""
    lines = [one_line(asked.question) or f"May {one_line(asked.tool_name)} be used?"]
    lines += [f"  {name}: {value}" for name, value in told_arguments(asked.arguments)]
    lines += told_workflow(workflow) if workflow is not None else []
    words = [_WORDS.get(key, f"[{key}] {answer}") for key, answer in choices(asked).items()]
    return "\n".join([*lines, ", ".join(words) + "? "])


def told_arguments(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a tool would be called with, each a name and a line; what is empty is left out."""
    texts = ((name, _text(value)) for name, value in arguments.items())
    return [(one_line(name), line) for name, text in texts if (line := one_line(text))]


def told_workflow(found: Mapping[str, Any]) -> list[str]:
    """A workflow as it would be run: each block with its work, and with what else it runs."""
    workflow = found.get("workflow") or {}
    lines = [f"{workflow.get('name', '')}, version {found.get('version')}:"]
    for block in workflow.get("blocks") or ():
        work = _work_of(block)
        lines.append(f"  {block.get('id', '')} ({block.get('type', '')}){': ' if work else ''}{work}")
        lines += [f"    {name}: {_text(block[name])}" for name in _CHECKS if block.get(name)]
    return [f"  {' ' * (len(line) - len(line.lstrip()))}{one_line(line)}" for line in lines]


def _work_of(block: Mapping[str, Any]) -> str:
    config = block.get("config") or {}
    if config.get("executable"):
        return shlex.join([config["executable"], *config.get("args", ())])
    return _text(config.get("command") or config.get("instructions") or block.get("task") or "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def elsewhere(asked: ApprovalRequired) -> str:
    """What somebody is told who cannot be asked."""
    what = one_line(asked.question) or f"{one_line(asked.tool_name)} waits for an approval:"
    return f"{what} {how_to_answer(asked.approval_id, asked.options)}"


def read_answer(asked: ApprovalRequired, typed: str) -> Decision | None:
    """What a typed line means; None: nothing."""
    said = typed.strip().lower()
    known = choices(asked)
    if said == _EDIT and _EDIT in known:
        return edited(asked)
    answer = known.get(said) or next((one for one in (said, _HABITS.get(said)) if one in asked.options), None)
    if answer is None and said:
        answer = next((option for option in asked.options if option.startswith(said)), None)
    return Decision(answer) if answer is not None else None


def edited(asked: ApprovalRequired) -> Decision | None:
    """The arguments as the person wants them; None when they are no JSON object, or Ctrl-C or Ctrl-D was pressed."""
    try:
        with ctrl_c_raises():
            text = _line_to_edit(json.dumps(asked.arguments, ensure_ascii=False))
    except (KeyboardInterrupt, EOFError):
        print("\nnothing was changed", file=sys.stderr)
        return None
    try:
        arguments: Any = json.loads(text)
    except ValueError as error:
        print(f"that is no JSON: {error}", file=sys.stderr)
        return None
    if not isinstance(arguments, dict):
        print("that is no JSON object", file=sys.stderr)
        return None
    return Decision("approve", arguments)


def _line_to_edit(text: str) -> str:
    """A line that begins as ``text``; empty means as it was."""
    try:
        import readline
    except ImportError:  # a Python without it has no editing
        print(text, file=sys.stderr)
        return input("arguments: ").strip() or text
    readline.set_startup_hook(lambda: readline.insert_text(text))
    try:
        return input("arguments: ").strip() or text
    finally:
        readline.set_startup_hook()
