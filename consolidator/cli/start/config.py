"""consolidator config: the settings in force, and where each comes from."""

from __future__ import annotations

import typer

from consolidator.cli.common import read_settings
from consolidator.cli.output import AsJson, print_json, print_line, print_table
from consolidator.config_file import config_path
from consolidator.service.system import hide_secrets
from consolidator.settings import list_settings

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
        settings = {
            row.name: {"value": hide_secrets(row.value), "source": row.source, "place": row.place} for row in rows
        }
        print_json({"file": str(path), "file_exists": path.exists(), "settings": settings})
        return
    print_line(f"file: {path}{'' if path.exists() else ' (there is none)'}", style="bold")
    cells = ((row.name, hide_secrets(row.value), row.place or row.source) for row in rows)
    print_table("settings", ("setting", "value", "from"), cells)
