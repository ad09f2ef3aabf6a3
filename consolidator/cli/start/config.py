"""consolidator config: the settings in force, and where each comes from."""

from __future__ import annotations

import re
from typing import Any

import typer
from pydantic import SecretStr

from consolidator.cli.common import read_settings
from consolidator.cli.output import AsJson, print_json, print_line, print_table
from consolidator.config_file import config_path
from consolidator.settings import list_settings

_HIDDEN = "**********"
_PASSWORD = re.compile(r"(://[^/@\s]*:)[^/@\s]+@")  # of an address

config = typer.Typer(help="The settings: those in force, and where each of them comes from.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(config, name="config")


@config.command("show")
def show_command(as_json: AsJson = False) -> None:
    """Show each setting with its value and where that comes from: a variable, a line of the file, or the default."""
    read_settings()  # tells of names that are no settings
    path = config_path()
    rows = list_settings()
    if as_json:
        settings = {row.name: {"value": _visible(row.value), "source": row.source, "place": row.place} for row in rows}
        print_json({"file": str(path), "file_exists": path.exists(), "settings": settings})
        return
    print_line(f"file: {path}{'' if path.exists() else ' (there is none)'}", style="bold")
    cells = ((row.name, _visible(row.value), row.place or row.source) for row in rows)
    print_table("settings", ("setting", "value", "from"), cells)


def _visible(value: Any) -> Any:
    """Return a value without its secrets."""
    if isinstance(value, SecretStr):
        return _HIDDEN
    if isinstance(value, list):
        return [_visible(item) for item in value]
    return value if value is None or isinstance(value, int | float) else _PASSWORD.sub(rf"\1{_HIDDEN}@", str(value))
