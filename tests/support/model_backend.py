"""The backend of language models, made to say what a test wants, over a model server on the loopback interface."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.support.models.asked import Asked
from tests.support.models.parts import Call, Fail, Hold, Over, Part, Say, Think, Usage
from tests.support.models.server import ModelServer

from pilothouse.adapters.backends import memory
from pilothouse.adapters.backends.opening import BackendConfig, open_backend
from pilothouse.core.chat.backend import Completed, Paused, Said, Spent, Thought, ToolCalled
from pilothouse.engine.chat_ports import Backend

USED = "[You used the tool"
"""How results are told where no tools are offered."""


class AsLanguageModel:
    """A setting of the backends' contract. Steps that no language model can take skip their test."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        importlib.import_module("pilothouse.adapters.backends.llm.answering")  # heavy: not within a test's patience

    @asynccontextmanager
    async def playing(self, *legs: Sequence[Any]) -> AsyncIterator[Backend]:
        turns = [[part for step in leg for part in _parts(step)] for leg in legs]

        def turn(asked: Asked) -> Sequence[Part]:
            if "Write a title" in asked.text:
                return [Say("A title")]
            done = len(asked.results) + asked.text.count(USED)
            return turns[min(done, len(turns) - 1)]

        with ModelServer(turn) as server:
            url = server.url if self._provider == "anthropic" else f"{server.url}/v1"
            config = BackendConfig(kind="llm", llm_provider=self._provider, llm_base_url=url, llm_model="m")
            async with open_backend(config) as backend:
                yield backend


def _parts(step: Any) -> Sequence[Part]:
    match step:
        case Said(text=text):
            return [Say(text)]
        case Thought(text=text):
            return [Think(text)]
        case Spent():
            return [Usage(step.input_tokens, step.output_tokens, step.cached_tokens)]
        case ToolCalled():
            return [Call(step.name, step.arguments or {}, id=step.id)]
        case memory.Hold(name=name):
            return [Hold(name)]
        case memory.Break(error=error):
            return [Fail(error.status or 503, str(error), error.retry_after_ms / 1000)]
        case Completed() | Paused():
            return []
        case Sequence():
            return [part for one in step for part in _parts(one)] or [Over()]
    raise TypeError(f"no language model says {type(step).__name__}")
