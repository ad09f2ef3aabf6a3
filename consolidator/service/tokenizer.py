"""The tokenizer's vocabulary: fetched on request, checked by its hash, and used from then on."""

from __future__ import annotations

import asyncio
from pathlib import Path

from consolidator.errors import UsageError
from consolidator.llm import tokens
from consolidator.settings import Settings

VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_TIMEOUT = 30.0  # seconds without a byte


def use_vocabulary(settings: Settings) -> None:
    """Count tokens with the vocabulary of the configured directory, if it is there."""
    tokens.use_folder(settings.vocabulary_folder)


async def fetch_vocabulary(settings: Settings, url: str = VOCABULARY_URL) -> Path:
    """Fetch the vocabulary into its directory and return its file. Nothing is kept that is not what tiktoken expects.

    Raises UsageError if the server cannot be reached, or sends something else.
    """
    path = await asyncio.to_thread(_fetch, url, settings.vocabulary_folder)
    use_vocabulary(settings)
    return path


def _fetch(url: str, folder: Path) -> Path:
    import urllib.request  # no other command needs it

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url!r} is no address of a web server")
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
            content: bytes = answer.read(tokens.MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the vocabulary cannot be fetched from {url}: {error}; `consolidator tokenizer URL` takes a mirror, or "
            f"go on: tokens are overestimated without it"
        ) from error
    path = tokens.keep_vocabulary(folder, content)
    if path is None:
        raise UsageError(f"{url} sent {len(content):,} bytes that are not the vocabulary: nothing was kept")
    return path
