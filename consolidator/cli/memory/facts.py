"""consolidator facts: what is believed, and a person's corrections of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from consolidator.cli.common import open_configured, parse_moment, run_async
from consolidator.cli.output import (
    AgentOption,
    AsJson,
    Limit,
    ProjectOption,
    owner_name,
    print_json,
    print_line,
    print_table,
    short_id,
    shorten,
)
from consolidator.cli.query_group import QueryGroup
from consolidator.errors import UsageError
from consolidator.models.fact import CandidateRow, CitedCandidateRow, FactRow
from consolidator.models.memory_filter import FactFilter, MemoryFilter
from consolidator.service.memory.facts import (
    UNKNOWN_START,
    correct_fact,
    forget_fact,
    list_facts,
    list_quarantined,
    list_rejected,
    review_candidate,
    undo_change,
)

facts_app = typer.Typer(cls=QueryGroup, invoke_without_command=True)
FactId = Annotated[str, typer.Argument(metavar="ID", help="Of a fact, as `facts` lists it, or its beginning.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(facts_app, name="facts")


@facts_app.callback()
def facts_command(
    context: typer.Context,
    query: Annotated[
        str | None, typer.Argument(help="What to look for: `search` and words, or a phrase in quotes.")
    ] = None,
    agent: AgentOption = None,
    project: ProjectOption = None,
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
        raise UsageError("--rejected cannot be combined with --all, --as-of or --valid-at")
    if rejected:
        _list_rejected(query, agent, project, peer, limit, as_json=as_json)
        return

    async def work() -> list[FactRow]:
        async with open_configured() as (database, _):
            now = database.clock.now()
            return await list_facts(
                database,
                FactFilter(
                    agent,
                    project,
                    peer,
                    query=query,
                    include_superseded=history,
                    flagged=flagged,
                    as_of=parse_moment(as_of, now),
                    valid_at=parse_moment(valid_at, now),
                    limit=limit,
                ),
            )

    facts = run_async(work())
    if as_json:
        print_json(facts)
        return
    _print_facts(facts)
    if flagged:
        for fact in facts:
            print_line(f"{short_id(fact.id)}: {fact.flagged}", style="dim")


def _print_facts(facts: Sequence[FactRow]) -> None:
    print_table(
        "facts",
        ("id", "kind", "fact", "since", "sessions", "of"),
        (
            (
                short_id(fact.id),
                fact.kind,
                fact.sentence + (" (superseded)" if fact.superseded_at else ""),
                "" if fact.valid_from == UNKNOWN_START else fact.valid_from,
                fact.sessions,
                owner_name(fact.project, fact.peer, fact.agent),
            )
            for fact in facts
        ),
        right=("sessions",),
    )


def _list_rejected(
    query: str | None, agent: str | None, project: str | None, peer: str | None, limit: int, *, as_json: bool
) -> None:
    """Print what looked like a fact and may not become one."""

    async def work() -> list[CandidateRow]:
        async with open_configured() as (database, _):
            return await list_rejected(database, MemoryFilter(agent, project, peer, query=query, limit=limit))

    candidates = run_async(work())
    if as_json:
        print_json(candidates)
        return
    print_table(
        "not facts",
        ("id", "why not", "words", "would be"),
        (
            (short_id(candidate.id), candidate.rejected, shorten(candidate.quote, 160), candidate.predicate)
            for candidate in candidates
        ),
        nothing="nothing was rejected",
    )


@facts_app.command("forget")
def forget_command(fact_id: FactId, as_json: AsJson = False) -> None:
    """Stop believing a fact, and what says the same later. Its history stays (`explain ID`, `facts --all`)."""

    async def work() -> FactRow:
        async with open_configured() as (database, _):
            return await forget_fact(database, fact_id)

    fact = run_async(work())
    if as_json:
        print_json(fact)
    else:
        print_line(f"no longer believed: {fact.sentence}")


@facts_app.command("correct")
def correct_command(
    fact_id: FactId,
    text: Annotated[str, typer.Argument(help="The sentence as it should be.")],
    as_json: AsJson = False,
) -> None:
    """Correct a fact. A person's word outranks whatever the logs say; the old fact keeps its history."""

    async def work() -> FactRow:
        async with open_configured() as (database, _):
            return await correct_fact(database, fact_id, text)

    fact = run_async(work())
    if as_json:
        print_json(fact)
    else:
        print_line(f"believed from now on: {fact.sentence} ({short_id(fact.id)})")


@facts_app.command("undo")
def undo_command(fact_id: FactId, as_json: AsJson = False) -> None:
    """Take back that you forgot or corrected a fact: it is believed again as it was."""

    async def work() -> FactRow:
        async with open_configured() as (database, _):
            return await undo_change(database, fact_id)

    fact = run_async(work())
    if as_json:
        print_json(fact)
    else:
        print_line(f"believed again: {fact.sentence} ({short_id(fact.id)})")


@facts_app.command("review")
def review_command(
    accept: Annotated[str | None, typer.Option(metavar="ID", help="Believe this one.")] = None,
    reject: Annotated[str | None, typer.Option(metavar="ID", help="Reject this one for good.")] = None,
    agent: AgentOption = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what waits in quarantine: orders that a tool, a page or a quoted text gave. Accept or reject one."""
    if accept and reject:
        raise UsageError("--accept and --reject go one at a time")
    if candidate_id := accept or reject:
        _review(candidate_id, accept=accept is not None, as_json=as_json)
        return

    async def work() -> list[CitedCandidateRow]:
        async with open_configured() as (database, _):
            return await list_quarantined(database, agent=agent, limit=limit)

    candidates = run_async(work())
    if as_json:
        print_json(candidates)
        return
    print_table(
        "in quarantine",
        ("id", "would be", "words", "why", "session"),
        (
            (
                short_id(candidate.id),
                candidate.sentence,
                shorten(candidate.quote, 120),
                candidate.quarantined,
                candidate.origin,
            )
            for candidate in candidates
        ),
        nothing="nothing waits for review",
    )


def _review(candidate_id: str, *, accept: bool, as_json: bool) -> None:
    async def work() -> CandidateRow:
        async with open_configured() as (database, _):
            return await review_candidate(database, candidate_id, accept=accept)

    candidate = run_async(work())
    if as_json:
        print_json([candidate])
    else:
        print_line(f"{'believed' if accept else 'rejected'}: {candidate.sentence}")
