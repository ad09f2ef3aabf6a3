"""The token of the HTTP interface: one for a data directory, whoever makes it and however often that is cut short."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from consolidator.service.credentials import TOKEN_FILE, load_token


def test_a_token_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    token = load_token(home)
    assert len(token) >= 32
    assert load_token(home) == token
    assert (home / TOKEN_FILE).read_text() == token + "\n"
    assert (home / TOKEN_FILE).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.iterdir()] == [TOKEN_FILE]


@pytest.mark.parametrize("left", ["", "\n"])
def test_what_a_crash_left_empty_is_no_token(tmp_path: Path, left: str) -> None:
    (tmp_path / TOKEN_FILE).write_text(left)
    token = load_token(tmp_path)
    assert len(token) >= 32
    assert load_token(tmp_path) == token
    assert (tmp_path / TOKEN_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("left", [None, ""])
def test_who_comes_second_takes_the_token_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str | None
) -> None:
    if left is not None:
        (tmp_path / TOKEN_FILE).write_text(left)
    token_urlsafe, first = secrets.token_urlsafe, []

    def overtaken(size: int) -> str:
        monkeypatch.setattr(secrets, "token_urlsafe", token_urlsafe)
        first.append(load_token(tmp_path))  # another process, from its beginning to its end
        return token_urlsafe(size)

    monkeypatch.setattr(secrets, "token_urlsafe", overtaken)
    assert [load_token(tmp_path)] == first
    assert (tmp_path / TOKEN_FILE).read_text().split() == first
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN_FILE]


def test_a_token_that_is_there_is_only_read(tmp_path: Path) -> None:
    (tmp_path / TOKEN_FILE).write_text("theirs\n")
    (tmp_path / TOKEN_FILE).chmod(0o400)
    assert load_token(tmp_path) == "theirs"
