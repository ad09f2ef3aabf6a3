"""consolidator session say, stop, task and notes: what a person says to a session that somebody else drives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import click
import typer

from consolidator.cli.common import SessionName, run_in
from consolidator.cli.output import AsJson, Limit, Table, emit, print_line, shorten
from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.service.sessions.messages import MessageMode, send_message, stop_turn
from consolidator.service.sessions.scratchpad import Scratchpad, ScratchpadEdit, change_scratchpad, read_scratchpad
from consolidator.service.sessions.tasks import OUTCOMES, TaskRow, finish_task, list_tasks, start_task
from consolidator.settings import Settings

SURFACE = "cli"
_TASKS = Table(
    "tasks",
    {
        "task": "id",
        "title": lambda row: shorten(row.title, 60),
        "outcome": lambda row: row.outcome or "open",
        "steers": "steers",
        "started": "started_at",
        "ended": "ended_at",
    },
    right=("steers",),
)


def say_command(
    session: SessionName,
    text: Annotated[str, typer.Argument(help="What to say.")],
    later: Annotated[bool, typer.Option("--later", help="Answer it when the current turn has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say something to a session now: what it is doing is cancelled, kept as far as it was seen, and this is answered.

    Whoever drives the session answers, such as `consolidator serve` or a chat; `consolidator session wake` does it at
    once.
    """
    mode: MessageMode = "follow_up" if later else "steer"

    async def send(database: Database, _: Settings, session_id: str) -> tuple[str, int]:
        return session_id, await send_message(database, session_id, text, mode=mode)

    session_id, seq = run_in(session, send)
    line = f"said, as event {seq}; whoever drives the session answers (`consolidator session wake {session_id}`)"
    emit({"session": session_id, "seq": seq}, line, as_json=as_json)


def stop_command(session: SessionName, as_json: AsJson = False) -> None:
    """End what a session is doing, without a message: what was written stays, and the session is open for the next one.

    Whoever drives the session stops within a second, such as `consolidator serve` or a chat. Messages that were not
    answered yet are not answered any more.
    """

    async def stop(database: Database, _: Settings, session_id: str) -> tuple[str, int | None]:
        return session_id, await stop_turn(database, session_id)

    session_id, seq = run_in(session, stop)
    line = "nothing is under way in it" if seq is None else f"stopped, as event {seq}; the session stays open"
    emit({"session": session_id, "seq": seq}, line, as_json=as_json)


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
    as_json: AsJson = False,
) -> None:
    """List a session's tasks, the latest first; start one with a title, or end the open one with its outcome.

    What the session does from the start on belongs to the task, one at a time; the nights learn from what succeeded.
    """
    if finish:
        if title not in OUTCOMES:
            raise UsageError(f"{title!r} is no outcome of a task: {', '.join(OUTCOMES)}")
        row = run_in(session, lambda db, _, name: finish_task(db, name, title, note=note, surface=SURFACE))
        emit(row, _describe_task, as_json=as_json)
    elif note is not None:
        raise UsageError("--note is why a task ended: it goes with --finish")
    elif title is not None:
        emit(run_in(session, lambda db, _, name: start_task(db, name, title, surface=SURFACE)), _describe_task,
             as_json=as_json)  # fmt: skip
    else:
        emit(run_in(session, lambda db, _, name: list_tasks(db, name, limit=limit)), _TASKS, as_json=as_json)


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


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input if it is called `-`. Raises UsageError."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"{name} cannot be read: {reason}") from error
