"""The JSON text that is written and hashed in one go is the one that the hash chain is checked against."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.database.jsonb import dumps, dumps_canonical
from consolidator.models.payload import EventType
from consolidator.store.log.seals import canonical_json, hash_canonical, hash_content

_TEXTS = st.text(st.characters(exclude_categories=[]) | st.sampled_from("\x00\ud800\ue000\\/\"'é1eE+-"), max_size=8)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | _TEXTS | st.sampled_from([1e22, -0.0, 1e-7, 10**30])
_NAMES = _TEXTS | st.integers() | st.booleans()
_TREES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_NAMES, _TREES, max_size=5))
def test_a_canonical_text_is_that_of_the_value_that_jsonb_holds(value: dict[Any, Any]) -> None:
    text = dumps_canonical(value)
    if text is not None:
        assert text == canonical_json(json.loads(dumps(value)))
        columns = (EventType.TOOL_CALL.value, "täsk", None)
        assert hash_canonical(*columns, text, "user:cli") == hash_content(*columns, dumps(value), "user:cli")
        assert hash_canonical(*columns, text) == hash_content(*columns, dumps(value))


@pytest.mark.parametrize(
    "value", [{1: 2, 10: 3}, {"a": 1e22}, {"a": [-0.0]}, {"a": "\ud800"}, {"a": "\x00"}, {"a": (1,)}, {"a": Decimal(1)}]
)
def test_a_value_that_jsonb_changes_has_no_canonical_text(value: dict[Any, Any]) -> None:
    assert dumps_canonical(value) is None


def test_a_plain_value_has_a_canonical_text() -> None:
    assert dumps_canonical({"b": [1, 0.5, None], "a": {"é": True}}) == '{"a":{"é":true},"b":[1,0.5,null]}'


def test_a_tree_that_is_too_deep_has_no_canonical_text() -> None:
    tree: Any = []
    for _ in range(100_000):
        tree = [tree]
    assert dumps_canonical({"tree": tree}) is None
