"""consolidator run, runs, backfill and revisions: jobs by hand, their ledger, and drafts of the facts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from consolidator.cli.common import parse_moment, parse_span, require_at_most_one, run, run_configured, run_job
from consolidator.cli.output import (
    OUT,
    emit,
    pluralize,
    print_line,
    print_table,
    print_warning,
    sanitize,
    short_id,
    shorten,
    table,
)
from consolidator.errors import ModelUnavailable, RunFailed, UsageError
from consolidator.service.nights.runs import (
    EXTRACTORS,
    JOBS,
    MANUAL_JOBS,
    BackfillFilter,
    Job,
    JobContext,
    compare_revision,
    discard_revision,
    list_revisions,
    list_runs,
    load_run,
    model_line,
    preview_retention,
    promote_revision,
    reindex,
    restore_revision,
    retry_dead_letters,
    run_backfill,
    summarize,
)
from consolidator.service.nights.runs import run_job as run_night_job
from consolidator.service.tracing import export_spans

_OUTCOMES = {
    "learned": "learned from",
    "nothing": "with nothing to learn",
    "deferred": "left for the next night",
    "dead": "set aside",
}
ALL_JOBS = (*JOBS, *MANUAL_JOBS)
REINDEX = "reindex"
_RUNS = table(
    "runs: seen = learned + nothing + deferred + dead",
    "run, job, scheduled at, status, events, >took",
    run=lambda run: short_id(run.id),
    events=lambda run: f"{run.seen} = {run.learned} + {run.nothing} + {run.deferred} + {run.dead}" if run.seen else "",
    took=lambda run: "" if run.finished_at is None else f"{(run.finished_at - run.started_at).total_seconds():.1f} s",
)
_UNITS = table(
    "units",
    "kind, unit, status, >tries=attempts, >seen, >learned, >nothing, >deferred, >dead, note",
    unit=lambda unit: short_id(unit["unit"]),
    note=lambda unit: shorten(unit["note"] or unit["error"], 100),
)
_DEAD_LETTERS = table(
    "dead letters",
    "dead letter=id, session, >seq, extractor, error, settled=settlement",
    session=lambda letter: short_id(letter["session_id"]),
    error=lambda letter: shorten(letter["error"], 80),
)


def run_command(
    job: Annotated[str, typer.Argument(metavar="JOB", help=f"{', '.join(JOBS)}, or {REINDEX}: recall's index.")],
    older_than: Annotated[
        str | None, typer.Option(help="retention: prune what is older than this, such as 30d.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            help="retention: prune although the clock or the amount seems wrong; reindex: recompute all vectors, too."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="retention: show what would be pruned, and prune nothing.")] = False,
) -> None:
    """Run one job now: the scheduled run if it is due, otherwise an unscheduled one.

    Exit code 7 if something was dead-lettered, 8 if the model could not be asked. Warns if a night learned nothing from
    any event it read. An interrupted reindex goes on where it was.
    """
    if job == REINDEX:
        if dry_run or older_than is not None:
            raise UsageError("--older-than and --dry-run require the job retention")
        report = run_job("indexing", lambda context: reindex(context, vectors=force))
        emit(report, _print_reindexed)
        if report["status"] == "failed":
            raise RunFailed(f"run {report['run']} gave up some units: `consolidator runs {report['run']}`")
        return
    name, age = _parse_job(job, older_than, dry_run=dry_run, force=force)
    if dry_run:
        report = run_configured(preview_retention, older_than=age)
    else:
        with export_spans():
            report = run_job(job, lambda context: run_night_job(context, name, older_than=age, force=force))
    emit(report, lambda report: _print_report(report, dry_run=dry_run))
    _check_report(report)


def _print_reindexed(report: dict[str, Any]) -> None:
    print_line(f"indexed: {report['turns']:,} turns and {report['facts']:,} facts", style="bold")
    if "vectors" in report:
        print_line(f"vectors: {report['vectors']}")


def _parse_job(job: str, older_than: str | None, *, dry_run: bool, force: bool) -> tuple[Job, timedelta | None]:
    """Return the job and the age that a person named; raise UsageError if they do not fit."""
    if job not in JOBS:
        raise UsageError(f"no job is called {job!r}; there are: {', '.join(JOBS)}, {REINDEX}")
    if (older_than is not None or dry_run or force) and job != "retention":
        raise UsageError("--older-than, --force and --dry-run require the job retention")
    age = None if older_than is None else parse_span(older_than)
    if age is not None and age < timedelta(days=1):
        raise UsageError(f"--older-than must be at least one day, got {older_than!r}")
    return job, age


def _print_report(report: dict[str, Any], *, dry_run: bool) -> None:
    if report["job"] == "consolidation" and OUT.is_terminal:
        print_night(report)
        return
    print_line(f"{report['job']}{' (dry run)' if dry_run else ''}: {summarize(report)}", style="bold")
    if report["job"] == "retention" and report["partitions"]:
        print_line(f"whole days: {', '.join(report['partitions'])}")
    for agent, cutoff in report.get("agents", {}).items():
        print_line(f"agent {agent} keeps its events for days of its own: from {cutoff[:10]} on", style="dim")
    if unexpired := report.get("unexpired"):
        print_line("expired sessions that stay open: " + ", ".join(f"{n} {why}" for why, n in unexpired.items()))
    for problem in report.get("problems", []):
        print_line(f"not understood: {problem}", style="yellow")


def print_night(report: dict[str, Any]) -> None:
    """Print what a night read, and a table of what it changed: a row for each agent, a column for each kind."""
    read = pluralize(report["seen"], "event") + " in " + pluralize(report["units"], "session")
    counts = {name: report[name] for name in ("learned", "nothing", "deferred", "dead") if report[name]}
    outcome = ", ".join(f"{count} {_OUTCOMES[name]}" for name, count in counts.items())
    who = "night" if report["job"] == "consolidation" else report["job"]
    print_line(f"The {who} read {read}{f': {outcome}' if outcome else ''}.", style="bold")

    changes = {
        agent: dict(change.split(": ", 1) for change in str(line).split("; "))
        for agent, line in report.get("memory", {}).items()
    }
    kinds = sorted({kind for by_kind in changes.values() for kind in by_kind})
    if changes:
        rows = [(agent, *(by_kind.get(kind, "") for kind in kinds)) for agent, by_kind in changes.items()]
        print_table("what it changed", ("agent", *kinds), rows, main="agent")
    if not isinstance(report.get("model"), str) and (line := model_line(report)) is not None:
        print_line(line)
    if count := report.get("foreign"):
        verb = "was" if count == 1 else "were"
        print_line(f"{pluralize(count, 'message')} in other languages {verb} not read: set a model", style="yellow")
    if report.get("memory"):
        print_line("`consolidator learned` shows it", style="dim")


def _check_report(report: dict[str, Any]) -> None:
    """Raise RunFailed if a run left dead letters; warn if a night learned nothing, as from plain talk."""
    if report.get("error"):
        raise ModelUnavailable(f"run {report['run']}: {report['error']}")
    if report.get("status") == "failed":
        run_id = report["run"]
        lost = f"left {pluralize(report['dead'], 'event')} dead-lettered"
        if not report["dead"] and (units := report.get("dead_units")):
            lost = f"could not finish {pluralize(units, 'unit')}"
        raise RunFailed(f"run {run_id} {lost}; `consolidator runs {run_id}`")
    if report["job"] == "consolidation" and report["seen"] > report["deferred"] and not report["learned"]:
        read = report["seen"] - report["deferred"]
        print_warning(f"run {report['run']} read {pluralize(read, 'event')} and learned nothing from any of them")


def runs_command(
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run's id or its beginning, with --retry also a dead letter's; else all."),
    ] = None,
    job: Annotated[str | None, typer.Option(help=f"Only {', '.join(ALL_JOBS)}.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", min=1, max=10_000, help="Show at most this many; by default 20 runs or 50 units."
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Learn again from the events that it set aside.")] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Give these events up: mark them as read, with nothing learned.")
    ] = False,
) -> None:
    """List runs, the latest first: seen = learned + nothing + deferred + dead; or show one with its units.

    Of one run it shows the units, what the run changed, and its dead letters.
    """
    if job is not None and job not in ALL_JOBS:
        raise UsageError(f"no job is called {job!r}; there are: {', '.join(ALL_JOBS)}")
    if retry or discard:
        report = run_configured(retry_dead_letters, run_or_letter_id=run_id, discard=discard)
        emit(report, f"{report['settled']} settled, {report['remaining']} still cannot be learned from")
        if report["remaining"]:
            raise RunFailed("some dead letters remain; `consolidator runs RUN` shows why, --discard gives them up")
    elif run_id is None:
        emit(run(list_runs, job=job, limit=limit or 20), _RUNS)
    else:
        emit(run(load_run, run_id, limit=limit or 50), _print_run)


def _print_run(run: dict[str, Any]) -> None:
    print_line(f"{run['job']} for {sanitize(run['scheduled_at'])}: {run['status']}", style="bold")
    print_line(
        f"{run['seen']} seen = {run['learned']} learned + {run['nothing']} nothing to learn + "
        f"{run['deferred']} deferred + {run['dead']} dead"
    )
    if (line := model_line(run["report"])) is not None:
        print_line(line)
    if run["error"]:
        print_line(run["error"], style="red")
    _UNITS.print(run["claims"])
    if run["dead_letters"]:
        _DEAD_LETTERS.print(run["dead_letters"])


MAX_LINES = 30  # of each kind of change
_TABLE = table(
    "revisions", ">number=id, model, status, >sessions, >events, >candidates, begun=created_at, promoted=promoted_at"
)


def revisions_command(
    number: Annotated[
        int | None, typer.Argument(metavar="NUMBER", help="A draft: which facts promoting it would change.")
    ] = None,
    promote: Annotated[
        bool, typer.Option("--promote", help="Make the draft the current revision, until --restore undoes it.")
    ] = False,
    discard: Annotated[bool, typer.Option("--discard", help="Discard the draft with all facts that it read.")] = False,
    restore: Annotated[
        bool, typer.Option("--restore", help="Undo the last promotion: its revision is a draft again.")
    ] = False,
) -> None:
    """List revisions of the facts: drafts that `backfill --reprocess --model X` made, and promoted ones.

    With a number, show which facts promoting that draft would add, lose and change; that writes nothing. --restore is
    possible until retention deletes the facts that the promotion replaced.
    """
    require_at_most_one(promote=promote, discard=discard, restore=restore)
    if (promote or discard) and number is None:
        raise UsageError("--promote and --discard take a revision's number, as `consolidator revisions` lists it")
    if restore:
        report = run_job("restoring", restore_revision)
        line = f"revision {report['restored']} is a draft again: {summarize(report)}"
        emit(report, line)
    elif number is None:
        emit(run(list_revisions), _TABLE)
    elif promote:
        report = run_job("promoting", lambda context: promote_revision(context, number))
        emit(report, f"revision {number} is current: {summarize(report)}")
    elif discard:
        run(discard_revision, number)
        emit({"discarded": number}, f"revision {number} is discarded")
    else:
        emit(run(compare_revision, number), print_comparison)


def print_comparison(comparison: dict[str, Any]) -> None:
    """Print which facts a revision would add, lose and change."""
    counts = ", ".join(f"{len(comparison[part])} {part}" for part in ("added", "lost", "changed"))
    title = f"revision {comparison['revision']} ({comparison['model']})"
    print_line(f"{title}: {pluralize(comparison['kept'], 'fact')} kept, {counts}", style="bold")
    if comparison["changed"]:
        pairs = ((shorten(old, 120), shorten(new, 120)) for old, new in comparison["changed"][:MAX_LINES])
        print_table("changed", ("before", "after"), pairs)
    for part in ("lost", "added"):
        _print_changes(part, comparison[part])


def _print_changes(change: str, lines: list[str]) -> None:
    sign = {"added": "+", "lost": "-", "changed": "~"}[change]
    for line in lines[:MAX_LINES]:
        print_line(f"  {sign} {shorten(line, 160)}")
    if len(lines) > MAX_LINES:
        print_line(f"  {sign} and {len(lines) - MAX_LINES} more (--json shows all)")


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

    def to_filter(self, now: datetime) -> BackfillFilter:
        """Return the filter. Raises UsageError for a time that is none."""
        since, until = parse_moment(self.since, now), parse_moment(self.until, now)
        times = (self.since, self.until)
        return BackfillFilter(self.session, self.agent, since, until, self.only, self.reprocess, times)


def backfill_command(
    *,
    selection: SelectionOptions,
    replace: Annotated[bool, typer.Option(help="With --only or --reprocess: write the result.")] = False,
    model: Annotated[
        str | None, typer.Option(help="With --reprocess: read for facts with this model, into a draft to compare.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Show what would be learned; write nothing.")] = False,
) -> None:
    """Consolidate by hand, or derive again. If it is interrupted, the same command resumes it.

    With --reprocess --model, facts go into a draft revision: `revisions` lists, compares, promotes and restores.
    """
    again = selection.reprocess or selection.only is not None
    if replace and not again:
        raise UsageError("--replace requires --only or --reprocess")
    _check_options(selection, replace=replace, model=model, dry_run=dry_run)
    rehearse = dry_run or (again and not replace)

    async def backfill(context: JobContext) -> dict[str, Any]:
        sessions = selection.to_filter(context.database.clock.now())
        return await run_backfill(context, sessions, model=model, rehearse=rehearse)

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
        raise RunFailed(f"run {report['run']} left {pluralize(report['dead'], 'event')} dead-lettered")


def _check_options(selection: SelectionOptions, *, replace: bool, model: str | None, dry_run: bool) -> None:
    """Raise UsageError if the options of a backfill do not fit; an empty name must not mean everything."""
    if "" in (selection.session, selection.agent):
        raise UsageError("--session and --agent take a name")
    if selection.only is not None and selection.only not in EXTRACTORS:
        raise UsageError(f"--only takes one of {', '.join(EXTRACTORS)}, not {selection.only!r}")
    if model is not None and not selection.reprocess:
        raise UsageError("--model requires --reprocess")
    if model is not None and (not model.strip() or replace or dry_run or selection.only is not None):
        raise UsageError("--model makes a draft: it cannot be combined with --replace, --dry-run or --only")


def _print_draft(report: dict[str, Any]) -> None:
    print_comparison(report)
    print_line(model_line(report) or "", style="dim")
    if report["deferred"]:
        print_warning(
            f"{pluralize(report['deferred'], 'event')} could not be read now; repeat the same command to read them"
        )
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
            _print_changes(change, lines)
    if not any(any(changes.values()) for changes in report["memory"].values()):
        print_line("no changes" if again else "nothing new would be learned")
    for problem in report["problems"][:MAX_LINES]:
        print_warning(problem)
    if again:
        print_line("add --replace to write these changes", style="dim")
