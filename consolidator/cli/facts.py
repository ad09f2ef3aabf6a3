"""consolidator facts: what is believed, and what a person has to say of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from consolidator.cli.common import moment, opened, run
from consolidator.cli.output import Agent, AsJson, Limit, Project, emit, place, say, short, table
from consolidator.cli.query_group import QueryGroup
from consolidator.errors import UsageError
from consolidator.memory.facts.reconcile import LONG_AGO
from consolidator.service import corrections
from consolidator.store.memory import facts, lookup

facts_app = typer.Typer(cls=QueryGroup, invoke_without_command=True)
Identity = Annotated[str, typer.Argument(metavar="ID", help="Of a fact, as `facts` lists it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(facts_app, name="facts")


@facts_app.callback()
def facts_command(
    context: typer.Context,
    query: Annotated[str | None, typer.Argument(help="Words to look for.")] = None,
    agent: Agent = None,
    project: Project = None,
    peer: Annotated[str | None, typer.Option(help="Only facts about this peer.")] = None,
    history: Annotated[bool, typer.Option("--all", help="Superseded facts too.")] = False,
    rejected: Annotated[bool, typer.Option(help="What looked like a fact and may not become one, and why.")] = False,
    flagged: Annotated[
        bool, typer.Option("--flagged", help="Only those kept beside what they resemble, and why.")
    ] = False,
    as_of: Annotated[str | None, typer.Option(help="What was believed then: a date, a time, or 7d ago.")] = None,
    valid_at: Annotated[str | None, typer.Option(help="What was true then, by what is known now.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List facts: what users stated or a model read, each with the words it rests on (`explain ID`)."""
    if context.invoked_subcommand:
        return
    if rejected and (as_of or valid_at or history):
        raise UsageError("--rejected goes with none of --all, --as-of and --valid-at")

    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _), database.connection() as conn:
            if rejected:
                return await lookup.rejected(conn, query=query, agent=agent, project=project, peer=peer, limit=limit)
            now = database.clock.now()
            return await lookup.facts(
                conn, query=query, agent=agent, project=project, peer=peer, superseded_too=history, flagged=flagged,
                as_of=moment(as_of, now), valid_at=moment(valid_at, now), limit=limit,
            )  # fmt: skip

    found = run(work())
    if as_json:
        emit(found)
    elif rejected:
        told = ((f["id"], f["rejected"], short(f["quote"], 160), f["predicate"]) for f in found)
        table("not facts", ("id", "why not", "words", "would be"), told)
    else:
        _show(found)
        if flagged:
            for one in found:
                say(f"{one['id']}: {one['flagged']}", style="dim")


def _show(found: list[dict[str, Any]]) -> None:
    """Print facts as a table."""
    columns = ("id", "kind", "fact", "since", "sessions", "of")
    table(
        "facts",
        columns,
        (
            (f["id"], f["kind"], f["sentence"] + (" (superseded)" if f["superseded_at"] else ""),
             "" if f["valid_from"] == LONG_AGO else f["valid_from"], f["sessions"], place(f))
            for f in found
        ),
        right=("sessions",),
    )  # fmt: skip


@facts_app.command("forget")
def forget_command(identity: Identity, as_json: AsJson = False) -> None:
    """Believe a fact no longer, nor what says the same later. Its history stays (`explain ID`, `facts --all`)."""

    async def work() -> dict[str, Any]:
        async with opened() as (database, _):
            return await corrections.forget(database, identity)

    found = run(work())
    if as_json:
        emit(found)
    else:
        say(f"no longer believed: {found['sentence']}")


@facts_app.command("correct")
def correct_command(
    identity: Identity,
    text: Annotated[str, typer.Argument(help="The sentence as it should be.")],
    as_json: AsJson = False,
) -> None:
    """Say how a fact should be. A person's word outranks whatever the logs say; the old fact keeps its history."""

    async def work() -> dict[str, Any]:
        async with opened() as (database, _):
            return await corrections.correct(database, identity, text)

    found = run(work())
    if as_json:
        emit(found)
    else:
        say(f"believed from now on: {found['sentence']} ({found['id']})")


@facts_app.command("review")
def review_command(
    accept: Annotated[str | None, typer.Option(metavar="ID", help="Believe this one.")] = None,
    reject: Annotated[str | None, typer.Option(metavar="ID", help="Reject this one for good.")] = None,
    agent: Agent = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what waits in quarantine: orders that a tool, a page or a quoted text gave. Accept or reject one."""
    if accept and reject:
        raise UsageError("--accept and --reject go one at a time")

    async def work() -> list[dict[str, Any]]:
        async with opened() as (database, _):
            if word := accept or reject:
                return [await corrections.review(database, word, accept=accept is not None)]
            async with database.connection() as conn:
                return await facts.quarantined(conn, agent=agent, limit=limit)

    found = run(work())
    if as_json:
        emit(found)
    elif accept or reject:
        say(f"{'believed' if accept else 'rejected'}: {found[0]['sentence']}")
    else:
        told = ((c["id"], c["sentence"], short(c["quote"], 120), c["quarantined"], c["origin"]) for c in found)
        table("in quarantine", ("id", "would be", "words", "why", "session"), told)
