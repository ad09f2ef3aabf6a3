"""What calls cost, by the prices that genai-prices carries; no network."""

from __future__ import annotations

from decimal import Decimal

from genai_prices import Usage, calc_price


def price(model: str, *, input_tokens: int, cached_tokens: int = 0, output_tokens: int = 0) -> Decimal | None:
    """Return what a call costs in US dollars; None where nobody knows the model's price.

    `input_tokens` are all of the question's, the cached ones among them.
    """
    usage = Usage(input_tokens=input_tokens, cache_read_tokens=cached_tokens, output_tokens=output_tokens)
    try:
        return Decimal(calc_price(usage, model).total_price)
    except LookupError:
        return None
