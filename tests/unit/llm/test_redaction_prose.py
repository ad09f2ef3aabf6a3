"""Credentials in sentences are hidden; what only sounds like one stays."""

from __future__ import annotations

import pytest

from consolidator.llm.redaction.redact import redact

VALUE = "fl_stg_T9x2LmQ8vR4nKc7WbZ1yHd63"
SENTENCES = [
    f"The import token is {VALUE}.",
    f"Load it, the token is still {VALUE}.",
    f"my password was {VALUE}, I think",
    f"The API key is: `{VALUE}`",
    f"Their secret is now '{VALUE}'!",
]
HARMLESS = [
    "The token is expired.",
    "The password is required by RFC 6749.",
    "My key is to keep it simple in 2026.",
    "The token is in ~/.config/tool2/token",
    "The secret is https://vault.example/v1",
    "Their secret is well-kept.",
    "The primary key is user_id_2.",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_a_credential_in_a_sentence_is_hidden(text: str) -> None:
    hidden = redact(text)
    assert VALUE not in hidden
    assert "[redacted:" in hidden
    assert redact(hidden) == hidden


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_sounds_like_one_is_left(text: str) -> None:
    assert redact(text) == text
