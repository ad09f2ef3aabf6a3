"""Answers are made from rows: types from the row, descriptions from the comments on its columns and fields."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from consolidator.api.call import to_document
from consolidator.api.routes.memory import Fact, RememberedFact, Solution
from consolidator.api.schemas import Session
from consolidator.database.schema import describe_columns


def described(answer: Any) -> dict[str, str | None]:
    return {name: field.get("description") for name, field in answer.model_json_schema()["properties"].items()}


def test_a_field_is_described_by_the_comment_on_its_column() -> None:
    assert described(Fact)["level"] == "peer | project | agent: whom it belongs to"
    assert described(RememberedFact)["known"] == "whether memory believed it before"


def test_a_comment_may_stand_on_the_line_before_its_column() -> None:
    assert describe_columns("session")["settled_to"].startswith("nothing up to here is open")
    assert described(Session)["settled_to"] == describe_columns("session")["settled_to"]


def test_what_only_people_are_shown_is_no_field_of_an_answer() -> None:
    assert "withheld" not in described(Solution)
    assert "body" in described(Solution)


def test_an_amount_is_a_plain_number_in_every_answer() -> None:
    for amount, text in ((Decimal("0E-7"), "0.0000000"), (Decimal("1E-7"), "0.0000001"), (Decimal("2.50"), "2.50")):
        assert to_document({"cost": amount}) == f'{{"cost":"{text}"}}'
