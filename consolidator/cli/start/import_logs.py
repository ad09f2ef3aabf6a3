"""consolidator import and config: session logs of agents into ours, and the settings in force."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from consolidator.cli.common import (
    open_configured,
    parse_path,
    read_settings,
    run_async,
    stop_on_signals,
)
from consolidator.cli.output import Table, byte_progress, emit, pluralize, print_line, print_note, progress_bar
from consolidator.clock import Clock
from consolidator.errors import ConsolidatorError, ImportRefused
from consolidator.formats.registry import FORMATS
from consolidator.service.clients.checks import check_model
from consolidator.service.database import open_database
from consolidator.service.nights.imports import (
    ImportReport,
    ImportWatch,
    import_sources,
    inspect_sources,
    select_sources,
)
from consolidator.service.system import describe_model, hide_secrets
from consolidator.settings import Settings, config_path, list_settings

_MAX_WAIT = 10  # seconds for a database: settings are looked at when one is away, too


def import_command(
    paths: Annotated[list[str] | None, typer.Argument(metavar="[PATH]...", help="Files or directories.")] = None,
    format_name: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help=f"{', '.join(FORMATS)}; else each file's own.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Write nothing if any line cannot be explained.")] = False,
    as_copy: Annotated[
        bool, typer.Option("--copy", help="Import a bundle as a copy to look at and to run again, never as evidence.")
    ] = False,
    person: Annotated[
        str | None, typer.Option("--from", metavar="NAME", help="Another person's logs: what they say stays theirs.")
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report", help="Write nothing; one line on what is not known, without contents.")
    ] = False,
) -> None:
    """Import session logs. Importing the same file twice adds nothing; one that has grown adds the new part.

    Without a path it searches the places where agents leave their logs on this machine. Exit code 6 if the paths hold
    no log. The format may also stand before the paths: `import codex FILE`.
    """
    words = paths or []
    if words and format_name is None and words[0] in ("auto", *FORMATS) and not Path(words[0]).exists():
        format_name, words = words[0], words[1:]
    files = [parse_path(word) for word in words]
    sources = select_sources(format_name or "auto", files)
    if report_only:
        print_line(inspect_sources(sources).describe_unknown())
        return

    async def work() -> ImportReport:
        stop = stop_on_signals()
        async with open_configured() as (database, _):
            with progress_bar("looking for logs", of_bytes=True) as bar:
                watch = ImportWatch(byte_progress(bar))
                return await import_sources(
                    database, sources, stop=stop, strict=strict, watch=watch, as_copy=as_copy, person=person
                )

    report = run_async(work())
    emit(report, lambda report: _print_report(report, are_named=bool(files)))
    if report.damaged_bundles:
        raise ImportRefused(report.damaged_bundles[0])
    if files and (reason := _find_failure(report)):
        raise ImportRefused(reason)


def _find_failure(report: ImportReport) -> str | None:
    """Return why the paths that a person named held nothing; None if they held events, known ones too."""
    if report.misread and len(report.misread) == report.files:
        return report.misread[0]
    if report.events or report.repeated or report.erased or report.unchanged or report.bundles:
        return None
    if report.problems:
        return f"nothing was imported: {report.problems[0]}"
    if report.unrecognised:
        reason = f"{report.unrecognised[0]} is not a log of any known format"
        return f"nothing was imported: {reason} (`consolidator import --help` lists them)"
    if report.files:
        return None
    return "nothing was imported: no file there has the name of a log; name the file itself"


def _print_report(report: ImportReport, *, are_named: bool) -> None:
    print_line(
        f"{pluralize(report.events, 'new event')} in {pluralize(len(report.sessions), 'session')} "
        f"from {pluralize(report.files, 'file')} "
        f"({pluralize(report.unchanged, 'file')} unchanged, {pluralize(report.repeated, 'event')} known already"
        + (f", {report.erased} of erased sessions left out" if report.erased else "")
        + ")",
        style="bold",
    )

    if not (report.files or report.unchanged or report.unrecognised):
        print_line(f"looked in {', '.join(report.sources)}")
    for imported in report.bundles:
        _print_bundle(imported)

    if report.skipped:
        kinds = ", ".join(f"{kind} {count}" for kind, count in report.skipped.most_common(12))
        print_line(f"lines that hold no words and no calls: {kinds}", style="dim")
    for path in report.unrecognised[:10]:
        print_line(f"not a log of any known format: {path}", style="dim")
    if report.unread and are_named:  # in the usual places the other files are the agent's own
        kinds = ", ".join(f"{suffix} {count}" for suffix, count in report.unread.most_common(12))
        print_line(f"files that are no logs: {kinds}", style="dim")

    for misread in report.misread[:10]:
        print_line(misread, style="yellow")
    for problem in report.problems if not report.damaged_bundles else ():
        print_line(f"not understood: {problem}", style="yellow")
    if report.problem_count > len(report.problems):
        print_line(
            f"and {pluralize(report.problem_count - len(report.problems), 'more line')} not understood", style="yellow"
        )

    if are_named and report.assumed:  # whose the sessions were taken to be, where the logs do not name everybody
        count = pluralize(len(report.assumed), "new session")
        whose = "yours, as the logs name nobody (`--from NAME`: another person's)" if report.person is None else None
        print_line(f"assumed: {count}: {whose or report.person}")
    if are_named and report.person is not None and (report.unchanged or report.repeated):
        print_line("what was imported before stays whose it was; `consolidator erase` removes it", style="yellow")

    if report.events:
        print_note("the next night learns from it; `consolidator run consolidation` does so now")


def _print_bundle(imported: Mapping[str, Any]) -> None:
    if imported["erased"]:
        print_line(f"session {imported['origin']} was erased here, and does not come back", style="yellow")
        return
    what = "is new" if imported["is_new"] else f"has {imported['events']} new events"
    print_line(f"session {imported['session_id']} {what} (in the bundle: {imported['origin']})")


_TABLE = Table(
    "settings",
    {"setting": "name", "value": lambda row: hide_secrets(row.value), "from": lambda row: row.place or row.source},
)


async def _describe_used_model(settings: Settings) -> str:
    """Return which model nights ask, and where a database answers what the last night asked of it and paid."""
    if settings.database_url is not None or (settings.home / "postgres").exists():
        with suppress(ConsolidatorError, TimeoutError):
            async with asyncio.timeout(_MAX_WAIT), open_database(settings, Clock(settings.clock)) as database:
                return (await check_model(database, settings)).found
    return await asyncio.to_thread(describe_model, settings)


def config_command() -> None:
    """Show each setting with its value and where that comes from: a variable, a line of the file, or the default."""
    chosen = run_async(_describe_used_model(read_settings()))
    path = config_path()

    def encode(rows: list[Any]) -> dict[str, Any]:
        settings = {
            row.name: {"value": hide_secrets(row.value), "source": row.source, "place": row.place} for row in rows
        }
        return {"file": str(path), "file_exists": path.exists(), "model": chosen, "settings": settings}

    def show(rows: list[Any]) -> None:
        print_line(f"file: {path}{'' if path.exists() else ' (there is none)'}", style="bold")
        print_line(f"model: {chosen}")
        _TABLE.print(rows)

    emit(list_settings(), show, encode=encode)
