"""What each mode asks of whoever answers, and what a program does that asks, in words for models and agents. What they
may use is ``policy``'s."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pilothouse.core.tools.policy import Mode

NOBODY_THERE = "A program asks, and nobody is there to answer questions: decide, and say what you assumed."

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        Mode.CHAT: "",
        Mode.RESEARCH: "You only look in this conversation: answer the question, change nothing and start nothing.",
        Mode.CREATE_PLAN: "Draft a plan for what is asked, as a workflow of blocks with clear tasks and checks. "
        "Look around first. Do not carry it out.",
        Mode.REVISE_PLAN: "Change the plan that there is, as asked, and say what changed. Do not carry it out.",
        Mode.IMPLEMENT_SIMPLE: "Carry out what is asked yourself, in small steps, and check the outcome.",
        Mode.IMPLEMENT_COMPLEX: "Carry out what is asked as a plan of several nodes that agents work on: draft it, "
        "run it, and watch how it goes.",
    }
)


def words_of_mode(mode: str) -> str:
    """Empty where there is nothing to say."""
    return _WORDS.get(mode, "")
