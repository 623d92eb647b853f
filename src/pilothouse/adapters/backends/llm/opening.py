"""A language model as a backend, with what its answers cost, for as long as the server lives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pilothouse.adapters.agents.prices import PriceFile
from pilothouse.adapters.agents.pricing import priced
from pilothouse.adapters.backends.llm.backend import LlmBackend
from pilothouse.adapters.backends.llm.config import LlmConfig
from pilothouse.core.run.usage import Usage


@asynccontextmanager
async def opened(config: LlmConfig, prices: Path | None) -> AsyncIterator[LlmBackend]:
    """Raises ``BadInput`` for settings or a price table that are wrong, ``Unavailable`` for what is missing."""
    file = PriceFile(prices)

    def with_cost(model: str, usage: Usage) -> Usage:
        return priced(model, usage, file.table)

    backend = LlmBackend(config, with_cost)
    try:
        yield backend
    finally:
        await backend.close()
