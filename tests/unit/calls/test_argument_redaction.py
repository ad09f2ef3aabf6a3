"""What only a name beside it tells to be a secret is hidden, and what is kept of arguments is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.memory.calls.argument_redaction import redact_arguments

SECRET = "hunter2x9"


@pytest.mark.parametrize(
    "arguments",
    [
        {"user": "ann", "password": SECRET},
        {"auth": {"db_password": SECRET}},
        {"env": [{"name": "DB_PASSWORD", "value": SECRET}]},
        {"env": [{"value": SECRET, "key": "DB_PASSWORD"}]},
        {f"password={SECRET}": "a"},
        {"kind": "Secret", "data": {"mode": SECRET}},
        {"text": "x " * 2040 + f"password={SECRET}"},
    ],
)
def test_a_value_beside_a_telling_name_is_hidden(arguments: Any) -> None:
    assert SECRET not in str(redact_arguments(arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "src/app.py", "limit": 7, "token": None, "env": [{"name": "MODE", "value": "fast1"}]},
        {"password": "<your-password>", "max_tokens": "4096"},
        {"kind": "ConfigMap", "data": {"mode": "plain"}},
        "git status",
    ],
)
def test_what_holds_no_secret_is_the_same(arguments: Any) -> None:
    assert redact_arguments(arguments) == arguments


def test_what_is_kept_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(50):
        deep = {"in": deep}
    kept = redact_arguments({"long": "word " * 9000, "many": ["word " * 100] * 900, "deep": deep})
    assert len(str(kept)) < 10_000
