"""What only a name beside it tells to be a secret is hidden, in columns and in words, and all else is left as it is."""

from __future__ import annotations

from typing import Any

import pytest

from consolidator.llm.redaction.redact import redact, redact_json
from consolidator.memory.calls.argument_redaction import REDACTED_SECRET, ArgumentRedactor, redact_arguments
from consolidator.memory.calls.argument_summary import summarize_arguments
from consolidator.memory.calls.columns import flatten

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
    assert ArgumentRedactor(redact).redact_columns(flatten(arguments))[path] == [REDACTED_SECRET]
    assert SECRET not in summarize_arguments("login", arguments, redact_named=ArgumentRedactor(redact).redact_named)


def test_a_secret_that_is_a_name_is_hidden() -> None:
    hidden = ArgumentRedactor(redact).redact_columns(flatten({f"password={SECRET}": "a", "plain": "b"}))
    assert hidden == {"password=[redacted:password]": ["a"], "plain": ["b"]}


def test_what_holds_no_secret_is_the_same() -> None:
    columns = flatten({"path": "src/app.py", "limit": 7, "token": None, "env": [{"name": "MODE", "value": "fast1"}]})
    assert ArgumentRedactor(redact).redact_columns(columns) is columns


def test_a_name_does_not_hide_a_stand_in() -> None:
    columns = flatten({"password": "<your-password>", "max_tokens": "4096"})
    assert ArgumentRedactor(redact).redact_columns(columns) is columns


def test_the_data_of_a_secret_is_hidden_and_that_of_other_kinds_is_left() -> None:
    secret = flatten({"object": {"kind": "Secret", "data": {"mode": "plain"}, "type": "Opaque"}})
    hidden = ArgumentRedactor(redact).redact_columns(secret)
    assert hidden["object.data.mode"] == [REDACTED_SECRET]
    assert hidden["object.type"] == ["Opaque"]
    config = flatten({"kind": "ConfigMap", "data": {"mode": "plain"}})
    assert ArgumentRedactor(redact).redact_columns(config) is config
    assert redact_arguments({"kind": "Secret", "data": {"mode": "plain"}})["data"] == {"mode": REDACTED_SECRET}


def test_arguments_are_redacted_as_the_nights_redact_them() -> None:
    for arguments in (
        {"auth": {"password": SECRET}},
        {"command": "mysql -porchid"},
        {"headers": ["Cookie", f"sid={SECRET}"]},
    ):
        assert redact_arguments(arguments) == redact_json(arguments)
        assert redact_arguments(redact_json(arguments)) == redact_json(arguments)


def test_long_names_of_arguments_are_cut() -> None:
    arguments = {f"{number}{'k' * 5000}": number for number in range(60)}
    assert len(str(redact_arguments(arguments))) < 8192
