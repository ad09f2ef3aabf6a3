"""Counts tokens: exactly where tiktoken's vocabulary lies on this machine, else by an estimate that is never too low.

tiktoken downloads a vocabulary at its first use, with no time-out; nothing here makes it do so.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from functools import lru_cache
from pathlib import Path

import tiktoken

log = logging.getLogger("consolidator.llm")
_VOCABULARY = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_ENCODING = "o200k_base"
_PIECE = 4096  # characters encoded at once: tiktoken is quadratic in long runs without white space


def count_tokens(text: str) -> int:
    """Return how many tokens a text has, or a little more."""
    encoding = _encoding()
    if encoding is None:
        return estimate(text)
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)


def is_exact() -> bool:
    """Tell whether tokens are counted, not estimated."""
    return _encoding() is not None


_counted: dict[tuple[int, int], int] = {}
_MOST_COUNTED = 200_000


def counted(text: str) -> int:
    """Return `count_tokens` of a text, remembered: a context is counted again at every step of its session."""
    key = (hash(text), len(text))
    found = _counted.get(key)
    if found is None:
        if len(_counted) >= _MOST_COUNTED:
            _counted.clear()
        found = _counted[key] = count_tokens(text)
    return found


def estimate(text: str) -> int:
    """Return an over-estimate: a token for every three ASCII characters begun, and one for every byte of others.

    English prose has about four characters a token, code three; a token never holds less than a byte.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    ascii_only = sum(map(str.isascii, text)) if size != len(text) else size
    return -(-ascii_only // 3) + (size - ascii_only)


@lru_cache(maxsize=1)
def _encoding() -> tiktoken.Encoding | None:
    """Return the vocabulary if it is on this machine."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    name = hashlib.sha1(_VOCABULARY.encode(), usedforsecurity=False).hexdigest()
    cached = Path(folder) / name
    if folder and cached.is_file() and _whole(cached):
        return tiktoken.get_encoding(_ENCODING)
    log.info("tokens are estimated (some more than there are): tiktoken's vocabulary is not in %s", folder)
    return None


def _whole(path: Path) -> bool:
    """Tell whether a vocabulary is what tiktoken expects: it would download anything else anew."""
    expected = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
    return hashlib.sha256(path.read_bytes()).hexdigest() == expected
