"""consolidator backup, restore: the whole database in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from consolidator.cli.common import open_configured, parse_path, run_async
from consolidator.cli.output import print_line, progress_bar
from consolidator.service.database import back_up_database, restore_database

_BackupFile = Annotated[Path, typer.Argument(metavar="FILE", parser=parse_path, help="The backup.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("backup")(backup_command)
    app.command("restore")(restore_command)


def backup_command(file: _BackupFile) -> None:
    """Write the log, memory and ledger as of now into FILE, while everything goes on. FILE must not exist yet.

    The file holds what was said, unredacted: keep it as safe as the database. Its format is pg_dump's custom one.
    """

    async def work() -> int:
        async with open_configured() as (database, _):
            with progress_bar("backup"):
                return await back_up_database(database, file)

    print_line(f"wrote {run_async(work()):,} bytes to {file}; `consolidator restore` reads it")


def restore_command(file: _BackupFile) -> None:
    """Restore a backup into a database that holds nothing yet, all or nothing, and upgrade it to this version."""

    async def work() -> dict[str, str]:
        async with open_configured() as (database, _):
            with progress_bar("restore"):
                return await restore_database(database, file)

    sizes = run_async(work())
    print_line(
        f"restored {sizes['events']} events of {sizes['sessions']} sessions; `consolidator db verify` checks them"
    )
