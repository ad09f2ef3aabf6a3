"""consolidator task: what a session works at, and how that went."""

from __future__ import annotations

from typing import Annotated

import typer

from consolidator.cli.common import SessionName, open_configured, run_async
from consolidator.cli.output import AsJson, Limit, print_json, print_line, print_table, shorten
from consolidator.errors import UsageError
from consolidator.service.log.sessions import find_session_id
from consolidator.service.sessions.tasks import OUTCOMES, TaskRow, finish_task, list_tasks, start_task

SURFACE = "cli"
task = typer.Typer(help="Tasks of a session: list them, start one, end it with its outcome.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(task, name="task")


@task.command("list")
def list_command(session: SessionName, limit: Limit = 30, as_json: AsJson = False) -> None:
    """List a session's tasks, the latest first."""

    async def work() -> list[TaskRow]:
        async with open_configured() as (database, _):
            return await list_tasks(database, session, limit=limit)

    tasks = run_async(work())
    if as_json:
        print_json(tasks)
        return
    rows = (
        (row.id, shorten(row.title, 60), row.outcome or "open", row.steers, row.started_at, row.ended_at)
        for row in tasks
    )
    print_table("tasks", ("task", "title", "outcome", "steers", "started", "ended"), rows, right=("steers",))


@task.command("start")
def start_command(
    session: SessionName,
    title: Annotated[str, typer.Argument(help="What the session is to work at.")],
    as_json: AsJson = False,
) -> None:
    """Start a task: what the session does from here on belongs to it. One is open at a time."""

    async def work() -> TaskRow:
        async with open_configured() as (database, _):
            return await start_task(database, await find_session_id(database, session), title, surface=SURFACE)

    _print(run_async(work()), as_json=as_json)


@task.command("finish")
def finish_command(
    session: SessionName,
    outcome: Annotated[str, typer.Argument(help=f"How it went: {', '.join(OUTCOMES)}.")],
    note: Annotated[str | None, typer.Option(help="Why, in a sentence.")] = None,
    as_json: AsJson = False,
) -> None:
    """End the session's open task; the nights learn from what succeeded."""
    if outcome not in OUTCOMES:
        raise UsageError(f"{outcome!r} is no outcome of a task: {', '.join(OUTCOMES)}")

    async def work() -> TaskRow:
        async with open_configured() as (database, _):
            session_id = await find_session_id(database, session)
            return await finish_task(database, session_id, outcome, note=note, surface=SURFACE)

    _print(run_async(work()), as_json=as_json)


def _print(row: TaskRow, *, as_json: bool) -> None:
    if as_json:
        print_json(row)
    else:
        print_line(f"task {row.id} {'is open' if row.outcome is None else 'has ended: ' + row.outcome}: {row.title}")
