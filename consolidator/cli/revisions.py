"""consolidator generations: facts derived again by another model, compared, promoted, discarded, restored."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from consolidator.cli.common import opened, run, stop_on_signals
from consolidator.cli.output import AsJson, Limit, emit, say, short, table
from consolidator.jobs.consolidation import revisions as jobs
from consolidator.jobs.scheduler import summary
from consolidator.store.memory import revisions

generations_app = typer.Typer(invoke_without_command=True)
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="Of a generation, as `generations` lists it.")]
SHOWN = 30  # lines of each part of a comparison


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(generations_app, name="generations")


@generations_app.callback()
def generations_command(context: typer.Context, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List what was derived again by `backfill --reprocess --model X`: drafts, and what was promoted."""
    if context.invoked_subcommand:
        return

    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _), database.connection() as conn:
            return await revisions.listing(conn, limit)

    found = run(work())
    if as_json:
        emit(found)
        return
    columns = ("number", "model", "status", "sessions", "events", "sayings", "begun", "promoted")
    shown = (
        (g["id"], g["model"], g["status"], g["sessions"], g["events"], g["sayings"], g["created_at"], g["promoted_at"])
        for g in found
    )
    table("generations", columns, shown, right=("number", "sessions", "events", "sayings"))


@generations_app.command("show")
def show_command(number: Number, as_json: AsJson = False) -> None:
    """Show what promoting a draft would add, lose and change of the facts; writes nothing."""

    async def work() -> dict[str, Any]:
        async with opened() as (database, _):
            return await jobs.compare(database, number)

    told = run(work())
    if as_json:
        emit(told)
    else:
        show_comparison(told)


def show_comparison(told: dict[str, Any]) -> None:
    """Print what a generation would add, lose and change."""
    sums = ", ".join(f"{len(told[what])} {what}" for what in ("added", "lost", "changed"))
    say(f"generation {told['generation']} ({told['model']}): {told['kept']} facts kept, {sums}", style="bold")
    if told["changed"]:
        pairs = ((short(was, 120), short(now, 120)) for was, now in told["changed"][:SHOWN])
        table("changed", ("before", "after"), pairs)
    for sign, what in (("-", "lost"), ("+", "added")):
        for line in told[what][:SHOWN]:
            say(f"  {sign} {short(line, 160)}")
        if len(told[what]) > SHOWN:
            say(f"  {sign} and {len(told[what]) - SHOWN} more (--json shows all)")


@generations_app.command("promote")
def promote_command(number: Number, as_json: AsJson = False) -> None:
    """Believe a draft in place of what was read before. `generations restore` undoes it, until retention."""

    async def work() -> dict[str, Any]:
        stop = stop_on_signals()
        async with opened() as (database, settings):
            return await jobs.promote(database, settings, number, stop)

    done = run(work())
    if as_json:
        emit(done)
    else:
        say(f"generation {number} is believed: {summary(done)}")


@generations_app.command("discard")
def discard_command(number: Number, as_json: AsJson = False) -> None:
    """Give a draft up, with all that it read."""

    async def work() -> None:
        async with opened() as (database, _), database.transaction() as conn:
            await revisions.discard(conn, number)

    run(work())
    if as_json:
        emit({"discarded": number})
    else:
        say(f"generation {number} is discarded")


@generations_app.command("restore")
def restore_command(as_json: AsJson = False) -> None:
    """Undo the last promotion: what was believed before is believed again, and its generation is a draft once more."""

    async def work() -> dict[str, Any]:
        stop = stop_on_signals()
        async with opened() as (database, settings):
            return await jobs.restore(database, settings, stop)

    done = run(work())
    if as_json:
        emit(done)
    else:
        say(f"generation {done['restored']} is a draft again: {summary(done)}")
