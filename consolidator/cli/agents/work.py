"""consolidator session task and notes: what a session works at, and the scratchpad at the end of its contexts."""

from __future__ import annotations

from typing import Annotated

import click
import typer

from consolidator.cli.common import SessionName, read_text, run_in
from consolidator.cli.options import SURFACE
from consolidator.cli.output import Limit, emit, print_line, shorten, table
from consolidator.errors import UsageError
from consolidator.runtime.session.scratchpad import Scratchpad, ScratchpadEdit
from consolidator.runtime.session.tasks import OUTCOMES
from consolidator.service.database import Database
from consolidator.service.sessions.work import (
    TaskRow,
    change_scratchpad,
    finish_task,
    list_tasks,
    read_scratchpad,
    start_task,
)
from consolidator.settings import Settings

TASKS = table(
    "tasks",
    "task=id, title, outcome, >steers, started=started_at, ended=ended_at",
    title=lambda row: shorten(row.title, 60),
    outcome=lambda row: row.outcome or "open",
)


def task_command(
    session: SessionName,
    title: Annotated[
        str | None, typer.Argument(metavar="TITLE|OUTCOME", help="What the session is to work at.")
    ] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help=f"End the open task, with its outcome: {', '.join(OUTCOMES)}.")
    ] = False,
    note: Annotated[str | None, typer.Option(help="With --finish: why, in a sentence.")] = None,
    limit: Limit = 30,
) -> None:
    """List a session's tasks, the latest first; start one with a title, or end the open one with its outcome.

    What the session does from the start on belongs to the task, one at a time; the nights learn from what succeeded.
    """
    if finish:
        if title not in OUTCOMES:
            raise UsageError(f"{title!r} is no outcome of a task: {', '.join(OUTCOMES)}")
        row = run_in(session, lambda db, _, name: finish_task(db, name, title, note=note, surface=SURFACE))
        emit(row, _describe_task)
    elif note is not None:
        raise UsageError("--note is why a task ended: it goes with --finish")
    elif title is not None:
        task = run_in(session, lambda db, _, name: start_task(db, name, title, surface=SURFACE))
        emit(task, _describe_task)
    else:
        emit(run_in(session, lambda db, _, name: list_tasks(db, name, limit=limit)), TASKS)


def _describe_task(row: TaskRow) -> str:
    return f"task {row.id} {'is open' if row.outcome is None else 'has ended: ' + row.outcome}: {row.title}"


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
) -> None:
    """Show a session's scratchpad, the notes at the end of each of its contexts. Or change it."""
    if sum((replace is not None, append is not None, edit)) > 1:
        raise UsageError("say one of --set, --append and --edit")
    change = None if append is None else ScratchpadEdit("append", append)
    if replace is not None:
        change = ScratchpadEdit("replace", read_text(replace))

    async def read_or_change(database: Database, settings: Settings, session_id: str) -> Scratchpad:
        current = await read_scratchpad(database, session_id)
        new, seq = change, version
        if edit:
            text = click.edit(current.text, extension=".md")  # no connection is held meanwhile
            new = None if text is None else ScratchpadEdit("replace", text)
            seq = current.seq if version is None else version
        if new is None:
            return current
        return await change_scratchpad(database, session_id, new, expected_seq=seq, surface=SURFACE)

    def show(scratchpad: Scratchpad) -> None:
        if change is not None or edit:
            print_line(f"the scratchpad has {len(scratchpad.text):,} of {scratchpad.limit:,} characters")
        else:
            print_line(scratchpad.text or "the scratchpad is empty", None if scratchpad.text else "dim")

    emit(run_in(session, read_or_change), show)
