"""Settings: what a deployment may set, and what it is told where that does not fit."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from consolidator.errors import UsageError
from consolidator.settings import load_settings


def test_a_variable_that_is_set_to_nothing_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLIDATOR_DATABASE_URL", "")
    monkeypatch.setenv("CONSOLIDATOR_WORKERS", "")
    settings = load_settings()
    assert settings.database_url is None
    assert settings.workers == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CONSOLIDATOR_WORKERS", "many"),
        ("CONSOLIDATOR_WORKERS", "0"),
        ("CONSOLIDATOR_TIMEZONE", "Mars/Olympus"),
        ("CONSOLIDATOR_TIMEZONE", "Europe"),
        ("CONSOLIDATOR_OPENAI_BASE_URL", "localhost:11434/v1"),
        ("CONSOLIDATOR_OPENAI_BASE_URL", "http://localhost:abc/v1"),
        ("CONSOLIDATOR_OPENAI_BASE_URL", "http:///v1"),
        ("CONSOLIDATOR_OPENAI_API_KEY", "sk-schlüssel"),
        ("CONSOLIDATOR_OPENAI_API_KEY", "sk-one\nsk-two"),
        ("CONSOLIDATOR_LOG_LEVEL", "LOUD"),
        ("CONSOLIDATOR_CLOCK", "0001-01-01T00:00"),
        ("CONSOLIDATOR_RETENTION_DAYS", "99999999999"),
        ("CONSOLIDATOR_SOURCES", "claude-code:/logs"),
        ("CONSOLIDATOR_SOURCES", '{"claude-code": "/logs"}'),
    ],
)
def test_a_value_that_does_not_fit_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=name):
        load_settings()


def test_a_clock_without_a_zone_is_in_utc_wherever_the_machine_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        for settings in ("2026-03-01T12:00", "2026-03-01T13:00+01:00"):
            monkeypatch.setenv("CONSOLIDATOR_CLOCK", settings)
            assert load_settings().clock == datetime(2026, 3, 1, 12, tzinfo=UTC)
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_sources_are_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLIDATOR_SOURCES", '["auto:/logs", "codex:/more"]')
    assert load_settings().sources == ["auto:/logs", "codex:/more"]


def test_the_address_of_the_database_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLIDATOR_DATABASE_URL", "postgresql://ada:geheim@db/consolidator")
    assert "geheim" not in repr(load_settings())


def test_a_key_from_a_file_may_end_with_a_line_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none\n")
    key = load_settings().openai_api_key
    assert key is not None
    assert key.get_secret_value() == "sk-none"


def test_a_key_that_does_not_fit_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLIDATOR_OPENAI_API_KEY", "sk-ab cd")
    with pytest.raises(UsageError) as refused:
        load_settings()
    assert "sk-ab" not in str(refused.value)
