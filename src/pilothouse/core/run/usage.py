"""What work with models costs: tokens, requests, time, lines, money. Values and their sums; one vocabulary for all.

Every source says it in its own way (some leave cached tokens out of the input, some add reasoning to the output);
whoever reads a source brings it into this form, and nothing is ever estimated here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An amount of usage, or the sum of several. Zero means none, or not told by the source."""

    input_tokens: int = 0
    """All tokens that went in, those read from a cache included."""
    output_tokens: int = 0
    """All tokens that came out, reasoning included."""
    cached_tokens: int = 0
    """The part of the input that was read from a cache."""
    cache_write_tokens: int = 0
    """The part of the input that was written to one."""
    reasoning_tokens: int = 0
    """The part of the output nobody saw."""
    premium_requests: float = 0
    api_ms: int = 0
    """Time spent in calls of a model."""
    wall_ms: int = 0
    """Time the agent ran, its tools included."""
    lines_added: int = 0
    lines_removed: int = 0
    turns: int = 0
    """Answers of a model."""
    tool_calls: int = 0
    cost: float = 0
    """In US dollars, by the price table; of priced models only."""
    unpriced_tokens: int = 0
    """Tokens of models no price is known of: while there are any, ``cost`` is a lower bound."""

    @property
    def tokens(self) -> int:
        """What a budget of tokens counts: in and out."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


NOTHING = Usage()


@dataclass(slots=True)
class Tally:
    """A growing sum, in all and by model. ``""`` stands for what no model was named for (time, lines)."""

    by_model: dict[str, Usage] = field(default_factory=dict)

    def add(self, model: str, usage: Usage) -> None:
        self.by_model[model] = self.by_model.get(model, NOTHING) + usage

    def include(self, other: Tally) -> None:
        for model, usage in other.by_model.items():
            self.add(model, usage)

    @property
    def total(self) -> Usage:
        return sum(self.by_model.values(), NOTHING)

    @property
    def unpriced(self) -> list[str]:
        """Models that no price is known of."""
        return sorted(model for model, usage in self.by_model.items() if model and usage.unpriced_tokens)


class Budget(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How much may be used. None: no limit. Time is milliseconds of agents at work, cost US dollars."""

    tokens: int | None = None
    cost: float | None = None
    time_ms: int | None = msgspec.field(default=None, name="time")
    turns: int | None = None


def exceeded(budget: Budget, used: Usage, tally: Tally | None = None) -> str:
    """What of ``budget`` is used up, as one sentence for people; empty when nothing is. ``tally`` knows the models."""
    if budget.tokens is not None and used.tokens >= budget.tokens:
        return f"{used.tokens:,} of {budget.tokens:,} tokens are used"
    if budget.turns is not None and used.turns >= budget.turns:
        return f"{used.turns:,} of {budget.turns:,} turns are used"
    if budget.time_ms is not None and used.wall_ms >= budget.time_ms:
        return f"{used.wall_ms / 1000:,.0f} of {budget.time_ms / 1000:,.0f} s are used"
    if budget.cost is not None:
        if used.cost >= budget.cost:
            return f"{used.cost:.4f} of {budget.cost:.4f} USD are used"
        if used.unpriced_tokens:
            models = ", ".join(tally.unpriced if tally is not None else ()) or "the model"
            return f"no price is known of {models}, so the cost cannot be kept; add it to the price table"
    return ""


def usage_view(tally: Tally) -> Mapping[str, object]:
    """Usage as clients see it: the sums, and the same per model. Empty when nothing was used."""
    if not tally.by_model:
        return {}
    total = tally.total
    return {
        **_plain(total),
        "totalTokens": total.tokens,
        "models": [
            {"model": model, **_plain(usage), "totalTokens": usage.tokens}
            for model, usage in sorted(tally.by_model.items())
            if model
        ],
    }


def _plain(usage: Usage) -> dict[str, object]:
    shown: dict[str, object] = msgspec.to_builtins(usage)
    return {field.encode_name: shown.get(field.encode_name, 0) for field in msgspec.structs.fields(Usage)}
