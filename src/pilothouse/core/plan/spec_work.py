"""What a string means where work is expected: an agent, a spec written as JSON, or a shell command.

Knows the document's rules for such strings and nothing of the fields of a spec.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pilothouse.core.plan.spec import DEFAULT_INSTRUCTIONS
from pilothouse.core.plan.spec_text import check_values, read_json
from pilothouse.errors import BadInput

_AGENT = "@agent"


def work_from_string(text: str, limit: int, wrong: Callable[[str, str], Exception]) -> dict[str, object]:
    """The spec, as data, that ``text`` stands for.

    ``@agent`` and a text is an agent with these instructions. Text that begins with ``{`` and is JSON with a
    ``type``, up to its last brace, is that spec. Everything else is a shell command. ``wrong(message, fix)`` makes
    the error to raise.
    """
    if len(text) > limit:
        raise wrong(f"must have at most {limit:,} characters, has {len(text):,}", "put it into a script")
    words = text.strip()
    if not words:
        raise wrong("must not be blank", "remove it, or say what to run")
    if words == _AGENT or (words.startswith(_AGENT) and words[len(_AGENT)].isspace()):
        return {"type": "agent", "instructions": words[len(_AGENT) :].strip() or DEFAULT_INSTRUCTIONS}
    return _spec_in_json(words, wrong) or {"type": "shell", "command": text}


def _spec_in_json(words: str, wrong: Callable[[str, str], Exception]) -> dict[str, object] | None:
    if not words.startswith("{"):
        return None
    try:
        found = read_json(words[: words.rfind("}") + 1], "the JSON in this text")
    except json.JSONDecodeError:
        return None
    except BadInput as error:
        raise wrong(error.message, error.fix) from None
    if not isinstance(found, dict) or not isinstance(found.get("type"), str):
        return None
    problems = check_values(found)
    if problems:
        raise wrong(str(problems[0]), "")
    return found
