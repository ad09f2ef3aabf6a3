"""consolidator config and tokenizer: the settings in force, where each comes from, and exact counts of tokens."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from consolidator.cli.common import read_settings, run_async
from consolidator.cli.output import Table, emit, print_line
from consolidator.config_file import config_path
from consolidator.service.system import describe_model, hide_secrets
from consolidator.service.tokenizer import VOCABULARY_URL, fetch_vocabulary
from consolidator.settings import list_settings

_TABLE = Table(
    "settings",
    {"setting": "name", "value": lambda row: hide_secrets(row.value), "from": lambda row: row.place or row.source},
)


def config_command() -> None:
    """Show each setting with its value and where that comes from: a variable, a line of the file, or the default."""
    chosen = describe_model(read_settings())
    path = config_path()

    def encode(rows: list[Any]) -> dict[str, Any]:
        settings = {
            row.name: {"value": hide_secrets(row.value), "source": row.source, "place": row.place} for row in rows
        }
        return {"file": str(path), "file_exists": path.exists(), "model": chosen, "settings": settings}

    def show(rows: list[Any]) -> None:
        print_line(f"file: {path}{'' if path.exists() else ' (there is none)'}", style="bold")
        print_line(f"model: {chosen}; `consolidator status` says what the last night asked of it")
        _TABLE.print(rows)

    emit(list_settings(), show, encode=encode)


def tokenizer_command(
    url: Annotated[
        str, typer.Argument(metavar="[URL]", help="Where it is; a mirror sends the same bytes.")
    ] = VOCABULARY_URL,
) -> None:
    """Fetch the vocabulary (3.6 MB) into the data directory. Without it, tokens are estimated, never too low."""
    path = run_async(fetch_vocabulary(read_settings(), url))
    emit({"vocabulary": path}, f"tokens are counted with {path} from now on")
