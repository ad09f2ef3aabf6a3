"""consolidator backfill: consolidate by hand, or derive again what was learned."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from consolidator.cli.common import parse_moment, run_job
from consolidator.cli.memory.revisions import print_comparison
from consolidator.cli.nights.runs import print_night
from consolidator.cli.output import OUT, ProgressCallbacks, emit, pluralize, print_line, print_warning, shorten
from consolidator.errors import ModelUnavailable, RunFailed, UsageError
from consolidator.service.database import Database
from consolidator.service.nights.runs import EXTRACTORS, SessionFilter, model_line, run_backfill, summarize
from consolidator.settings import Settings

_SIGNS = {"added": "+", "lost": "-", "changed": "~"}
_MAX_LINES = 20  # of each kind of change


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """Which sessions are read, and what of them is derived again."""

    since: Annotated[str | None, typer.Option(help="Only sessions active since: a date, a time, or a span ago.")] = None
    until: Annotated[str | None, typer.Option(help="Only sessions last active before this.")] = None
    session: Annotated[str | None, typer.Option(help="Only this session.")] = None
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None
    only: Annotated[str | None, typer.Option(help=f"Derive again only {', '.join(EXTRACTORS)}.")] = None
    reprocess: Annotated[bool, typer.Option(help="Derive memory again from learned events; shows the difference.")] = (
        False
    )

    @property
    def is_again(self) -> bool:
        """Whether learned events are read again."""
        return self.reprocess or self.only is not None

    def to_filter(self, now: datetime) -> SessionFilter:
        """Return the filter. Raises UsageError for a time that is none."""
        since, until = parse_moment(self.since, now), parse_moment(self.until, now)
        times = (self.since, self.until)
        return SessionFilter(self.session, self.agent, since, until, self.only, self.reprocess, times)


def backfill_command(
    *,
    selection: SelectionOptions,
    replace: Annotated[bool, typer.Option(help="With --only or --reprocess: write the result.")] = False,
    model: Annotated[
        str | None, typer.Option(help="With --reprocess: read for facts with this model, into a draft to compare.")
    ] = None,
    diff: Annotated[bool, typer.Option(help="With --reprocess: show the differences (the default).")] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what would be learned; write nothing.")] = False,
) -> None:
    """Consolidate by hand, or derive again. If it is interrupted, the same command resumes it.

    With --reprocess --model, facts go into a draft revision: `revisions` lists, compares, promotes and restores.
    """
    again = selection.is_again
    _check_options(selection, replace=replace)
    writes = replace or dry_run or selection.only is not None
    _check_model_options(model, reprocess=selection.reprocess, diff=diff, writes=writes)
    rehearse = dry_run or (again and not replace)

    async def backfill(
        database: Database, settings: Settings, stop: asyncio.Event, progress: ProgressCallbacks
    ) -> dict[str, Any]:
        sessions = selection.to_filter(database.clock.now())
        return await run_backfill(database, settings, sessions, stop, model=model, rehearse=rehearse, **progress)

    def show(report: dict[str, Any]) -> None:
        if model is not None:
            _print_draft(report)
        elif rehearse:
            _print_rehearsal(report, again=again)
        elif OUT.is_terminal:
            print_night(report)
        else:
            print_line(f"backfill: {summarize(report)}", style="bold")

    report = run_job("backfill", backfill)
    emit(report, show)
    if report.get("error"):
        raise ModelUnavailable(f"run {report['run']}: {report['error']}")
    if report.get("problems"):
        raise RunFailed(
            f"{pluralize(len(report['problems']), 'event')} cannot be learned from: {report['problems'][0]}"
        )
    if report.get("status") == "failed":
        raise RunFailed(f"run {report['run']} left {report['dead']} events dead-lettered")


def _check_options(selection: SelectionOptions, *, replace: bool) -> None:
    """Raise UsageError if the options of a backfill do not fit; an empty name must not mean everything."""
    if "" in (selection.session, selection.agent):
        raise UsageError("--session and --agent take a name")
    if selection.only is not None and selection.only not in EXTRACTORS:
        raise UsageError(f"--only takes one of {', '.join(EXTRACTORS)}, not {selection.only!r}")
    if replace and not selection.is_again:
        raise UsageError("--replace requires --only or --reprocess")


def _check_model_options(model: str | None, *, reprocess: bool, diff: bool, writes: bool) -> None:
    """Raise UsageError if --model or --diff does not fit."""
    if (model is not None or diff) and not reprocess:
        raise UsageError("--model and --diff require --reprocess")
    if model is not None and (not model.strip() or writes):
        raise UsageError("--model makes a draft: it cannot be combined with --replace, --dry-run or --only")


def _print_draft(report: dict[str, Any]) -> None:
    print_comparison(report)
    print_line(model_line(report) or "", style="dim")
    if report["deferred"]:
        print_warning(f"{report['deferred']} events could not be read now; repeat the same command to read them")
    print_line(
        f"`consolidator revisions {report['revision']} --promote` believes it, --discard gives it up", style="dim"
    )


def _print_rehearsal(report: dict[str, Any], *, again: bool) -> None:
    print_line(
        f"would read {pluralize(report['events'], 'event')} of {pluralize(report['sessions'], 'session')}; "
        "nothing was written",
        style="bold",
    )
    for kind, changes in report["memory"].items():
        if any(changes.values()):
            counts = ", ".join(f"{len(lines)} {change}" for change, lines in changes.items() if lines)
            print_line(f"{kind}: {counts}", style="bold")
        for change, lines in changes.items():
            for line in lines[:_MAX_LINES]:
                print_line(f"  {_SIGNS[change]} {shorten(line, 160)}")
            if len(lines) > _MAX_LINES:
                print_line(f"  {_SIGNS[change]} and {len(lines) - _MAX_LINES} more")
    if not any(any(changes.values()) for changes in report["memory"].values()):
        print_line("no changes" if again else "nothing new would be learned")
    for problem in report["problems"][:_MAX_LINES]:
        print_warning(problem)
    if again:
        print_line("add --replace to write these changes", style="dim")
