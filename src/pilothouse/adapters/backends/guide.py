"""What answers when nothing is configured: it says so, and how to connect a model."""

from __future__ import annotations

from pilothouse.adapters.backends.script import ScriptBackend
from pilothouse.adapters.backends.script_file import Replies, Step


class GuideBackend(ScriptBackend):
    name = "guide"

    def __init__(self) -> None:
        super().__init__(Replies(otherwise=(Step(say="No language model is connected."),)))
