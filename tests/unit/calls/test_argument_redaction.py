"""What only a name beside it tells to be a secret is hidden, in columns and in words, and all else is left as it is."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.argument_diff import summary
from consolidator.memory.calls.argument_redaction import HIDDEN, Veil
from consolidator.memory.calls.columns import columns

SECRET = "hunter2x9"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"user": "ann", "password": SECRET}, "password"),
        ({"auth": {"db_password": SECRET}}, "auth.db_password"),
        ({"env": [{"name": "DB_PASSWORD", "value": SECRET}]}, "env[].value"),
        ({"env": [{"value": SECRET, "key": "DB_PASSWORD"}]}, "env[].value"),
    ],
)
def test_a_value_beside_a_telling_name_is_hidden(arguments: Any, path: str) -> None:
    assert Veil(redact).columns(columns(arguments))[path] == [HIDDEN]
    assert SECRET not in summary("login", arguments, beside=Veil(redact).beside)


def test_a_secret_that_is_a_name_is_hidden() -> None:
    hidden = Veil(redact).columns(columns({f"password={SECRET}": "a", "plain": "b"}))
    assert hidden == {"password=[redacted:password]": ["a"], "plain": ["b"]}


def test_what_holds_no_secret_is_the_same() -> None:
    given = columns({"path": "src/app.py", "limit": 7, "token": None, "env": [{"name": "MODE", "value": "fast1"}]})
    assert Veil(redact).columns(given) is given


def test_a_name_does_not_hide_a_stand_in() -> None:
    given = columns({"password": "<your-password>", "max_tokens": "4096"})
    assert Veil(redact).columns(given) is given
