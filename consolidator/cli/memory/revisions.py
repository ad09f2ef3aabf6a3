"""consolidator revisions: compare, promote, discard and restore facts that another model read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, run_async, stop_on_signals
from consolidator.cli.output import AsJson, Limit, print_json, print_line, print_table, shorten
from consolidator.service.memory.revisions import (
    RevisionSummaryRow,
    compare_revision,
    discard_revision,
    list_revisions,
    promote_revision,
    restore_revision,
)
from consolidator.service.nights.runs import summarize

revisions_app = typer.Typer(invoke_without_command=True)
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="A revision's number, as `revisions` lists it.")]
MAX_LINES = 30  # lines of each part of a comparison


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(revisions_app, name="revisions")


@revisions_app.callback()
def revisions_command(context: typer.Context, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List revisions of the facts: drafts that `backfill --reprocess --model X` made, and promoted ones."""
    if context.invoked_subcommand:
        return

    async def load() -> list[RevisionSummaryRow]:
        async with open_configured() as (database, _):
            return await list_revisions(database, limit=limit)

    rows = run_async(load())
    if as_json:
        print_json(rows)
        return
    columns = ("number", "model", "status", "sessions", "events", "candidates", "begun", "promoted")
    cells = (
        (row.id, row.model, row.status, row.sessions, row.events, row.candidates, row.created_at, row.promoted_at)
        for row in rows
    )
    print_table("revisions", columns, cells, right=("number", "sessions", "events", "candidates"))


@revisions_app.command("show")
def show_command(number: Number, as_json: AsJson = False) -> None:
    """Show which facts promoting a draft would add, lose and change; writes nothing."""

    async def compare() -> dict[str, Any]:
        async with open_configured() as (database, _):
            return await compare_revision(database, number)

    comparison = run_async(compare())
    if as_json:
        print_json(comparison)
    else:
        print_comparison(comparison)


def print_comparison(comparison: dict[str, Any]) -> None:
    """Print which facts a revision would add, lose and change."""
    counts = ", ".join(f"{len(comparison[part])} {part}" for part in ("added", "lost", "changed"))
    kept = f"{comparison['kept']} facts kept"
    print_line(f"revision {comparison['revision']} ({comparison['model']}): {kept}, {counts}", style="bold")
    if comparison["changed"]:
        pairs = ((shorten(old, 120), shorten(new, 120)) for old, new in comparison["changed"][:MAX_LINES])
        print_table("changed", ("before", "after"), pairs)
    for sign, part in (("-", "lost"), ("+", "added")):
        lines = comparison[part]
        for line in lines[:MAX_LINES]:
            print_line(f"  {sign} {shorten(line, 160)}")
        if len(lines) > MAX_LINES:
            print_line(f"  {sign} and {len(lines) - MAX_LINES} more (--json shows all)")


@revisions_app.command("promote")
def promote_command(number: Number, as_json: AsJson = False) -> None:
    """Make a draft the current revision. `revisions restore` undoes it until retention deletes what it replaced."""

    async def promote() -> dict[str, Any]:
        stop = stop_on_signals()
        async with open_configured() as (database, settings):
            return await promote_revision(database, settings, number, stop)

    report = run_async(promote())
    if as_json:
        print_json(report)
    else:
        print_line(f"revision {number} is current: {summarize(report)}")


@revisions_app.command("discard")
def discard_command(number: Number, as_json: AsJson = False) -> None:
    """Discard a draft with all that it read."""

    async def discard() -> None:
        async with open_configured() as (database, _):
            await discard_revision(database, number)

    run_async(discard())
    if as_json:
        print_json({"discarded": number})
    else:
        print_line(f"revision {number} is discarded")


@revisions_app.command("restore")
def restore_command(as_json: AsJson = False) -> None:
    """Undo the last promotion: the former revision is current again, and the promoted one is a draft."""

    async def restore() -> dict[str, Any]:
        stop = stop_on_signals()
        async with open_configured() as (database, settings):
            return await restore_revision(database, settings, stop)

    report = run_async(restore())
    if as_json:
        print_json(report)
    else:
        print_line(f"revision {report['restored']} is a draft again: {summarize(report)}")
