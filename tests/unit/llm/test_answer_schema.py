"""A model's answer is checked by the words of JSON Schema that our questions use, as jsonschema would check it."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from consolidator.context.compaction import SUMMARY_SCHEMA
from consolidator.llm.protocol import list_violations
from consolidator.memory.facts.questions import extraction_prompt, merge_question
from tests.unit.formats.sample_logs import ODD_VALUES, places, put

OPERATION = {"saying": "c1", "operation": "add", "target": None, "reason": "new"}
CITED = {"line": "3", "quote": "use pnpm"}
FACT = {
    **CITED, "about": extraction_prompt.ABOUT[0], "subject": "a", "predicate": "b", "value": "c", "sentence": "d",
    "kind": extraction_prompt.KINDS[0], "single_valued": True, "valid_from": "2026-01-01", "valid_to": None,
}  # fmt: skip
ASKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "facts": (extraction_prompt.SCHEMA, {"facts": [FACT], "again": [{"known": "K1", **CITED}]}),
    "merge": (merge_question.SCHEMA, {"operations": [OPERATION]}),
    "summary": (SUMMARY_SCHEMA, {"summary": "so", "next_steps": ["test"]}),
}


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_refused_exactly_where_jsonschema_refuses_it(name: str) -> None:
    schema, answer = ASKED[name]
    assert list(list_violations(answer, schema)) == []
    reference = Draft202012Validator(schema)
    for path in places(answer):
        for odd in ODD_VALUES.values():
            changed = put({"answer": answer}, ("answer", *path), odd)["answer"]
            assert bool(list(list_violations(changed, schema))) is not reference.is_valid(changed), (path, odd)
    for member in answer:
        rest = {key: value for key, value in answer.items() if key != member}
        assert bool(list(list_violations(rest, schema))) is not reference.is_valid(rest)
    assert list(list_violations({**answer, "more": 1}, schema)) == [("$", "'more' was unexpected")]


def test_what_is_wrong_is_named_with_its_place() -> None:
    wrong = {"operations": [OPERATION, {**OPERATION, "operation": "burn"}]}
    ((path, text),) = list_violations(wrong, merge_question.SCHEMA)
    assert path == "$.operations[1].operation"
    assert text.startswith("'burn' is not one of [")


def test_a_word_that_is_not_checked_is_refused() -> None:
    with pytest.raises(ValueError, match="pattern"):
        list(list_violations("x", {"type": "string", "pattern": "y"}))
