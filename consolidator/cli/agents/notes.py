"""consolidator session notes: the scratchpad at the end of a session's contexts."""

from __future__ import annotations

from typing import Annotated

import click
import typer

from consolidator.cli.common import SessionName, read_text, run_in
from consolidator.cli.options import SURFACE
from consolidator.cli.output import AsJson, emit, print_line
from consolidator.errors import UsageError
from consolidator.runtime.session.scratchpad import Scratchpad, ScratchpadEdit
from consolidator.service.database import Database
from consolidator.service.sessions.work import change_scratchpad, read_scratchpad
from consolidator.settings import Settings


def notes_command(
    session: SessionName,
    replace: Annotated[
        str | None, typer.Option("--set", metavar="FILE", help="Replace them by a file; - is standard input.")
    ] = None,
    append: Annotated[str | None, typer.Option(help="Add a paragraph.")] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Change them in your editor ($EDITOR).")] = False,
    version: Annotated[
        int | None, typer.Option(min=0, help="Change this version only: the number that --json shows as seq.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a session's scratchpad, the notes at the end of each of its contexts. Or change it."""
    if sum((replace is not None, append is not None, edit)) > 1:
        raise UsageError("say one of --set, --append and --edit")
    change = None if append is None else ScratchpadEdit("append", append)
    if replace is not None:
        change = ScratchpadEdit("replace", read_text(replace))

    async def read_or_change(database: Database, settings: Settings, session_id: str) -> Scratchpad:
        current = await read_scratchpad(database, settings, session_id)
        new, seq = change, version
        if edit:
            text = click.edit(current.text, extension=".md")  # no connection is held meanwhile
            new = None if text is None else ScratchpadEdit("replace", text)
            seq = current.seq if version is None else version
        if new is None:
            return current
        return await change_scratchpad(database, settings, session_id, new, expected_seq=seq, surface=SURFACE)

    def show(scratchpad: Scratchpad) -> None:
        if change is not None or edit:
            print_line(f"the scratchpad has {len(scratchpad.text):,} of {scratchpad.limit:,} characters")
        else:
            print_line(scratchpad.text or "the scratchpad is empty", None if scratchpad.text else "dim")

    emit(run_in(session, read_or_change), show, as_json=as_json)
