"""consolidator tokenizer: exact counts of tokens, once its vocabulary was fetched."""

from __future__ import annotations

import typer

from consolidator.cli.common import read_settings, run_async
from consolidator.cli.output import print_line
from consolidator.service.tokenizer import fetch_vocabulary

tokenizer = typer.Typer(help="Count tokens exactly: fetch the tokenizer's vocabulary.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(tokenizer, name="tokenizer")


@tokenizer.callback()
def _group() -> None:
    pass


@tokenizer.command("fetch")
def fetch_command() -> None:
    """Fetch the vocabulary (3.6 MB) into the data directory. Without it, tokens are estimated, never too low."""
    print_line(f"tokens are counted with {run_async(fetch_vocabulary(read_settings()))} from now on")
