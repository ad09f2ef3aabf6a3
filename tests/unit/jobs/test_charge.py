"""What a model's call cost: what was reported, else the price of its tokens, of which a batch has a share."""

from __future__ import annotations

from decimal import Decimal

import pytest

from consolidator.jobs.model.calls import charge
from consolidator.llm.client import ModelReply
from consolidator.llm.prices import calculate_cost

MODEL = "gpt-4o-mini"
PRICE = calculate_cost(MODEL, input_tokens=9000, cached_tokens=1000, output_tokens=300)


@pytest.mark.parametrize(
    ("model", "reported", "share", "cost"),
    [
        (MODEL, None, 1, PRICE),
        (MODEL, None, 2, PRICE and PRICE / 2),
        (MODEL, Decimal("0.04"), 1, Decimal("0.04")),
        (MODEL, Decimal("0.04"), 2, Decimal("0.04")),  # what a provider reports is what it asks
        ("nobody/knows-its-price", None, 2, None),
    ],
)
def test_a_reported_cost_is_charged_as_it_is(
    model: str, reported: Decimal | None, share: int, cost: Decimal | None
) -> None:
    used = charge(ModelReply("yes", None, "stop", model, 9000, 1000, 300, reported), share=share)
    assert (used.cost, used.input_tokens, used.cached_tokens, used.output_tokens) == (cost, 9000, 1000, 300)
