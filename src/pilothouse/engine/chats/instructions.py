"""What a model is told about where it is and what it is for, besides what people say.

Text alone, the same for every backend that takes such. What tools do stands with the tools.
"""

from __future__ import annotations

from pilothouse.core.chat.effects import CallBackend
from pilothouse.core.chat.mode_words import NOBODY_THERE, words_of_mode

_BASE = """\
You are the copilot of Pilothouse, where people let AI agents work on their repositories, watch them and stop them. \
Answer in the language of the message. Say what you did and what came of it; where something failed, say so plainly. \
Use tools rather than guess; call independent ones together. A value written {{NAME}} is a secret: use it as it \
stands, it is filled in where it is needed.\
"""


def instructions(call: CallBackend) -> str:
    """For one request of a turn."""
    parts = [_BASE, words_of_mode(call.mode)]
    if call.workspace:
        parts.append(f"The workspace is the repository {call.workspace}.")
    else:
        parts.append(
            "No repository is chosen, so tools for files and commands have nothing to work on: say so if needed."
        )
    if call.workflow_id:
        parts.append(f"The conversation is about the workflow with the id {call.workflow_id}.")
    if call.headless:
        parts.append(NOBODY_THERE)
    return "\n\n".join(part for part in parts if part)
