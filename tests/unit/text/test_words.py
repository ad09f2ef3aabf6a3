"""Words to search by, in any language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.text.words import MAX_WORD_CHARS, split_words


def test_case_accents_and_light_endings_are_folded() -> None:
    assert split_words("Ada's CITIES: Größe, Élan, ёлки") == split_words("adas city grosse elan елки")
    assert split_words("running planned tests") == ["run", "plan", "test"]
    assert split_words("is this his bus") == ["is", "this", "his", "bus"]


def test_names_are_found_whole_and_by_their_parts() -> None:
    for name in ("parseUserName", "src/parse_user_name.py", "ParseUserNAME"):
        assert set(split_words("parse user name")) <= set(split_words(name))
    assert split_words("parseusername")[0] in split_words("parseUserName")


def test_scripts_without_spaces_are_found_by_pairs() -> None:
    assert {"东京", "住在"} <= set(split_words("我住在东京"))
    assert set(split_words("京")) <= set(split_words("我住在东京"))
    assert set(split_words("วโลก")) <= set(split_words("สวัสดีชาวโลก"))
    assert set(split_words("서울")) <= set(split_words("서울에서 일해요"))


def test_vowel_signs_do_not_cut_a_word() -> None:
    assert split_words("हिन्दी में") == ["हिन्दी", "में"]
    assert split_words("كِتَاب") == split_words("كتاب")


@given(st.text())
def test_any_text_has_words_that_are_short_and_the_same_when_split_again(text: str) -> None:
    words = split_words(text)
    assert all(0 < len(word) <= MAX_WORD_CHARS for word in words)
    assert split_words(text) == words


@pytest.mark.parametrize("text", ["", "it's the userController's x_y2", "HTTPServer don't __init__ 3.14", "a-b/c\te"])
def test_a_text_of_ascii_has_the_same_words_beside_others(text: str) -> None:
    assert split_words(f"{text} é") == [*split_words(text), "e"]
