"""A cursor is given back as it was, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.errors import InvalidCursor
from consolidator.service.encoding import decode_cursor, encode_cursor


@given(st.text(), st.text(), st.integers(min_value=-(2**62), max_value=2**62))
def test_a_position_comes_back(of: str, name: str, seq: int) -> None:
    assert decode_cursor(of, encode_cursor(of, [name, seq]), str, int) == [name, seq]
    assert decode_cursor(of, None, str, int) is None


@given(st.data())
def test_a_changed_cursor_is_refused(data: st.DataObject) -> None:
    cursor = encode_cursor("events s1", [42])
    place = data.draw(
        st.integers(min_value=0, max_value=len(cursor) - 2)
    )  # the last one may hold bits that are not used
    other = data.draw(st.sampled_from("ABCDEFabcdef019-_=!é").filter(lambda character: character != cursor[place]))
    with pytest.raises(InvalidCursor):
        decode_cursor("events s1", cursor[:place] + other + cursor[place + 1 :], int)


@given(st.text(max_size=2000))
def test_a_made_up_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor):
        decode_cursor("events s1", text, int)


def test_a_cursor_of_another_list_or_form_is_refused() -> None:
    for cursor in (
        encode_cursor("events s2", [42]),
        encode_cursor("events s1", ["42"]),
        encode_cursor("events s1", []),
    ):
        with pytest.raises(InvalidCursor):
            decode_cursor("events s1", cursor, int)
