"""Finds what a model quotes in the words of an event, and returns what really stands there.

Models copy words, not characters: they straighten quotation marks and dashes, change white space and case, and leave
out the middle of a sentence. That much is forgiven; words are not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from consolidator.memory.text.invisible import is_invisible
from consolidator.memory.text.words import split_words

MAX_QUOTE_CHARS = 500
MAX_PARTS = 4  # around ellipses
MIN_PART_WORDS = 2  # a single word can be found anywhere
_QUOTATION_MARKS = frozenset("\"'`´‘’‚‛“”„‟‹›«»′″‵‶＂＇「」『』")
_DASHES = frozenset("-‐‑‒–—―−﹘﹣－")
_ELLIPSIS = re.compile(r"\s*(?:\[\s*(?:…|\.{3,})\s*\]|\(\s*(?:…|\.{3,})\s*\)|…|\.{3,})\s*")
_ELLIPSES_AT_ENDS = re.compile(rf"^(?:{_ELLIPSIS.pattern})+|(?:{_ELLIPSIS.pattern})+$")
_ESCAPE = re.compile(r"\\([\"'/nrt\\])")
_OUTER = " \t\n\"'`“”‘’„«».,;:!?"


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text as quotes are compared with it, and where each of its characters comes from."""

    text: str
    origins: tuple[int, ...]  # position in the original text, for each character

    def find(self, folded_quote: str, start: int = 0) -> tuple[int, int] | None:
        """Return where a folded quote begins and ends in the folded text; at the bounds of words, if it can."""
        first = None
        position = self.text.find(folded_quote, start)
        while position >= 0:
            end = position + len(folded_quote)
            if not self._is_inside_word(position) and not self._is_inside_word(end):
                return position, end
            first = first or (position, end)
            position = self.text.find(folded_quote, position + 1)
        return first

    def original_span(self, start: int, end: int) -> slice:
        """Return the place in the original text of a place in the folded text that is not empty."""
        return slice(self.origins[start], self.origins[end - 1] + 1)

    def _is_inside_word(self, position: int) -> bool:
        around = self.text[max(position - 1, 0) : position + 1]
        return 0 < position < len(self.text) and around.isalnum()


def fold_text(text: str) -> FoldedText:
    """Return a text in which case, white space, quotation marks and dashes are all of one kind."""
    chars: list[str] = []
    origins: list[int] = []
    for position, char in _fold_chars(text):
        last = chars[-1] if chars else " "
        if char == " " and last in " -":
            continue
        if char == last and char in "'-":
            continue
        if char == "-" and chars and last == " ":  # "a - b" is "a-b"
            chars.pop()
            origins.pop()
        chars.append(char)
        origins.append(position)
    if chars and chars[-1] == " ":
        chars.pop()
        origins.pop()
    return FoldedText("".join(chars), tuple(origins))


def _fold_chars(text: str) -> Iterator[tuple[int, str]]:
    for position, char in enumerate(text):
        if char in _QUOTATION_MARKS:
            yield position, "'"
        elif char in _DASHES:
            yield position, "-"
        elif char.isspace():
            yield position, " "
        elif not is_invisible(char):
            for part in unicodedata.normalize("NFKD", char).casefold():
                yield position, part


def find_quote(quote: str, pieces: Sequence[str]) -> tuple[str, ...]:
    """Return what a quote names in the shown pieces of a text, verbatim: one passage, or one for each part of it.

    The parts around an ellipsis must stand in this order; an ellipsis at an end only says that more stands there.
    Nothing where it is not there.
    """
    folded_pieces = [fold_text(piece) for piece in pieces]
    # Models copy some escapes of a JSON string as they are shown.
    unescaped = _ESCAPE.sub(lambda escape: " " if escape[1] in "nrt" else escape[1], quote)
    forms = dict.fromkeys([quote, unescaped])
    forms |= dict.fromkeys(form.strip(_OUTER) for form in list(forms))
    forms |= dict.fromkeys(_strip_ellipses(form) for form in list(forms))
    for form in forms:
        if (passage := _find_passage(form, pieces, folded_pieces)) is not None:
            return (passage,)
    for form in forms:
        if passages := _find_parts(form, pieces, folded_pieces):
            return passages
    return ()


def _strip_ellipses(quote: str) -> str:
    """Return a quote without the ellipses, and the marks beside them, at its ends."""
    while (stripped := _ELLIPSES_AT_ENDS.sub("", quote).strip(_OUTER)) != quote:
        quote = stripped
    return quote


def _find_passage(quote: str, pieces: Sequence[str], folded_pieces: Sequence[FoldedText]) -> str | None:
    folded = fold_text(quote).text.strip(" -")
    if not folded:
        return None
    for piece, folded_piece in zip(pieces, folded_pieces, strict=True):
        place = folded_piece.find(folded)
        if place is not None:
            passage = piece[folded_piece.original_span(*place)]
            if set(split_words(passage)) & set(split_words(piece)):  # a whole word of it
                return passage
    return None


def _find_parts(quote: str, pieces: Sequence[str], folded_pieces: Sequence[FoldedText]) -> tuple[str, ...]:
    """Return the passages that the parts around ellipses name, or the whole passage where that is short."""
    parts = [part for part in _ELLIPSIS.split(quote) if part.strip()]
    if not 2 <= len(parts) <= MAX_PARTS or any(len(split_words(part)) < MIN_PART_WORDS for part in parts):
        return ()
    places: list[tuple[int, slice]] = []  # the piece, and where in it
    piece_number, start = 0, 0
    for part in parts:
        folded = fold_text(part).text.strip(" -")
        place = folded_pieces[piece_number].find(folded, start) if folded else None
        while place is None and folded and piece_number + 1 < len(pieces):
            piece_number, start = piece_number + 1, 0
            place = folded_pieces[piece_number].find(folded)
        if place is None:
            return ()
        start = place[1]
        places.append((piece_number, folded_pieces[piece_number].original_span(*place)))
    (first_piece, first), (last_piece, last) = places[0], places[-1]
    if first_piece == last_piece and last.stop - first.start <= MAX_QUOTE_CHARS:
        return (pieces[first_piece][first.start : last.stop],)
    return tuple(pieces[number][span] for number, span in places)
