"""Prices and context windows of models, from the data that genai-prices bundles; no network."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider


def calculate_cost(model: str, *, input_tokens: int, cached_tokens: int = 0, output_tokens: int = 0) -> Decimal | None:
    """Return the cost of a call in US dollars; None if the model's price is unknown.

    `input_tokens` include the cached ones.
    """
    from genai_prices import Usage

    entry = _find_model(model)
    if entry is None:
        return None
    usage = Usage(input_tokens=input_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens)
    provider, info = entry
    with suppress(LookupError):
        price = info.calc_price(usage, provider, genai_request_timestamp=datetime.now(UTC), auto_update_timestamp=None)
        return Decimal(price.total_price)
    return None


def price_tier(model: str, session_model: str | None) -> str | None:
    """Return "cheap" if a model costs at most half of the session's, else "main"; None if its price is unknown."""
    cost = calculate_cost(model, input_tokens=4000, output_tokens=1000)
    if cost is None:
        return None
    if not session_model or session_model == model:
        return "main"
    session_cost = calculate_cost(session_model, input_tokens=4000, output_tokens=1000)
    return "cheap" if session_cost is not None and cost * 2 <= session_cost else "main"


def context_window(model: str) -> int | None:
    """Return the context window of a model in tokens; None if it is unknown."""
    entry = _find_model(model)
    return None if entry is None else entry[1].context_window


@lru_cache(maxsize=256)
def _find_model(model: str) -> tuple[Provider, ModelInfo] | None:
    """Return a model and its provider; cached, since an unknown name is compared with thousands."""
    from genai_prices.data_snapshot import get_snapshot

    for provider in (None, "openai"):  # its embedding models are not found by name alone
        with suppress(LookupError):
            return get_snapshot().find_provider_model(model, None, provider, None)
    return None
