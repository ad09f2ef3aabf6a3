"""JSON as columns, and what a user's word looks like."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.calls.columns import MAX_LEAVES, flatten, flatten_result, unflatten, value_shape, value_words

SCALARS = st.text(max_size=5) | st.integers() | st.booleans() | st.none()
ROWS = st.lists(st.fixed_dictionaries({"no": SCALARS, "day": SCALARS}), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        ({"id": 1, "to": {"city": "Oslo"}}, {"id": [1], "to.city": ["Oslo"]}),
        ({"flights": [{"no": "A1"}, {"no": "B2"}]}, {"flights[].no": ["A1", "B2"]}),
        ({"cards": {"card_4421": {"kind": "visa"}}}, {"cards.keys[]": ["card_4421"], "cards.*.kind": ["visa"]}),
        ({"address1": "x"}, {"address1": ["x"]}),
        ({"tags": []}, {"tags[]": []}),
        ("plain", {"": ["plain"]}),
    ],
)
def test_leaves_stand_under_generalised_paths(value: Any, columns: dict[str, Any]) -> None:
    assert flatten(value) == columns


@pytest.mark.parametrize(
    ("result", "columns"),
    [
        ("src/a.py\nsrc/b.py\ntwo words", {"lines[]": ["src/a.py", "src/b.py"]}),
        ("255.0", {"": ["255.0"]}),
        ([{"type": "text", "text": '{"id": "u_1"}'}], {"id": ["u_1"]}),
        ({"ok": True, "none": None, "text": "long " * 100}, {}),
        (None, {}),
    ],
)
def test_what_a_result_offers(result: Any, columns: dict[str, Any]) -> None:
    assert flatten_result(result) == columns


@given(st.fixed_dictionaries({"id": SCALARS, "inner": st.fixed_dictionaries({"a": SCALARS}), "rows": ROWS}))
def test_columns_can_be_put_together_again(value: Any) -> None:
    assert unflatten(flatten(value).items()) == value


def test_what_cannot_be_put_together_is_none() -> None:
    assert unflatten([("a[].x", [1, 2]), ("a[].y", [1])]) is None
    assert unflatten([("a[][]", [1])]) is None


def test_large_and_deep_values_are_bounded() -> None:
    wide = {f"key{'abc'[n % 3]}": [{"x": m} for m in range(1000)] for n in range(3)}
    deep: Any = "end"
    for _ in range(10_000):
        deep = [deep]
    assert sum(map(len, flatten(wide).values())) <= MAX_LEAVES
    assert flatten(deep) == {}


@pytest.mark.parametrize(
    ("value", "look"),
    [("mia_li_3668", "a_a_9999"), ("NO6JO3", "X6"), ("src/app.py", "/.py"), ("JFK", "X3"), (7, "int"), ("12", "99")],
)
def test_the_shape_of_a_value(value: Any, look: str) -> None:
    assert value_shape(value) == look


def test_telling_words_are_taken_and_prose_is_not() -> None:
    assert value_words("Hi, my id is mia_li_3668. Fly from JFK to see src/app.py!") == [
        "mia_li_3668",
        "JFK",
        "src/app.py",
    ]
