"""A JSON text is changed at one place and stays as it is everywhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.errors import UsageError
from consolidator.service.clients import json_text

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), PLAIN, max_size=4)
COMMENTED = """{
\t// what I like
\t"theme": "dark", /* really */
\t"hooks": {
\t\t"Stop": [
\t\t\t{"hooks": []}, // mine
\t\t],
\t},
}
"""


@given(OBJECTS, st.sampled_from([None, 1, 2, 4, "\t"]))
def test_what_is_scanned_is_what_the_text_says(value: dict[str, Any], indent: Any) -> None:
    assert json_text.parse(json.dumps(value, indent=indent)) == value


@given(OBJECTS, st.sampled_from([None, 2, "\t"]), PLAIN)
def test_a_member_is_added_and_taken_out_without_a_trace(value: dict[str, Any], indent: Any, added: Any) -> None:
    value.pop("new", None)
    text = json.dumps(value, indent=indent) + "\n"
    changed = json_text.put(text, ("new",), added)
    assert json.loads(changed) == {**value, "new": added}
    assert json_text.remove(changed, ("new",)) == text


@given(OBJECTS)
def test_any_member_can_be_taken_out(value: dict[str, Any]) -> None:
    for name in value:
        without = {key: kept for key, kept in value.items() if key != name}
        assert json.loads(json_text.remove(json.dumps(value, indent=2), (name,))) == without


def test_comments_and_trailing_commas_stay() -> None:
    changed = json_text.append(COMMENTED, ("hooks", "Stop"), {"hooks": [1]})
    changed = json_text.put(changed, ("hooks", "Start"), [2])
    expected = {"theme": "dark", "hooks": {"Stop": [{"hooks": []}, {"hooks": [1]}], "Start": [2]}}
    assert json_text.parse(changed) == expected
    for comment in ("// what I like", "/* really */", "// mine"):
        assert comment in changed
    restored = json_text.remove(json_text.remove(changed, ("hooks", "Start")), ("hooks", "Stop", 1))
    assert restored == COMMENTED


def test_missing_parts_of_a_path_are_made() -> None:
    changed = json_text.put("{}\n", ("a", "b", "c"), 1)
    assert json.loads(changed) == {"a": {"b": {"c": 1}}}
    assert json_text.remove(changed, ("a",)) == "{}\n"


@pytest.mark.parametrize("text", ["", "[", '{"a" 1}', '{"a": nope}', "{} {}", '{"a": 1', "[" * 200])
def test_what_is_no_json_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(UsageError, match="line 1"):
        json_text.parse(text)


def test_a_value_of_another_kind_is_not_overwritten() -> None:
    with pytest.raises(UsageError, match="hooks is no JSON object"):
        json_text.append('{"hooks": []}', ("hooks", "Stop"), {})
