"""Splits a text of any language into words to search by: folded and stemmed; bigrams where no spaces are.

Words of Latin letters are stemmed by Snowball's English stemmer (Porter 2), whatever their language: wrong for some
words, but in the same way in documents and queries. After a change here raise `INDEX_VERSION`: the next night rebuilds
the index.
"""

from __future__ import annotations

import hashlib
import re
import sys
import threading
import unicodedata
from collections import Counter
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from consolidator.llm.patterns import lazy_regex

INDEX_VERSION = 2  # of the words below, and of the texts of documents that are indexed
MAX_WORD_CHARS = 40  # a longer word (a hash, a key) is found by its beginning
# Marks that carry no meaning of their own: accents, Hebrew points, Arabic vowels. Those of Indic scripts do.
_ACCENTS = dict.fromkeys([*range(0x0300, 0x0370), *range(0x0591, 0x05C8), *range(0x064B, 0x0660), 0x0670])


def _combining_marks() -> str:
    """Return the vowel signs and marks that are part of a word, as Indic and Arabic scripts have them."""
    chars = (chr(point) for point in range(0x0370, 0xABFF))
    return "".join(char for char in chars if unicodedata.category(char) in ("Mn", "Mc"))


# Scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer, kana, Han; and Hangul, whose long words are
# found by their parts.
_UNSPACED = "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_UNSPACED += "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_ASCII_WORD = lazy_regex(r"[A-Za-z0-9]+")  # what the other finds in a text of ASCII alone
_SCRIPT_RUN = lazy_regex(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = lazy_regex(rf"[{_UNSPACED}]")
_HAN = lazy_regex("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_CAMEL_PART = lazy_regex(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])")
_APOSTROPHE = lazy_regex(r"(?<=\w)['’ʼ](?=(?:s|t|re|ve|ll|d|m)\b)", re.IGNORECASE)
_LATIN = lazy_regex(r"[a-z]+")


@cache
def _compile_word() -> re.Pattern[str]:
    return re.compile(rf"[^\W_](?:[^\W_]|[{re.escape(_combining_marks())}])*")


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, as they are searched."""
    if text.isascii():
        return _split_ascii(text)
    words: list[str] = []
    for word in _compile_word().findall(_APOSTROPHE.sub("", _strip_accents(text))):
        if _IS_UNSPACED.search(word):
            for run in _SCRIPT_RUN.findall(word):
                words.extend(_bigrams(run) if _IS_UNSPACED.match(run) else [_fold(run)])
        else:
            words.append(_fold(word))
            if not word.islower() and len(parts := _CAMEL_PART.findall(word)) > 1:  # userController: user, controller
                words.extend(_fold(part) for part in parts)
    return words


def _split_ascii(text: str) -> list[str]:
    """Return the words of a text without other characters: the same words, at half the cost."""
    words: list[str] = []
    for word in _ASCII_WORD.findall(_APOSTROPHE.sub("", text) if "'" in text else text):
        words.append(_fold(word))
        if not word.islower() and len(parts := _CAMEL_PART.findall(word)) > 1:
            words.extend(_fold(part) for part in parts)
    return words


def has_unspaced(text: str) -> bool:
    """Tell whether a text has characters of a script without spaces between words, or Hangul."""
    return not text.isascii() and _IS_UNSPACED.search(text) is not None


def query_words(text: str) -> list[str]:
    """Return the different words of a text that say what it is about, in order; all of them if it has only others."""
    words = dict.fromkeys(split_words(text))
    return [word for word in words if word not in STOP_WORDS] or list(words)


def count_words(text: str) -> Counter[str]:
    """Return how often a text has each word."""
    return Counter(split_words(text))


@lru_cache(maxsize=200_000)
def word_key(kind: str, word: str) -> int:
    """Return the key of a word in the index, for a kind of document: a signed 64-bit integer."""
    digest = hashlib.blake2b(f"{kind}\x1f{word}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _strip_accents(text: str) -> str:
    """Return a text without accents and compatibility forms; case stays: it marks the parts of a camelCase name."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text).translate(_ACCENTS)
    return unicodedata.normalize("NFC", decomposed)


def _bigrams(run: str) -> list[str]:
    """Return the pairs of characters of a run without spaces; Han characters also alone, since one may be a word."""
    pairs = [run[n : n + 2] for n in range(len(run) - 1)]
    return (pairs or [run]) + (_HAN.findall(run) if pairs else [])


@lru_cache(maxsize=100_000)
def _fold(word: str) -> str:
    """Return a word without case and, if it is Latin, without the endings that rarely change what it is about."""
    folded = word.casefold()[:MAX_WORD_CHARS]
    return _stem(folded) if _LATIN.fullmatch(folded) else folded


@cache
def _load_stemmers() -> Any:
    """Return Snowball's module for English alone: its package loads those of thirty languages, a tenth of a recall."""
    package, spec = ModuleType("_snowball"), find_spec("snowballstemmer")
    assert spec is not None
    package.__path__ = spec.submodule_search_locations or []
    sys.modules[package.__name__] = package
    return import_module("_snowball.english_stemmer")


class _Stemmer(threading.local):
    """Snowball's stemmer; it keeps the word at hand, so each thread has one of its own."""

    def __init__(self) -> None:
        self.stem = _load_stemmers().EnglishStemmer().stemWord


_stemmer = _Stemmer()


def _stem(word: str) -> str:
    stem: str = _stemmer.stem(word)
    return stem or word


# English words that say nothing of what a text is about: they are indexed, but not searched for.
STOP_WORDS = frozenset(
    split_words(
        "a about after again all also am an and any are as at be because been before being between both but by can "
        "could did do does doing done down during each either else few for from further had has have having he her "
        "here hers herself him himself his how i if in into is it its itself just let me more most much my myself no "
        "nor not now of off on once only or other our ours ourselves out over own please same shall she should so some "
        "such than that the their theirs them themselves then there these they this those through to too under until "
        "up upon us very was we were what when where whether which while who whom whose why will with would you your "
        "yours yourself yourselves s t re ve ll d m im ive youre youve theyre weve thats dont doesnt didnt isnt arent "
        "wasnt werent hasnt havent hadnt wont wouldnt couldnt shouldnt"
    )
)
