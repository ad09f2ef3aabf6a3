"""consolidator session task: what a session works at, and how that went."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.common import SessionName, run_in
from consolidator.cli.options import SURFACE
from consolidator.cli.output import AsJson, Limit, emit, shorten, table
from consolidator.errors import UsageError
from consolidator.runtime.session.tasks import OUTCOMES
from consolidator.service.sessions.work import TaskRow, finish_task, list_tasks, start_task

_TASKS = table(
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
