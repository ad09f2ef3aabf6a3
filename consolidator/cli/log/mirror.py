"""consolidator mirror: the sessions as claw0's files, kept up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import parse_path, run
from consolidator.cli.output import print_note
from consolidator.service.database import Database
from consolidator.service.log.mirror import Mirror
from consolidator.settings import Settings


def mirror_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", parser=parse_path, help="Where the files are kept.")],
    once: Annotated[bool, typer.Option("--once", help="Write what is new, and end.")] = False,
    seconds: Annotated[float, typer.Option("--every", min=0.05, help="Seconds between two looks.")] = 1.0,
    redacted: Annotated[bool, typer.Option(help="Hide credentials (on by default).")] = True,
) -> None:
    """Keep a file of each session in DIR, in claw0's layout: `tail -f` follows one. The log stays the truth."""

    async def keep(database: Database, _: Settings) -> None:
        with Mirror(database, folder, redacted=redacted).open() as mirror:
            await mirror.update()
            if not once:
                print_note(f"{folder} is kept up to date; Ctrl-C ends this")
                await mirror.follow(seconds)

    run(keep)
