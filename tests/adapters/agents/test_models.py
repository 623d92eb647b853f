"""What a model's name tells, and which one is chosen for a tier."""

from __future__ import annotations

import pytest

from pilothouse.adapters.agents.models import suggest, tier_of, vendor_of
from pilothouse.core.plan.spec import Tier


@pytest.mark.parametrize(
    ("model", "vendor", "tier"),
    [
        ("gpt-5", "openai", Tier.STANDARD),
        ("gpt-5-mini", "openai", Tier.FAST),
        ("gpt-5.1-codex-max", "openai", Tier.PREMIUM),
        ("gpt-5.1-codex-mini", "openai", Tier.FAST),
        ("o4-mini", "openai", Tier.FAST),
        ("claude-haiku-4.5", "anthropic", Tier.FAST),
        ("claude-sonnet-4.5", "anthropic", Tier.STANDARD),
        ("claude-opus-4.8-fast", "anthropic", Tier.PREMIUM),
        ("grok-code-fast-1", "xai", Tier.FAST),
        ("claude-opus-4.6-1m", "anthropic", Tier.PREMIUM),
        ("anthropic/claude-opus-4-6", "anthropic", Tier.PREMIUM),
        ("gemini-2.5-flash-lite", "google", Tier.FAST),
        ("gemini-3-pro-preview", "google", Tier.PREMIUM),
        ("GPT-5-Mini", "openai", Tier.FAST),
        ("gemini-3-proxy", "google", Tier.STANDARD),
        ("my-own-model", "", Tier.STANDARD),
        ("", "", Tier.STANDARD),
    ],
)
def test_a_name_tells_who_made_a_model_and_how_capable_it_is(model: str, vendor: str, tier: Tier) -> None:
    assert (vendor_of(model), tier_of(model)) == (vendor, tier)


def test_the_first_model_of_a_tier_is_suggested() -> None:
    models = ("claude-sonnet-4.5", "gpt-5", "gpt-5-mini", "claude-haiku-4.5", "claude-opus-4.6")
    assert [suggest(tier, models) for tier in Tier] == ["gpt-5-mini", "claude-sonnet-4.5", "claude-opus-4.6"]


def test_for_premium_one_with_a_large_context_comes_first() -> None:
    assert suggest(Tier.PREMIUM, ("claude-opus-4.5", "claude-opus-4.6-1m", "x-max")) == "claude-opus-4.6-1m"


def test_a_tier_without_a_model_falls_back_to_the_first_standard_one_then_to_any() -> None:
    assert suggest(Tier.PREMIUM, ("gpt-5-mini", "gpt-5", "gpt-4")) == "gpt-5"
    assert suggest(Tier.PREMIUM, ("gpt-5-mini",)) == "gpt-5-mini"
    assert suggest(Tier.FAST, ()) == ""
