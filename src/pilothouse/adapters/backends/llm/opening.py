"""From the configuration of backends to the one of language models, for as long as the server lives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pilothouse.adapters.agents.prices import PriceFile
from pilothouse.adapters.agents.pricing import priced
from pilothouse.adapters.backends.llm.backend import LlmBackend
from pilothouse.adapters.backends.llm.config import LlmConfig
from pilothouse.core.run.usage import Usage

if TYPE_CHECKING:
    from pilothouse.adapters.backends.opening import BackendConfig


@asynccontextmanager
async def opened(config: BackendConfig) -> AsyncIterator[LlmBackend]:
    """Raises ``BadInput`` for settings or a price table that are wrong, ``Unavailable`` for what is missing."""
    prices = PriceFile(config.prices)

    def with_cost(model: str, usage: Usage) -> Usage:
        return priced(model, usage, prices.table)

    asked = LlmConfig(
        provider=config.llm_provider or "openai",
        base_url=config.llm_base_url,
        api_key=config.llm_api_key,
        model=config.llm_model,
        context_tokens=config.llm_context_tokens,
    )
    backend = LlmBackend(asked, with_cost)
    try:
        yield backend
    finally:
        await backend.close()
