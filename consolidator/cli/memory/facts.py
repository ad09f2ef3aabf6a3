"""consolidator facts: what is believed, and a person's corrections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Annotated, Any

import typer

from consolidator.cli.common import OwnerOptions, QueryWords, join_query, parse_moment, require_at_most_one, run
from consolidator.cli.output import Limit, emit, owner_name, print_line, short_id, shorten, table
from consolidator.errors import UsageError
from consolidator.models.fact import UNKNOWN_START, FactRow
from consolidator.models.memory_filter import FactFilter, MemoryFilter
from consolidator.service.database import Database
from consolidator.service.memory.facts import (
    list_facts,
    list_quarantined,
    list_rejected,
    review_candidate,
    undo_change,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FactActions:
    """What a person says about a fact, or about a candidate in quarantine."""

    correct: Annotated[
        str | None, typer.Option(metavar="ID", help="Put the words in place of this fact or lesson.")
    ] = None
    undo: Annotated[
        str | None, typer.Option(metavar="ID", help="Take back that you forgot or corrected this fact.")
    ] = None
    review: Annotated[
        bool, typer.Option("--review", help="Quarantine: orders that a tool, a page or a quoted text gave.")
    ] = False
    accept: Annotated[str | None, typer.Option(metavar="ID", help="Believe this candidate in quarantine.")] = None
    reject: Annotated[str | None, typer.Option(metavar="ID", help="Reject this candidate for good.")] = None


def facts_command(
    words: QueryWords = None,
    *,
    owner: OwnerOptions,
    options: FactOptions,
    actions: FactActions,
    limit: Limit = 50,
) -> None:
    """List facts: what users stated or a model read, each with the words it rests on (`explain ID`).

    Or correct one: `facts --correct ID "The package manager is pnpm."` outranks whatever the logs say.
    """
    require_at_most_one(**asdict(replace(actions, review=False)), rejected=options.rejected)
    query = join_query(words)
    if actions.correct:
        from consolidator.service.memory.remember import correct  # listing facts loads nothing of it

        fact = run(correct, actions.correct, query or "")
        emit(fact, f"believed from now on: {fact.sentence} ({short_id(fact.id)}; `--undo` takes it back)")
    elif actions.undo:
        fact = run(undo_change, actions.undo or "")
        emit(fact, f"believed again: {fact.sentence} ({short_id(fact.id)})")
    elif candidate_id := actions.accept or actions.reject:
        is_accepted = actions.accept is not None
        candidate = run(review_candidate, candidate_id, accept=is_accepted)
        emit([candidate], f"{'believed' if is_accepted else 'rejected'}: {candidate.sentence}")
    elif actions.review:
        emit(run(list_quarantined, agent=owner.agent, limit=limit), _QUARANTINED)
    elif options.rejected:
        if options.as_of or options.valid_at or options.history:
            raise UsageError("--rejected cannot be combined with --all, --as-of or --valid-at")
        emit(run(list_rejected, MemoryFilter(**owner.values(), query=query, limit=limit)), _REJECTED)
    else:

        async def load(database: Database) -> list[FactRow]:
            filters = options.values(database.clock.now())
            return await list_facts(database, FactFilter(**owner.values(), query=query, limit=limit, **filters))

        emit(run(load), _print_flagged if options.flagged else _FACTS)


def _print_flagged(facts: Sequence[FactRow]) -> None:
    _FACTS.print(facts)
    for fact in facts:
        print_line(f"{short_id(fact.id)}: {fact.flagged}", style="dim")
