"""An agent that deletes its logs before they are imported is warned of."""

from __future__ import annotations

import pytest

from consolidator.service.clients.checks import _check_retention


@pytest.mark.parametrize(
    ("name", "text", "warns"),
    [
        ("claude-code", '{"cleanupPeriodDays": 1}', True),
        ("claude-code", '{"cleanupPeriodDays": 0}', True),
        ("claude-code", '{"cleanupPeriodDays": 30}', False),
        ("claude-code", "{}", False),
        ("claude-code", "{broken", False),
        ("claude-code", None, False),
        ("codex", '{"cleanupPeriodDays": 1}', False),
    ],
)
def test_logs_that_are_deleted_too_soon_are_warned_of(name: str, text: str | None, warns: bool) -> None:
    assert [check.passed for check in _check_retention(name, text)] == [False] * warns
