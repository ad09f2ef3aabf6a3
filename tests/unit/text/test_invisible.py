"""Characters that nobody sees are not remembered; those that shape what is seen stay."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consolidator.memory.facts.quotes import find_quote
from consolidator.memory.text.invisible import (
    escape_invisible,
    mark_invisible,
    strip_invisible,
    strip_invisible_in,
)

HIDDEN = {
    "Unicode tags": "ab\U000e0069\U000e0067\U000e006e\U000e007fc",
    "a language tag": "ab\U000e0001\U000e0065\U000e006ec",
    "zero-width space": "a\u200bbc",
    "word joiner": "ab\u2060c",
    "byte order mark": "\ufeffabc",
    "joiners between Latin letters": "a\u200db\u200cc",
    "a row of joiners as bits": "ab\u200b\u200c\u200b\u200d\u200cc",
    "bidi override": "a\u202eb\u202cc",
    "bidi isolate": "\u2066abc\u2069",
    "left-to-right mark": "a\u200eb\u200fc\u061c",
    "soft hyphen": "a\u00adb\u00adc",
    "combining grapheme joiner": "a\u034fbc",
    "Mongolian vowel separator": "a\u180ebc",
    "Hangul fillers": "a\u3164b\u115f\u1160\uffa0c",
    "blank of Braille": "ab\u2800c",
    "invisible operators": "a\u2061b\u2062\u2063\u2064c",
    "deprecated format controls": "a\u206ab\u206fc",
    "interlinear annotation": "a\ufff9b\ufffa\ufffbc",
    "variation selectors as bytes": "a\ufe00\ufe03\ufe0f\U000e0100\U000e01efbc",
    "variation selectors behind an emoji": "abc\U0001f600\ufe01\ufe0e\ufe00",
    "musical controls": "a\U0001d173bc\U0001d17a",
    "shorthand controls": "a\U0001bca0bc",
    "noncharacters": "a\ufdd0bc\uffff",
    "a lone surrogate": "ab\ud800c",
    "colours": "\x1b[31;1ma\x1b[0mbc",
    "a terminal's title": "\x1b]0;rm -rf\x07abc",
    "a hyperlink": "\x1b]8;;http://x.example\x1b\\abc\x1b]8;;\x1b\\",
    "8-bit control sequence": "\x9b2Jabc",
    "a device control string": "\x1bPq#0;2\x1b\\abc",
    "other escapes": "\x1bca\x1b(Bbc\x1b7",
    "a bare ESC": "abc\x1b",
    "bell, backspace, NUL": "a\x07b\x08\x00c",
    "C1 controls": "a\x81b\x8dc\x9f",
}
SEEN = {
    "a family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "an emoji with skin and profession": "\U0001f469\U0001f3fd\u200d\U0001f4bb",
    "a rainbow flag": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "a heart as emoji, as text": "\u2764\ufe0f \u2764\ufe0e",
    "a keycap": "1\ufe0f\u20e3",
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "Hindi": "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937",
    "Sinhala": "\u0dc1\u0dca\u200d\u0dbb\u0dd3",
    "Arabic": "\u0645\u0631\u062d\u0628\u0627",
    "Hebrew, Thai, Han, Hangul": "\u05e9\u05dc\u05d5\u05dd \u0e2a\u0e27 \u4f60\u597d \ud55c\uad6d",
    "accents": "e\u0301a\u0308 na\u00efve",
    "lines and tabs": "a\n\tb\n",
}  # fmt: skip


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_what_nobody_sees_is_taken_out(text: str) -> None:
    assert strip_invisible(text).replace("\U0001f600", "") == "abc"
    assert strip_invisible_in({text: [text, {"x": (text, 1, None)}]}) == {
        strip_invisible(text): [strip_invisible(text), {"x": [strip_invisible(text), 1, None]}]
    }


@pytest.mark.parametrize("text", SEEN.values(), ids=SEEN)
def test_what_shapes_what_is_seen_stays(text: str) -> None:
    assert strip_invisible(text) == text


def test_the_flags_that_hide_words_are_plain_flags() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    assert strip_invisible(f"\U0001f3f4{hidden}\U000e007f!") == "\U0001f3f4!"


@pytest.mark.parametrize("text", ["a\r\nb", "a\rb", "a\u2028b", "a\x85b"])
def test_line_breaks_of_every_kind_are_line_breaks(text: str) -> None:
    assert strip_invisible(text) == "a\nb"


@given(st.text())
@settings(deadline=None)
def test_it_is_done_once_and_leaves_no_control(text: str) -> None:
    once = strip_invisible(text)
    assert strip_invisible(once) == once
    assert not set(once) & {chr(code) for code in [*range(9), *range(11, 32), *range(127, 160), 0x200B, 0x202E, 0xAD]}
    assert json.loads(escape_invisible(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_a_log_is_shown_on_a_terminal_with_marks(text: str) -> None:
    shown = mark_invisible(text)
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert escape_invisible(text).isascii() or "\x1b" not in escape_invisible(text)


@pytest.mark.parametrize("text", [HIDDEN["zero-width space"], HIDDEN["Unicode tags"], HIDDEN["soft hyphen"]])
def test_a_quote_is_found_with_and_without_them(text: str) -> None:
    whole = f"I like {text} best"
    assert find_quote("I like abc best", [strip_invisible(whole)]) == ("I like abc best",)
    assert find_quote(whole, [strip_invisible(whole)]) == ("I like abc best",)


@pytest.mark.parametrize("code", range(128))
def test_a_character_of_ascii_is_treated_alike_beside_others(code: int) -> None:
    text = f"a{chr(code)}b"
    assert strip_invisible(f"{text}é") == f"{strip_invisible(text)}é"
