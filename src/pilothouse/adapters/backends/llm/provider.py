"""The model library's side: clients with connections of their own, a model by name, its list of models.

The only module that chooses between providers. Retries are the turn's business, so the clients make none.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx2
import openai
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings

from pilothouse.adapters.backends.llm.bounds import bound
from pilothouse.adapters.backends.llm.config import LlmConfig
from pilothouse.core.chat.request import ChatModel

CONNECT_S = 10.0
SILENCE_S = 600.0
"""A model that thinks may be silent for long; the turn's own time ends it before that."""
MOST_MODELS = 1000
_CONTEXT_NAMES = ("max_model_len", "context_length", "context_window", "max_input_tokens")
"""What servers call how many tokens a model takes, where they tell."""


class Provider:
    """Owns its connections until it is closed."""

    def __init__(self, config: LlmConfig) -> None:
        self._config = config
        timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        hooks = {"response": [bound]}
        # Follows nobody elsewhere with a key.
        self._http = httpx2.AsyncClient(timeout=timeout, limits=limits, event_hooks=hooks)
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # it has a line for every request
        self._models: dict[str, Model] = {}
        if config.provider == "anthropic":
            own = {"x-api-key": config.key} if config.url else {}  # what most who speak this wire look for
            self._anthropic = anthropic.AsyncAnthropic(
                api_key=config.key,
                base_url=config.url or "https://api.anthropic.com",
                max_retries=0,
                timeout=timeout,
                http_client=self._http,
                default_headers=own,
            )
        else:
            self._openai = openai.AsyncOpenAI(
                api_key=config.key,
                base_url=config.url or "https://api.openai.com/v1",
                max_retries=0,
                timeout=timeout,
                http_client=self._http,
            )

    def model(self, name: str) -> Model:
        if name not in self._models:
            self._models[name] = self._made(name)
        return self._models[name]

    def _made(self, name: str) -> Model:
        match self._config.provider:
            case "anthropic":
                return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=self._anthropic))
            case "ollama":
                return OpenAIChatModel(name, provider=OllamaProvider(openai_client=self._openai))
        provider: OpenAIProvider | OpenAICompatibleProvider
        if self._config.url:
            provider = OpenAICompatibleProvider("openai-compatible", openai_client=self._openai)
        else:
            provider = OpenAIProvider(openai_client=self._openai)
        if self._config.provider == "openai-responses":
            return OpenAIResponsesModel(name, provider=provider)
        return OpenAIChatModel(name, provider=provider)

    @property
    def settings(self) -> ModelSettings:
        """For every request. The beginning of a conversation is the same in each, so it is worth a cache."""
        if self._config.provider != "anthropic":
            return ModelSettings()  # those cache by themselves
        if self._config.url:  # not everybody who speaks the wire knows the newer way
            return AnthropicModelSettings(anthropic_cache_messages=True)
        return AnthropicModelSettings(anthropic_cache=True)

    async def models(self) -> list[ChatModel]:
        """Raises what the libraries do."""
        found = [listed(one, self._config.model) async for one in self._listed()]
        return sorted(found, key=lambda model: model.id)

    async def _listed(self) -> AsyncIterator[Any]:
        pages: AsyncIterator[Any]
        if self._config.provider == "anthropic":
            pages = aiter(self._anthropic.models.list(limit=MOST_MODELS))
        else:
            pages = aiter(self._openai.models.list())
        count = 0
        async for model in pages:
            count += 1
            if count > MOST_MODELS:
                break
            yield model

    async def close(self) -> None:
        await self._http.aclose()


def listed(model: Any, default: str) -> ChatModel:
    """A model of a list, whatever its server tells beside its id."""
    told = model.to_dict() if hasattr(model, "to_dict") else {}
    lengths = (told.get(name) for name in _CONTEXT_NAMES)
    length = next((one for one in lengths if isinstance(one, int) and one > 0), None)
    name = told.get("display_name") or told.get("name") or ""
    return ChatModel(
        id=model.id, name=name if isinstance(name, str) else "", context_tokens=length, default=model.id == default
    )
