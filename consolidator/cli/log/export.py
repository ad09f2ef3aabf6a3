"""consolidator export: write sessions in a format that can be imported again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, parse_path, run_async
from consolidator.cli.output import pluralize, print_warning, replace_file
from consolidator.cli.streams import write_text
from consolidator.errors import DatabaseError, UsageError
from consolidator.service.log.export import export_sessions, find_writer
from consolidator.service.sessions.bundles import stream_bundle

_MAX_LINES = 20  # of lost values that are named


def export_command(
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT|SESSION", help="consolidator, claw0 or harness; with --bundle a session.")
    ] = "consolidator",
    session: Annotated[list[str] | None, typer.Option(help="Only these sessions (id or its beginning).")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", parser=parse_path, help="Write to this file, whole or not at all.")
    ] = None,
    redacted: Annotated[bool, typer.Option(help="Hide credentials (on by default).")] = True,
    as_bundle: Annotated[
        bool, typer.Option("--bundle", help="One session with all that belongs to it, under one checksum.")
    ] = False,
    exact: Annotated[bool, typer.Option("--exact", help="Byte for byte, with credentials.")] = False,
) -> None:
    """Export sessions. Importing the export and exporting again gives the same bytes."""

    redacted = redacted and not exact
    if as_bundle:
        names = [*(session or []), *([] if format_name == "consolidator" else [format_name])]
        if len(names) != 1:
            raise UsageError("a bundle is of one session: consolidator export SESSION --bundle")
    else:
        find_writer(format_name)  # an unknown format must not touch the output file

    async def work(write: Callable[[str], Any]) -> list[str]:
        async with open_configured() as (database, _):
            if as_bundle:
                lost: list[str] = []
                async for line in stream_bundle(database, names[0], exact=not redacted, lost=lost):
                    write(line)
                return lost
            return await export_sessions(database, format_name, write, session_names=session or [], redacted=redacted)

    if output is None:
        lost = run_async(work(write_text))
    else:
        with replace_file(output) as file:
            lost = run_async(work(file.write))
    for problem in lost[1:_MAX_LINES]:
        print_warning(problem)
    if lost:
        raise DatabaseError(
            f"{pluralize(len(lost), 'event')} was exported with a note in place of what is lost, the rest as it is: "
            f"{lost[0]}; restore it from a backup, `consolidator db verify` lists all such events"
        )
