"""The tokenizer's vocabulary: read only if it is the right one, and its lack said once."""

from __future__ import annotations

import gzip
import hashlib
import logging
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken

from consolidator.llm import tokens

CONTENT = b"IQ== 0\nIg== 1\n"
TEXTS = (
    "The log keeps everything.",
    "日本語のログ",
    "I'VE seen it,\r\n\tthey'll say: 1234567 Ærøskøbing…",
    " \n \n  x",
)


@pytest.fixture(autouse=True)
def fresh_encoding() -> Iterator[None]:
    """No encoding that was read before, and none that a test leaves."""
    tokens._encoding.cache_clear()
    yield
    tokens._encoding.cache_clear()


def test_tokens_are_counted_exactly_from_the_start() -> None:
    """K5."""
    assert [tokens.count_tokens(text) for text in TEXTS[:2]] == [5, 4]


def test_a_text_has_the_tokens_that_tiktoken_finds_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = hashlib.sha1(b"https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken").hexdigest()
    (tmp_path / name).write_bytes(tokens._read_vocabulary())
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    theirs, ours = tiktoken.get_encoding("o200k_base"), tokens._encoding()
    assert ours is not None
    assert list(map(ours.encode_ordinary, TEXTS)) == list(map(theirs.encode_ordinary, TEXTS))


@pytest.mark.parametrize(("content", "is_taken"), [(CONTENT, True), (b"IQ== 1\n", False), (None, False)])
def test_a_vocabulary_that_a_package_brings_is_taken_if_it_is_the_right_one_and_none_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, is_taken: bool
) -> None:
    """K5."""
    monkeypatch.setattr(tokens, "VOCABULARY_SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(tokens, "PACKAGE", "brings_a_vocabulary")
    folder = tmp_path / "brings_a_vocabulary"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise SystemExit('this code was run')")
    packed = b"no gzip" if content is None else gzip.compress(content)
    (folder / "data" / "o200k_base.tiktoken.gz").write_bytes(packed)
    monkeypatch.syspath_prepend(tmp_path)
    encoding = tokens._encoding()
    assert (None if encoding is None else encoding.encode_ordinary('!"')) == ([0, 1] if is_taken else None)


def test_that_tokens_are_estimated_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="consolidator.llm")
    monkeypatch.setattr(tokens, "PACKAGE", "brings_nothing")
    assert find_spec(tokens.PACKAGE) is None
    assert [tokens.count_tokens(text) for text in ("abc", "abcd", "日")] == [1, 2, 3]
    assert [record.message for record in caplog.records if "overestimated" in record.message] == [
        "tokens are overestimated: the package brings_nothing has the vocabulary to count them exactly"
    ]
