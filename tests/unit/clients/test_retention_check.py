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
        ("gemini", '{"general": {"sessionRetention": {"maxAge": "24h"}}}', True),
        ("gemini", '{"general": {"sessionRetention": {"maxAge": "1d", "enabled": false}}}', False),
        ("gemini", '{"general": {"sessionRetention": {"maxAge": "1w"}}}', False),
        ("gemini", '{"general": {"sessionRetention": 1}}', False),
    ],
)
def test_logs_that_are_deleted_too_soon_are_warned_of(name: str, text: str | None, warns: bool) -> None:
    assert [check.passed for check in _check_retention(name, text)] == [False] * warns


def test_a_projects_settings_count_more_than_the_persons() -> None:
    short, long = '{"cleanupPeriodDays": 1}', '{"cleanupPeriodDays": 30}'
    assert [check.passed for check in _check_retention("claude-code", "{}", short)] == [False]
    assert _check_retention("claude-code", long, short) == []
