"""consolidator import, export, sessions, events: the log."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import moment, opened, path_named, run, stop_on_signals
from consolidator.cli.output import (
    Agent,
    AsJson,
    Limit,
    Project,
    begins,
    emit,
    emit_line,
    place,
    plain,
    progress,
    replaced,
    say,
    short,
    table,
    write,
)
from consolidator.cli.runtime import attention
from consolidator.errors import NotFound, UsageError
from consolidator.formats import FORMATS, format_named, is_there, on_this_machine
from consolidator.jobs.importing.importer import ImportReport, ImportSource, import_sources
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.service.export import export_sessions, writable
from consolidator.store.log import events, sessions

MOST = 2**31 - 1  # events of a session
_FOLLOW_PAUSE = 0.5  # seconds between looks


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("import")(import_command)
    app.command("export")(export_command)
    app.command("sessions")(sessions_command)
    app.command("events")(events_command)


def import_command(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help=f"auto, {', '.join(FORMATS)}")] = "auto",
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="[PATH]...", parser=path_named, help="Files or directories.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Write nothing if any line cannot be explained.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import session logs. Importing the same file twice adds nothing; one that has grown adds the new part.

    Without a path, the places are searched where agents leave their logs on this machine.
    """
    wanted = wanted_sources(format_name, paths or [])

    async def work() -> ImportReport:
        stop = stop_on_signals()
        async with opened() as (database, _):
            with progress("importing") as bar:

                def told(done: int, total: int, name: str) -> None:
                    bar.update(bar.task_ids[0], completed=done, total=total, description=f"importing {short(name, 60)}")

                return await import_sources(
                    database, wanted, strict=strict, stop=stop, progress=None if bar.disable else told
                )

    report = run(work())
    if as_json:
        emit(report.as_json())
    else:
        show_import(report)


def wanted_sources(format_name: str, paths: list[Path]) -> list[ImportSource]:
    """Return what a person asked to import."""
    if format_name == "auto":
        if paths:
            return [ImportSource(path) for path in paths]
        found = [ImportSource(path, form) for form, path in on_this_machine(Path.home())]
        if not found:
            raise NotFound("no agent has left its logs in a known place on this machine; name a path")
        return found
    form = format_named(format_name)
    if paths:
        return [ImportSource(path, form) for path in paths]
    found = [ImportSource(path, form) for path in form.default_paths(Path.home()) if is_there(path)]
    if not found:
        raise UsageError(f"name the files or directories to import: {format_name} has none in a known place here")
    return found


def show_import(report: ImportReport) -> None:
    """Tell a person what an import did."""
    say(
        f"{report.events} new events in {len(report.sessions)} sessions from {report.files} files "
        f"({report.unchanged} unchanged, {report.repeated} events known already"
        + (f", {report.erased} of erased sessions left out" if report.erased else "")
        + ")",
        style="bold",
    )
    if not (report.files or report.unchanged or report.unrecognised or report.problem_count):
        say("no file there is named as such a log is; `consolidator import auto PATH` looks into each", style="yellow")
    if report.skipped:
        kinds = ", ".join(f"{kind} {count}" for kind, count in report.skipped.most_common(12))
        say(f"lines with nothing for the log: {kinds}", style="dim")
    for path in report.unrecognised[:10]:
        say(f"not a log of any known format: {path}", style="dim")
    for mistaken in report.mistaken[:10]:
        say(mistaken, style="yellow")
    for problem in report.problems:
        say(f"not understood: {problem}", style="yellow")
    if report.problem_count > len(report.problems):
        say(f"and {report.problem_count - len(report.problems)} more lines not understood", style="yellow")


def export_command(
    format_name: Annotated[
        str, typer.Argument(metavar="FORMAT", help="consolidator, claw0 or harness")
    ] = "consolidator",
    session: Annotated[list[str] | None, typer.Option(help="Only these sessions (id or its beginning).")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", parser=path_named, help="A file, written whole or not at all.")
    ] = None,
    redacted: Annotated[bool, typer.Option(help="Hide credentials (on by default).")] = True,
) -> None:
    """Export sessions. Importing the export and exporting again gives the same bytes."""

    writable(format_name)

    async def work(write: Any) -> None:
        async with opened() as (database, _):
            await export_sessions(database, format_name, write, words=session or [], redacted=redacted)

    if output is None:
        run(work(write))
    else:
        with replaced(output) as file:
            run(work(file.write))


def sessions_command(
    agent: Agent = None,
    project: Project = None,
    peer: Annotated[str | None, typer.Option(help="Only sessions with this peer.")] = None,
    since: Annotated[str | None, typer.Option(help="A date, a time, or a span ago such as 7d.")] = None,
    limit: Limit = 30,
    attentive: Annotated[bool, typer.Option("--attention", help="Only calls that wait for a person's word.")] = False,
    hidden: Annotated[bool, typer.Option("--hidden", help="Those deleted in a chat, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List sessions, the latest first."""
    if attentive:
        attention(limit, as_json=as_json)
        return

    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _), database.connection() as conn:
            began = moment(since, database.clock.now())
            return await sessions.listing(
                conn, agent=agent, project=project, peer=peer, since=began, hidden=hidden, limit=limit
            )

    found = run(work())
    if as_json:
        emit(found)
        return
    columns = ("session", "agent", "kind", "of", "events", "learned", "pruned", "last")
    table(
        "sessions",
        columns,
        (
            (begins(s["id"]), s["agent"], s["kind"], place({**s, "peer": s["key"]}), s["head"], s["consolidated_to"],
             s["pruned_to"], s["last_occurred_at"])
            for s in found
        ),
        right=("events", "learned", "pruned"),
    )  # fmt: skip


def events_command(
    session: Annotated[str, typer.Argument(help="A session's id, its foreign name, or the beginning of either.")],
    after: Annotated[int, typer.Option(min=0, max=MOST, help="Begin after this seq.")] = 0,
    last: Annotated[int | None, typer.Option("--last", min=1, max=MOST, help="Only the last so many.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as new events arrive.")] = False,
    full: Annotated[bool, typer.Option(help="Whole texts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a session's events in order; with --json one line each."""

    async def work() -> None:
        async with opened() as (database, _):
            async with database.connection() as conn:
                name = await sessions.find(conn, session)
                head = (await sessions.get(conn, name))["head"]
            seq = max(after, head - last) if last is not None else after
            while True:
                async with database.connection() as conn:
                    found = await events.read(conn, name, after=seq, limit=500)
                for event in found:
                    _print(event, as_json=as_json, full=full)
                    seq = event.seq
                if not found and not follow:
                    return
                if not found:
                    await asyncio.sleep(_FOLLOW_PAUSE)

    run(work())


def _print(event: Event, *, as_json: bool, full: bool) -> None:
    if as_json:
        emit_line(
            {
                "session_id": event.session_id,
                "seq": event.seq,
                "type": event.type.value,
                "data": event.data,
                "created_at": event.created_at,
                "consolidated_at": event.consolidated_at,
            }
        )
        return
    told = gist(event)
    mark = "✓" if event.consolidated_at else " "
    say(
        f"{event.seq:>6} {mark} {plain(event.occurred_at)}  {event.type.value:<18} {told if full else short(told, 160)}"
    )


def gist(event: Event) -> str:
    """Return what an event says, as text."""
    data = event.data
    if event.type is EventType.TOOL_CALL:
        return f"{data.get('tool')} {json.dumps(data.get('arguments'), ensure_ascii=False, default=str)}"
    if event.type is EventType.TOOL_RESULT:
        content = data.get("content")
        told = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
        return f"{'' if data.get('status', 'ok') == 'ok' else str(data.get('status')) + ': '}{told}"
    for key in ("text", "message", "decision", "goal", "reason"):
        if data.get(key):
            return str(data[key])
    return json.dumps({k: v for k, v in data.items() if k not in ("v", "occurred_at")}, ensure_ascii=False, default=str)
