"""What calls cost and how much a model can see, by what genai-prices carries; no network."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider


def price(model: str, *, input_tokens: int, cached_tokens: int = 0, output_tokens: int = 0) -> Decimal | None:
    """Return what a call costs in US dollars; None where nobody knows the model's price.

    `input_tokens` are all of the question's, the cached ones among them.
    """
    from genai_prices import Usage

    found = _found(model)
    if found is None:
        return None
    usage = Usage(input_tokens=input_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens)
    provider, priced = found
    with suppress(LookupError):
        told = priced.calc_price(usage, provider, genai_request_timestamp=datetime.now(UTC), auto_update_timestamp=None)
        return Decimal(told.total_price)
    return None


def tier(model: str, own: str | None) -> str | None:
    """Return "cheap" where a model costs at most half of what a session's own does, else "main"; None if not known."""
    asked = price(model, input_tokens=4000, output_tokens=1000)
    if asked is None:
        return None
    usual = price(own, input_tokens=4000, output_tokens=1000) if own and own != model else None
    return "cheap" if usual is not None and asked * 2 <= usual else "main"


def context_window(model: str) -> int | None:
    """Return how many tokens a model can see; None where nobody knows."""
    found = _found(model)
    return None if found is None else found[1].context_window


@lru_cache(maxsize=256)
def _found(model: str) -> tuple[Provider, ModelInfo] | None:
    """Return a model and who sells it; kept, since a name that nobody knows is compared with thousands."""
    from genai_prices.data_snapshot import get_snapshot

    for provider in (None, "openai"):  # its models of vectors are not found by their names alone
        with suppress(LookupError):
            return get_snapshot().find_provider_model(model, None, provider, None)
    return None
