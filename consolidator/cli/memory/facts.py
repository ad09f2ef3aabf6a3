"""consolidator facts: what is believed, and a person's corrections of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from consolidator.cli.common import parse_moment, run
from consolidator.cli.options import OwnerOptions, spread
from consolidator.cli.output import AgentOption, Limit, emit, owner_name, print_line, short_id, shorten, table
from consolidator.cli.query_group import QueryGroup
from consolidator.errors import UsageError
from consolidator.models.fact import UNKNOWN_START, FactRow
from consolidator.models.memory_filter import FactFilter, MemoryFilter
from consolidator.service.memory.facts import (
    correct_fact,
    list_facts,
    list_quarantined,
    list_rejected,
    review_candidate,
    undo_change,
)

facts_app = typer.Typer(cls=QueryGroup, invoke_without_command=True)
FactId = Annotated[str, typer.Argument(metavar="ID", help="A fact's id, as `facts` lists it, or its beginning.")]
_FACTS = table(
    "facts",
    "id, kind, fact, since, >sessions, of",
    id=lambda fact: short_id(fact.id),
    fact=lambda fact: fact.sentence + (" (superseded)" if fact.superseded_at else ""),
    since=lambda fact: "" if fact.valid_from == UNKNOWN_START else fact.valid_from,
    of=lambda fact: owner_name(fact.project, fact.peer, fact.agent),
)
_REJECTED = table(
    "not facts",
    "id, why not=rejected, words, would be=predicate",
    nothing="nothing was rejected",
    id=lambda candidate: short_id(candidate.id),
    words=lambda candidate: shorten(candidate.quote, 160),
)
_QUARANTINED = table(
    "in quarantine",
    "id, would be=sentence, words, why=quarantined, session=origin",
    nothing="nothing waits for review",
    id=lambda candidate: short_id(candidate.id),
    words=lambda candidate: shorten(candidate.quote, 120),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactOptions:
    """Which facts are listed, and as of when."""

    history: Annotated[bool, typer.Option("--all", help="Superseded facts too.")] = False
    rejected: Annotated[bool, typer.Option(help="Candidates that may not become facts, and why.")] = False
    flagged: Annotated[
        bool, typer.Option("--flagged", help="Only facts that are kept beside similar ones, and why.")
    ] = False
    as_of: Annotated[str | None, typer.Option(help="What was believed then: a date, a time, or 7d ago.")] = None
    valid_at: Annotated[str | None, typer.Option(help="What was true then, by what is believed now.")] = None

    def values(self, now: datetime) -> dict[str, Any]:
        """Return the options as fields of a `FactFilter`. Raises UsageError for a time that is none."""
        times = {"as_of": parse_moment(self.as_of, now), "valid_at": parse_moment(self.valid_at, now)}
        return times | {"include_superseded": self.history, "flagged": self.flagged}


@facts_app.callback()
@spread
def facts_command(
    context: typer.Context,
    query: Annotated[
        str | None, typer.Argument(help="What to look for: `search` and words, or a phrase in quotes.")
    ] = None,
    *,
    owner: OwnerOptions,
    options: FactOptions,
    limit: Limit = 50,
) -> None:
    """List facts: what users stated or a model read, each with the words it rests on (`explain ID`)."""
    if context.invoked_subcommand:
        return
    if options.rejected and (options.as_of or options.valid_at or options.history):
        raise UsageError("--rejected cannot be combined with --all, --as-of or --valid-at")
    if options.rejected:
        rejected = run(
            lambda database, _: list_rejected(database, MemoryFilter(**owner.values(), query=query, limit=limit))
        )
        emit(rejected, _REJECTED)
        return
    facts = run(
        lambda database, _: list_facts(
            database, FactFilter(**owner.values(), **options.values(database.clock.now()), query=query, limit=limit)
        )
    )
    emit(facts, _print_flagged if options.flagged else _FACTS)


def _print_flagged(facts: Sequence[FactRow]) -> None:
    _FACTS.print(facts)
    for fact in facts:
        print_line(f"{short_id(fact.id)}: {fact.flagged}", style="dim")


@facts_app.command("correct")
def correct_command(
    fact_id: FactId, text: Annotated[str, typer.Argument(help="The sentence as it should be.")]
) -> None:
    """Correct a fact. A person's word outranks whatever the logs say; the old fact keeps its history."""
    fact = run(lambda database, _: correct_fact(database, fact_id, text))
    emit(fact, f"believed from now on: {fact.sentence} ({short_id(fact.id)})")


@facts_app.command("undo")
def undo_command(fact_id: FactId) -> None:
    """Take back that you forgot or corrected a fact: it is believed again as it was."""
    fact = run(lambda database, _: undo_change(database, fact_id))
    emit(fact, f"believed again: {fact.sentence} ({short_id(fact.id)})")


@facts_app.command("review")
def review_command(
    accept: Annotated[str | None, typer.Option(metavar="ID", help="Believe this candidate.")] = None,
    reject: Annotated[str | None, typer.Option(metavar="ID", help="Reject this candidate for good.")] = None,
    agent: AgentOption = None,
    limit: Limit = 50,
) -> None:
    """List what waits in quarantine: orders that a tool, a page or a quoted text gave. Accept or reject one."""
    if accept and reject:
        raise UsageError("--accept and --reject go one at a time")
    if candidate_id := accept or reject:
        candidate = run(lambda database, _: review_candidate(database, candidate_id, accept=accept is not None))
        line = f"{'believed' if accept else 'rejected'}: {candidate.sentence}"
        emit([candidate], line)
    else:
        candidates = run(lambda database, _: list_quarantined(database, agent=agent, limit=limit))
        emit(candidates, _QUARANTINED)
