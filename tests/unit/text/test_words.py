"""Words to search by, in any language."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consolidator.memory.text.words import LONGEST, words


def test_case_accents_and_light_endings_are_folded() -> None:
    assert words("Ada's CITIES: Größe, Élan, ёлки") == words("adas city grosse elan елки")
    assert words("running planned tests") == ["run", "plan", "test"]
    assert words("is this his bus") == ["is", "this", "his", "bus"]


def test_names_are_found_whole_and_by_their_parts() -> None:
    for name in ("parseUserName", "src/parse_user_name.py", "ParseUserNAME"):
        assert set(words("parse user name")) <= set(words(name))
    assert words("parseusername")[0] in words("parseUserName")


def test_scripts_without_spaces_are_found_by_pairs() -> None:
    assert {"东京", "住在"} <= set(words("我住在东京"))
    assert set(words("京")) <= set(words("我住在东京"))
    assert set(words("วโลก")) <= set(words("สวัสดีชาวโลก"))
    assert set(words("서울")) <= set(words("서울에서 일해요"))


def test_vowel_signs_do_not_cut_a_word() -> None:
    assert words("हिन्दी में") == ["हिन्दी", "में"]
    assert words("كِتَاب") == words("كتاب")


@given(st.text())
def test_any_text_has_words_that_are_short_and_the_same_when_split_again(text: str) -> None:
    found = words(text)
    assert all(0 < len(word) <= LONGEST for word in found)
    assert words(text) == found
