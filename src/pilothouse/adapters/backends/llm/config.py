"""Which language model answers, and where it is: the settings ``PILOTHOUSE_LLM_*`` as values, checked.

Imports no model library: what is wrong with the settings is said before any of those is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pilothouse.errors import BackendFailed, BadInput, Unavailable

OLLAMA = "http://127.0.0.1:11434/v1"
PROVIDERS = ("openai", "openai-responses", "anthropic", "ollama")
"""``openai`` is the wire of chat completions, whoever speaks it."""
KEYLESS = "no-key"
"""Sent to endpoints of the user's own that want no key: the libraries insist on one."""


@dataclass(frozen=True)
class LlmConfig:
    """``base_url`` empty: the provider's own service. ``context_tokens``: how much the model takes at once; 0: as it
    says itself, else nobody knows until it refuses."""

    provider: str = "openai"
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    model: str = ""
    context_tokens: int = 0

    @property
    def url(self) -> str:
        """Where it is asked; empty: the provider's own service."""
        return (self.base_url or (OLLAMA if self.provider == "ollama" else "")).rstrip("/")

    @property
    def place(self) -> str:
        """The same for people."""
        return self.url or ("api.anthropic.com" if self.provider == "anthropic" else "api.openai.com")

    @property
    def key(self) -> str:
        return self.api_key or KEYLESS

    def named(self, model: str) -> str:
        """``model``, or what is asked where that is empty. Raises ``BackendFailed`` when no model is chosen."""
        if name := model or self.model:
            return name
        raise BackendFailed("No model is chosen: set PILOTHOUSE_LLM_MODEL, or name one with the message")

    def hidden(self, text: str) -> str:
        """``text`` without the key."""
        return text.replace(self.api_key, "***") if self.api_key else text


def check(config: LlmConfig) -> None:
    """Raises ``BadInput`` naming the setting, ``Unavailable`` when a key is missing that is certainly needed."""
    if config.provider not in PROVIDERS:
        raise BadInput(
            f"{config.provider!r} is no provider of models",
            field="PILOTHOUSE_LLM_PROVIDER",
            fix=f"one of {', '.join(PROVIDERS)}",
        )
    if not config.url and not config.api_key:
        raise Unavailable(
            f"{config.place} wants a key: set PILOTHOUSE_LLM_API_KEY, or PILOTHOUSE_LLM_BASE_URL for a service of your "
            "own (see docs/models.md)"
        )
