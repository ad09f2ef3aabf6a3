"""consolidator export: write sessions in a format that can be imported again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, parse_path, run_async
from consolidator.cli.output import replace_file, write_text
from consolidator.service.log.export import export_sessions, find_writer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export_command)


def export_command(
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help="consolidator, claw0 or harness")
    ] = "consolidator",
    session: Annotated[list[str] | None, typer.Option(help="Only these sessions (id or its beginning).")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", parser=parse_path, help="A file, written whole or not at all.")
    ] = None,
    redacted: Annotated[bool, typer.Option(help="Hide credentials (on by default).")] = True,
) -> None:
    """Export sessions. Importing the export and exporting again gives the same bytes."""

    find_writer(format_name)  # an unknown format must not touch the output file

    async def work(write: Callable[[str], Any]) -> None:
        async with open_configured() as (database, _):
            await export_sessions(database, format_name, write, session_names=session or [], redacted=redacted)

    if output is None:
        run_async(work(write_text))
    else:
        with replace_file(output) as file:
            run_async(work(file.write))
