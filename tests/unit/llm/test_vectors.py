"""An embedding server's answer is taken only if its vectors can be stored."""

from __future__ import annotations

import json

import pytest

from consolidator.errors import ModelUnavailable
from consolidator.llm.client import read_vectors


@pytest.mark.parametrize("number", [1e39, float("inf"), float("nan")])
def test_a_number_that_does_not_fit_into_four_bytes_is_refused(number: float) -> None:
    with pytest.raises(ModelUnavailable):
        read_vectors(json.dumps({"data": [{"embedding": [0.5, number]}]}).encode())
