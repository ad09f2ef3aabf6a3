"""consolidator scratchpad: the notes at the end of a session's contexts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import click
import typer

from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, print_json, print_line
from consolidator.errors import UsageError
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.scratchpad import Scratchpad, ScratchpadEdit, change_scratchpad, read_scratchpad

SURFACE = "cli"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("scratchpad")(scratchpad_command)


def scratchpad_command(
    session: SessionName,
    replace: Annotated[
        str | None, typer.Option("--set", metavar="FILE", help="Replace it by a file; - is standard input.")
    ] = None,
    append: Annotated[str | None, typer.Option(help="Add a paragraph.")] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Change it in your editor ($EDITOR).")] = False,
    version: Annotated[
        int | None, typer.Option(min=0, help="Change this version only: the number that --json shows as seq.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a session's scratchpad: what stands at the end of each of its contexts. Or change it."""
    if sum((replace is not None, append is not None, edit)) > 1:
        raise UsageError("say one of --set, --append and --edit")
    added = None if append is None else ScratchpadEdit("append", append)
    change = added if replace is None else ScratchpadEdit("replace", _read_text(replace))

    async def work() -> Scratchpad:
        async with open_configured() as (database, settings):
            session_id = await find_session_id(database, session)
            current = await read_scratchpad(database, settings, session_id)
            change_made, expected_seq = change, version
            if edit:
                edited = click.edit(current.text, extension=".md")  # nothing is held meanwhile
                expected_seq = current.seq if version is None else version
                change_made = None if edited is None else ScratchpadEdit("replace", edited)
            if change_made is None:
                return current
            return await change_scratchpad(
                database, settings, session_id, change_made, expected_seq=expected_seq, surface=SURFACE
            )

    scratchpad = run_async(work())
    if as_json:
        print_json(scratchpad)
    elif change is not None or edit:
        print_line(f"the scratchpad has {len(scratchpad.text):,} of {scratchpad.limit:,} characters")
    else:
        print_line(scratchpad.text or "the scratchpad is empty", None if scratchpad.text else "dim")


def _read_text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {name} as text: {error}") from error
