"""Settings: what a deployment may set, and what it is told where that does not fit."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from consolidator.errors import UsageError
from consolidator.settings import config_path, describe_unknown_settings, list_settings, load_settings


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


def write_config(patch: pytest.MonkeyPatch, folder: Path, text: str) -> Path:
    """Write the configuration file below a folder of configurations, and return its path."""
    patch.setenv("XDG_CONFIG_HOME", str(folder))
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_environment_goes_before_the_file_and_the_file_before_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_config(
        monkeypatch,
        tmp_path,
        'workers = 7\n\nretention_days = 9\nopenai_base_url = "http://file/v1"\nmodel = "small"\n',
    )
    monkeypatch.setenv("CONSOLIDATOR_RETENTION_DAYS", "40")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://u:sesame@environment/v1")
    monkeypatch.setenv("CONSOLIDATOR_MODEL", "")  # set to nothing is not set
    settings = load_settings()
    assert (settings.workers, settings.retention_days, settings.model, settings.min_support) == (7, 40, "small", 3)
    assert settings.openai_base_url == "http://u:sesame@environment/v1"
    origins = {row.name: (row.source, row.place) for row in list_settings()}
    assert origins["workers"] == ("file", f"{path}:1")
    assert origins["model"] == ("file", f"{path}:5")
    assert origins["retention_days"] == ("environment", "CONSOLIDATOR_RETENTION_DAYS")
    assert origins["openai_base_url"] == ("environment", "OPENAI_BASE_URL")
    assert origins["min_support"] == ("default", None)


def test_the_file_is_in_the_home_unless_another_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_path() == tmp_path / ".config/consolidator/config.toml"
    assert load_settings().workers == 2  # without a file
    (tmp_path / "other.toml").write_text('home = "~/logs"')
    monkeypatch.setenv("CONSOLIDATOR_CONFIG", "~/other.toml")
    assert load_settings().home == tmp_path / "logs"
    monkeypatch.setenv("CONSOLIDATOR_CONFIG", "~/none.toml")
    with pytest.raises(UsageError, match=r"none\.toml"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("model = 'm'\nworkers = 0", r":2: workers"),
        ("workers = 'many'", r":1: workers"),
        ("sources = 'codex:/logs'", r":1: sources"),
        ("workers = \n", r"line 1"),
        ("openai_api_key = 'sk-ab cd'", r":1: openai_api_key"),
        ("model = '\udcff'", r"UTF-8"),
    ],
)
def test_a_value_of_the_file_that_does_not_fit_is_named_with_its_line(
    text: str, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_config(monkeypatch, tmp_path, "")
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=rf"config\.toml.*{place}") as refused:
        load_settings()
    assert "sk-ab" not in str(refused.value)


def test_a_name_that_is_no_setting_is_told_with_what_was_probably_meant(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_config(monkeypatch, tmp_path, "workers = 3\nretention-day = 9\nzebra = 1\n[model]\nname = 'x'\n")
    monkeypatch.setenv("CONSOLIDATOR_WORKER", "3")
    monkeypatch.setenv("CONSOLIDATOR_TEST_DATA", "/nowhere")
    assert describe_unknown_settings() == [
        "CONSOLIDATOR_WORKER is no setting; did you mean CONSOLIDATOR_WORKERS?",
        f"{path}:2: retention-day is no setting; did you mean retention_days?",
        f"{path}:3: zebra is no setting; `consolidator config` lists them",
    ]


def test_a_setting_of_an_earlier_version_is_answered_with_what_holds_now(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write_config(monkeypatch, tmp_path, "max-attempts = 9\nmax_attempts = 9\n")
    monkeypatch.setenv("CONSOLIDATOR_CHUNK_TOKENS", "500")
    assert describe_unknown_settings() == [
        "CONSOLIDATOR_CHUNK_TOKENS is no setting any more: it is always 2400",
        f"{path}:1: max-attempts is no setting any more: it is always 3",
        f"{path}:2: max_attempts is no setting any more: it is always 3",
    ]


def test_an_object_is_read_from_a_variable_and_a_bad_one_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLIDATOR_WEBHOOKS", '{"gate": "https://hooks.example/secret"}')
    assert load_settings().webhooks["gate"].get_secret_value() == "https://hooks.example/secret"
    monkeypatch.setenv("CONSOLIDATOR_WEBHOOKS", "{secret")
    with pytest.raises(UsageError, match="CONSOLIDATOR_WEBHOOKS: not a JSON object") as refused:
        load_settings()
    assert "secret" not in str(refused.value)
