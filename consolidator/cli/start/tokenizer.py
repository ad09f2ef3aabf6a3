"""consolidator tokenizer: exact counts of tokens, once its vocabulary was fetched."""

from __future__ import annotations

from consolidator.cli.common import read_settings, run_async
from consolidator.cli.output import print_line
from consolidator.service.tokenizer import fetch_vocabulary


def tokenizer_command() -> None:
    """Fetch the vocabulary (3.6 MB) into the data directory. Without it, tokens are estimated, never too low."""
    print_line(f"tokens are counted with {run_async(fetch_vocabulary(read_settings()))} from now on")
