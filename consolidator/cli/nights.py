"""consolidator serve, run, runs, retry, backfill, erase: the nights."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import redirect_stdout
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.progress import Progress

from consolidator.cli.common import moment, opened, run, span, stop_on_signals
from consolidator.cli.output import AsJson, Limit, begins, emit, note, plain, progress, say, short, table, warn
from consolidator.cli.revisions import show_comparison
from consolidator.cli.runtime import wake_at_start
from consolidator.database import Database
from consolidator.errors import Interrupted, RunFailed, UsageError
from consolidator.jobs.consolidation.manual_run import EXTRACTORS, Choice
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.consolidation.dead_letters import retry
from consolidator.jobs.consolidation.revisions import Reprocessing
from consolidator.jobs.model.model_report import model_line
from consolidator.jobs.nightly import JOBS, Job, Nights
from consolidator.jobs.retention import prune
from consolidator.jobs.scheduler import Service, summary
from consolidator.service import erasure
from consolidator.store.log import sessions
from consolidator.store.memory import rederive
from consolidator.store.nights import runs

BY_HAND = ("backfill", "retry", "reindex")  # the jobs that only a person begins
runs_app = typer.Typer(help="The ledger: what each night saw, learned, and left.", invoke_without_command=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("serve")(serve_command)
    app.command("run")(run_command)
    app.add_typer(runs_app, name="runs")
    app.command("retry")(retry_command)
    app.command("backfill")(backfill_command)
    app.command("erase")(erase_command)


def serve_command() -> None:
    """Run as a service: import, consolidate and prune every night; GET /healthz tells how it is.

    With nothing configured it imports the logs that agents leave on this machine. A missed night is caught up at start,
    and sessions that a crash stopped in the middle go on.
    SIGTERM or SIGINT ends it with exit code 0: the unit in hand is finished or handed back, and the next start goes on.
    """

    from consolidator.mcp_server import Mounted, mounted

    async def work() -> None:
        stop = stop_on_signals()
        async with opened() as (database, settings):
            log = logging.getLogger("consolidator.serve")
            if settings.health_port:
                at = f"http://127.0.0.1:{settings.health_port}"
                log.info("serving; health at %s/healthz, MCP at %s/mcp with the token of %s", at, at, settings.home)
            memory = mounted(database, settings) if settings.health_port else Mounted((), None)
            waking = asyncio.create_task(wake_at_start(database, settings))
            await Service(Nights(database, settings, stop), memory.routes, memory.lifespan).serve()
            waking.cancel()
            await asyncio.gather(waking, return_exceptions=True)

    run(work())


def run_command(
    job: Annotated[str, typer.Argument(metavar="JOB", help=", ".join(JOBS))],
    older_than: Annotated[
        str | None, typer.Option(help="retention: prune what is older than this, such as 30d.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="retention: say what would go, and remove nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run one job now, as cron does: for the slot it owes, or beside the schedule.

    Exit code 7 when something was dead-lettered. A night that learned nothing from any event it read warns of it.
    """
    name, age = _job_asked(job, older_than, dry_run=dry_run)

    async def work() -> dict[str, Any]:
        stop = stop_on_signals()
        async with opened() as (database, settings):
            if dry_run:
                days = timedelta(days=settings.retention_days)
                report = await prune(database, older_than=age or days, dry_run=True)
                return {"job": "retention", **report.as_json()}
            with progress(job) as bar:
                nights = Nights(database, settings, stop, **_told(bar))
                return await nights.run_now(name, **({"older_than": age} if age else {}))

    done = run(work())
    if as_json:
        emit(done)
    else:
        _show_done(done, dry_run=dry_run)
    _judge(done)


def _job_asked(job: str, older_than: str | None, *, dry_run: bool) -> tuple[Job, timedelta | None]:
    """Return the job and the age a person named; raise UsageError where they do not fit."""
    if job not in JOBS:
        raise UsageError(f"no job is called {job!r}; there are: {', '.join(JOBS)}")
    if (older_than is not None or dry_run) and job != "retention":
        raise UsageError("--older-than and --dry-run go with retention")
    age = None if older_than is None else span(older_than)
    if age is not None and age < timedelta(days=1):
        raise UsageError(f"--older-than takes a day or more, not {older_than!r}: what is younger stays")
    return job, age


def _show_done(done: dict[str, Any], *, dry_run: bool) -> None:
    say(f"{done['job']}{' (dry run)' if dry_run else ''}: {summary(done)}", style="bold")
    if done["job"] == "retention" and done["partitions"]:
        say(f"whole days: {', '.join(done['partitions'])}")
    for problem in done.get("problems", []):
        say(f"not understood: {problem}", style="yellow")


def _judge(done: dict[str, Any]) -> None:
    """Raise RunFailed where a run left dead letters; warn where a night learned nothing, as from plain talk."""
    if done.get("status") == "failed":
        raise RunFailed(
            f"run {done['run']} left {done['dead']} events dead-lettered; `consolidator runs show {done['run']}`"
        )
    if done["job"] == "consolidation" and done["seen"] > done["deferred"] and not done["learned"]:
        warn(f"run {done['run']} read {done['seen'] - done['deferred']} events and learned nothing from any of them")


def _told(bar: Progress) -> dict[str, Any]:
    """Return the two callbacks that move a progress bar."""
    task = bar.task_ids[0]
    return {
        "started": lambda count: bar.update(task, total=count),
        "progress": lambda name: bar.update(task, advance=1, description=short(name, 30)),
    }


@runs_app.callback()
def runs_command(
    context: typer.Context,
    job: Annotated[str | None, typer.Option(help=f"Only {', '.join((*JOBS, *BY_HAND))}.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List runs, the latest first: seen = learned + nothing + deferred + dead."""
    if context.invoked_subcommand:
        return
    if job is not None and job not in (*JOBS, *BY_HAND):
        raise UsageError(f"no job is called {job!r}; there are: {', '.join((*JOBS, *BY_HAND))}")

    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _), database.connection() as conn:
            return await runs.list_runs(conn, job=job, limit=limit)

    found = run(work())
    if as_json:
        emit(found)
        return
    table(
        "runs: seen = learned + nothing + deferred + dead",
        ("run", "job", "slot", "status", "events", "took"),
        ((r["id"], r["job"], r["slot"], r["status"], _sum(r), _took(r)) for r in found),
        right=("took",),
    )


def _sum(found: dict[str, Any]) -> str:
    """Say what a run saw and what came of it."""
    if not found["seen"]:
        return ""
    return f"{found['seen']} = {found['learned']} + {found['nothing']} + {found['deferred']} + {found['dead']}"


def _took(found: dict[str, Any]) -> str:
    if found["finished_at"] is None:
        return ""
    return f"{(found['finished_at'] - found['started_at']).total_seconds():.1f} s"


@runs_app.command("show")
def runs_show(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, of those that `runs` lists.")],
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show one run: its units, what it changed, and its dead letters."""

    async def work() -> dict[str, Any]:
        async with opened() as (database, _), database.connection() as conn:
            found = await runs.get(conn, run_id)
            units = await runs.list_units(conn, run_id, limit=limit)
            letters = await runs.list_dead_letters(conn, run_or_letter_id=run_id, include_settled=True)
            return {
                **await runs.sum_units(conn, run_id),
                **found["report"],
                **found,
                "claims": units,
                "dead_letters": letters,
            }

    found = run(work())
    if as_json:
        emit(found)
    else:
        _show_run(found)


def _show_run(found: dict[str, Any]) -> None:
    say(f"{found['job']} for {plain(found['slot'])}: {found['status']}", style="bold")
    say(
        f"{found['seen']} seen = {found['learned']} learned + {found['nothing']} nothing to learn + "
        f"{found['deferred']} deferred + {found['dead']} dead"
    )
    if (asked := model_line(found["report"])) is not None:
        say(asked)
    if found["error"]:
        say(found["error"], style="red")
    columns = ("unit", "status", "tries", "seen", "learned", "nothing", "deferred", "dead", "note")
    table(
        "units",
        columns,
        (
            (begins(c["unit"]), c["status"], c["attempts"], c["seen"], c["learned"], c["nothing"], c["deferred"],
             c["dead"], short(c.get("note") or c["error"], 100))
            for c in found["claims"]
        ),
        right=columns[2:8],
    )  # fmt: skip
    _show_letters(found["dead_letters"])


def _show_letters(letters: list[dict[str, Any]]) -> None:
    if letters:
        columns = ("dead letter", "session", "seq", "extractor", "error", "settled")
        found = (
            (d["id"], d["session_id"], d["seq"], d["extractor"], short(d["error"], 80), d["settlement"])
            for d in letters
        )
        table("dead letters", columns, found, right=("seq",))


def retry_command(
    word: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A dead letter or a run; all open ones else.")
    ] = None,
    discard: Annotated[bool, typer.Option(help="Give them up: stamp them with nothing learned.")] = False,
    as_json: AsJson = False,
) -> None:
    """Learn again from events that were set aside, or discard them."""

    async def work() -> dict[str, Any]:
        async with opened() as (database, settings):
            return await retry(database, settings, word=word, discard=discard)

    done = run(work())
    if as_json:
        emit(done)
    else:
        say(f"{done['settled']} settled, {done['remaining']} still cannot be learned from")
    if done["remaining"]:
        raise RunFailed("some dead letters remain; `consolidator runs show RUN` tells why, --discard gives them up")


def backfill_command(
    since: Annotated[
        str | None, typer.Option(help="Only sessions active since: a date, a time, or a span ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Only sessions last active before this.")] = None,
    session: Annotated[str | None, typer.Option(help="Only this session.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    only: Annotated[str | None, typer.Option(help=f"Derive again only {', '.join(EXTRACTORS)}.")] = None,
    reprocess: Annotated[
        bool, typer.Option(help="Derive again what was learned already; shows the difference.")
    ] = False,
    replace: Annotated[bool, typer.Option(help="With --only or --reprocess: put the new in place of the old.")] = False,
    model: Annotated[
        str | None, typer.Option(help="With --reprocess: read for facts with this model, into a draft to compare.")
    ] = None,
    diff: Annotated[
        bool, typer.Option(help="With --reprocess: say what would be different, as it does anyway.")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Show what would be learned; write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Consolidate by hand, or derive again. Interrupted, the same command goes on where it was.

    With --reprocess --model the facts of a draft stand beside those believed: `revisions` lists, promotes, restores.
    """
    _refuse_backfill(session, agent, only, again=reprocess or only is not None, replace=replace)
    _refuse_model(model, reprocess=reprocess, diff=diff, beside=replace or dry_run or only is not None)
    rehearsing = dry_run or ((reprocess or only is not None) and not replace)

    async def work() -> dict[str, Any]:
        stop = stop_on_signals()
        async with opened() as (database, settings):
            now = database.clock.now()
            name = await _session_named(database, session)
            choice = Choice(name, agent, moment(since, now), moment(until, now), only, reprocess, (since, until))
            with progress("backfill") as bar:
                if model is not None:
                    return await Reprocessing(database, settings, choice, model, stop, **_told(bar)).run()
                job = Backfill(database, settings, choice, stop, **_told(bar))
                return await (job.rehearse() if rehearsing else job.run())

    done = run(work())
    if as_json:
        emit(done)
    elif model is not None:
        show_comparison(done)
        say(model_line(done) or "", style="dim")
        if done["deferred"]:
            warn(f"{done['deferred']} events could not be read now; the same command goes on with them")
        say(f"`consolidator revisions promote {done['revision']}` believes it, discard gives it up", style="dim")
    elif rehearsing:
        _show_rehearsal(done, again=reprocess or only is not None)
    else:
        say(f"backfill: {summary(done)}", style="bold")
    if done.get("status") == "failed":
        raise RunFailed(f"run {done['run']} left {done['dead']} events dead-lettered")


def _refuse_backfill(session: str | None, agent: str | None, only: str | None, *, again: bool, replace: bool) -> None:
    """Raise UsageError where the options of a backfill do not fit; an empty name must not mean everything."""
    if session == "" or agent == "":
        raise UsageError("--session and --agent take a name")
    if only is not None and only not in EXTRACTORS:
        raise UsageError(f"--only takes one of {', '.join(EXTRACTORS)}, not {only!r}")
    if replace and not again:
        raise UsageError("--replace goes with --only or --reprocess")


def _refuse_model(model: str | None, *, reprocess: bool, diff: bool, beside: bool) -> None:
    """Raise UsageError where --model and --diff do not fit."""
    if (model is not None or diff) and not reprocess:
        raise UsageError("--model and --diff go with --reprocess")
    if model is not None and (not model.strip() or beside):
        raise UsageError("--model makes a draft: it goes with none of --replace, --dry-run and --only")


async def _session_named(database: Database, word: str | None) -> str | None:
    if word is None:
        return None
    async with database.connection() as conn:
        return await sessions.find(conn, word)


def _show_rehearsal(done: dict[str, Any], *, again: bool) -> None:
    say(f"would read {done['events']} events of {done['sessions']} sessions; nothing was written", style="bold")
    signs = {"added": "+", "lost": "-", "changed": "~"}
    for kind, changes in done["memory"].items():
        if any(changes.values()):
            say(
                f"{kind}: " + ", ".join(f"{len(lines)} {what}" for what, lines in changes.items() if lines),
                style="bold",
            )
        for what, lines in changes.items():
            for line in lines[:20]:
                say(f"  {signs[what]} {short(line, 160)}")
            if len(lines) > 20:
                say(f"  {signs[what]} and {len(lines) - 20} more")
    if not any(any(changes.values()) for changes in done["memory"].values()):
        say("nothing would be different" if again else "nothing new would be learned")
    if again:
        say("--replace puts it in place of what is there", style="dim")


def erase_command(
    session: Annotated[str | None, typer.Option(help="Erase this session and what hangs from it.")] = None,
    peer: Annotated[str | None, typer.Option(help="Erase every session with this peer.")] = None,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "asked to",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    log: Annotated[bool, typer.Option("--log", help="Erase nothing: list what was erased, when and why.")] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Erase sessions for good, with what was derived from them. It is logged; importing does not bring them back."""
    if log and (session is not None or peer is not None):
        raise UsageError("--log lists what was erased; it goes without --session and --peer")
    if log:
        _list_erasures(limit, as_json=as_json)
        return
    if (session is None) == (peer is None) or "" in (session, peer):
        raise UsageError("name either --session or --peer")

    async def plan() -> erasure.ErasurePlan:
        async with opened() as (database, _):
            return await erasure.plan(database, session=session, peer=peer)

    async def work() -> dict[str, Any]:
        async with opened() as (database, settings):
            return await erasure.erase(database, settings, planned, reason=reason)

    planned = run(plan())
    if not yes:
        _confirm(planned)  # between the two: a loop would not end before the question is answered
    done = run(work())
    if as_json:
        emit(done)
    else:
        say(f"erased {done['events']} events of {done['sessions']} sessions, and what was derived from them")


def _list_erasures(limit: int, *, as_json: bool) -> None:
    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _), database.connection() as conn:
            return await rederive.erasures(conn, limit=limit)

    found = run(work())
    if as_json:
        emit(found)
        return
    columns = ("erased", "session", "events", "derived", "reason")
    told = ((e["erased_at"], e["session_id"], e["events"], e["derived"], e["reason"]) for e in found)
    table("erasures", columns, told, right=("events", "derived"))


def _confirm(planned: erasure.ErasurePlan) -> None:
    """Ask on stderr whether that is what is meant; raise Interrupted where it is not, or nobody says."""
    if not sys.stdin.isatty():
        raise UsageError("this needs a person's word: run it on a terminal, or say --yes")
    for found in planned.sessions[:20]:
        note(f"{found['id']}  {found['kind']:<9} {found['events']:>7} events  {short(found['origin'], 80)}")
    question = f"Erase {len(planned.sessions)} sessions with {planned.events} events, for good?"
    try:
        with redirect_stdout(sys.stderr):  # its `err` leaves the last character to stdout
            sure = typer.confirm(question)
    except typer.Abort:
        note("")  # ends the question's line
        sure = False
    if not sure:
        raise Interrupted("nothing was erased")
