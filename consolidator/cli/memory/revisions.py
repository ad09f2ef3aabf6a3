"""consolidator revisions: compare, promote, discard and restore facts that another model read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from consolidator.cli.common import run, run_job
from consolidator.cli.options import require_at_most_one
from consolidator.cli.output import Limit, emit, print_line, print_table, shorten, table
from consolidator.errors import UsageError
from consolidator.service.nights.runs import (
    compare_revision,
    discard_revision,
    list_revisions,
    promote_revision,
    restore_revision,
    summarize,
)

MAX_LINES = 30  # lines of each part of a comparison
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
    limit: Limit = 20,
) -> None:
    """List revisions of the facts: drafts that `backfill --reprocess --model X` made, and promoted ones.

    With a number, show which facts promoting that draft would add, lose and change; that writes nothing. --restore is
    possible until retention deletes the facts that the promotion replaced.
    """
    require_at_most_one(promote=promote, discard=discard, restore=restore)
    if (promote or discard) and number is None:
        raise UsageError("--promote and --discard take a revision's number, as `consolidator revisions` lists it")
    if restore:
        report = run_job("restoring", lambda database, settings, stop, _: restore_revision(database, settings, stop))
        line = f"revision {report['restored']} is a draft again: {summarize(report)}"
        emit(report, line)
    elif number is None:
        emit(run(lambda database, _: list_revisions(database, limit=limit)), _TABLE)
    elif promote:
        report = run_job(
            "promoting", lambda database, settings, stop, _: promote_revision(database, settings, number, stop)
        )
        emit(report, f"revision {number} is current: {summarize(report)}")
    elif discard:
        run(lambda database, _: discard_revision(database, number))
        emit({"discarded": number}, f"revision {number} is discarded")
    else:
        emit(run(lambda database, _: compare_revision(database, number)), print_comparison)


def print_comparison(comparison: dict[str, Any]) -> None:
    """Print which facts a revision would add, lose and change."""
    counts = ", ".join(f"{len(comparison[part])} {part}" for part in ("added", "lost", "changed"))
    title = f"revision {comparison['revision']} ({comparison['model']})"
    print_line(f"{title}: {comparison['kept']} facts kept, {counts}", style="bold")
    if comparison["changed"]:
        pairs = ((shorten(old, 120), shorten(new, 120)) for old, new in comparison["changed"][:MAX_LINES])
        print_table("changed", ("before", "after"), pairs)
    for sign, part in (("-", "lost"), ("+", "added")):
        lines = comparison[part]
        for line in lines[:MAX_LINES]:
            print_line(f"  {sign} {shorten(line, 160)}")
        if len(lines) > MAX_LINES:
            print_line(f"  {sign} and {len(lines) - MAX_LINES} more (--json shows all)")
