"""A rate of model calls as a number of calls in a window: never more than the rate, and spread over the minute."""

from __future__ import annotations

import pytest

from consolidator.errors import UsageError
from consolidator.jobs.engine.dbos_process import WINDOW_SECONDS, limiter
from consolidator.settings import load_settings


@pytest.mark.parametrize("rate", [1, 7, 29, 30, 59, 60, 61, 100, 3_000, 1_000_000])
def test_calls_in_a_window_are_the_rate(rate: int) -> None:
    calls, seconds = limiter(rate)
    assert calls >= 1
    assert calls / seconds == pytest.approx(rate / 60)
    assert seconds < 2 * WINDOW_SECONDS or calls == 1


def test_a_rate_without_its_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLIDATOR_MODEL_CALLS_PER_MINUTE", "60")
    with pytest.raises(UsageError, match="CONSOLIDATOR_NIGHT_ENGINE=dbos"):
        load_settings()
