"""What a model's name tells of it: who made it, and how capable it is. Pure; the rules are tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from pilothouse.core.plan.spec import Tier
from pilothouse.core.run.agents import ModelInfo

VENDORS = (
    ("claude", "anthropic"),
    ("gpt", "openai"),
    ("codex", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("gemini", "google"),
    ("gemma", "google"),
    ("grok", "xai"),
    ("deepseek", "deepseek"),
    ("qwen", "alibaba"),
    ("kimi", "moonshot"),
    ("glm", "zai"),
    ("llama", "meta"),
    ("mai", "microsoft"),
    ("mistral", "mistral"),
    ("devstral", "mistral"),
    ("codestral", "mistral"),
)
"""By what the name begins with, after any ``provider/``."""

TIERS = (
    (Tier.FAST, frozenset({"mini", "nano", "haiku", "flash", "lite", "small", "air"})),
    (Tier.PREMIUM, frozenset({"opus", "max", "pro", "ultra", "premium"})),
    (Tier.FAST, frozenset({"fast"})),
)
"""By the words of a name, the first row that fits; what fits none is standard. So a ``max-mini`` is
fast, and an ``opus-fast``, which answers sooner for more money, is premium."""

_WORDS = re.compile(r"[a-z]+|\d+[a-z]?")
_LARGE = re.compile(r"[-_]1m(?![a-z0-9])")
"""The variant of a model with a context of a million tokens."""


def vendor_of(model: str) -> str:
    """Empty when the name does not tell."""
    name = model.lower().rpartition("/")[2]
    return next((vendor for prefix, vendor in VENDORS if name.startswith(prefix)), "")


def tier_of(model: str) -> Tier:
    words = frozenset(_WORDS.findall(model.lower().rpartition("/")[2]))
    return next((tier for tier, marks in TIERS if words & marks), Tier.STANDARD)


def suggest(tier: Tier, models: Sequence[str]) -> str:
    """The model of ``models`` (in the order the agent lists them) to use for a tier; empty when there is none at all.

    For premium one with a large context comes first. A tier that has no model falls back to the first standard one,
    then to the first.
    """
    of_tier = [model for model in models if tier_of(model) is tier]
    if tier is Tier.PREMIUM:
        of_tier.sort(key=lambda model: _LARGE.search(model.lower()) is None)
    standard = (model for model in models if tier_of(model) is Tier.STANDARD)
    return next(iter((*of_tier, *standard, *models)), "")


def model_infos(models: Iterable[str], agent: str, is_priced: Callable[[str], bool]) -> list[ModelInfo]:
    """Models as an agent lists them, the first being its default."""
    return [
        ModelInfo(
            id=model,
            agent=agent,
            vendor=vendor_of(model),
            tier=tier_of(model),
            default=index == 0,
            priced=is_priced(model),
        )
        for index, model in enumerate(models)
    ]
