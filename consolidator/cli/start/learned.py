"""consolidator learned: what the agents learned, in one screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, NamedTuple

import typer

from consolidator.cli.common import open_configured, parse_moment, run_async
from consolidator.cli.output import (
    OUT,
    AgentOption,
    AsJson,
    Limit,
    ProjectOption,
    owner_name,
    pluralize,
    print_entry,
    print_json,
    print_line,
    print_note,
    print_table,
    sanitize,
    short_id,
)
from consolidator.service.memory.learned import LearnedNews, NightSumsRow, load_learned

_TITLES = {
    "facts": "New facts",
    "changed": "Changed facts",
    "procedures": "New procedures: what is done again and again",
    "solutions": "New solutions: what failed, and what fixed it",
}
_WAITING = {
    "to_review": ("to accept or reject", "facts review"),
    "flagged": ("kept beside what they resemble", "facts --flagged"),
    "dead_letters": ("events that could not be learned from", "retry"),
    "calls": ("sessions with a call that waits", "sessions --attention"),
}


class _Line(NamedTuple):
    """One thing that was learned."""

    kind: str
    text: str
    sessions: int
    owner: str
    id: str


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("learned")(learned_command)


def learned_command(
    since: Annotated[
        str | None, typer.Option(help="A date, a time, or a span ago such as 7d; else the latest night that learned.")
    ] = None,
    agent: AgentOption = None,
    project: ProjectOption = None,
    peer: Annotated[str | None, typer.Option(help="Only what this person may see.")] = None,
    limit: Limit = 10,
    as_json: AsJson = False,
) -> None:
    """Show what your agents learned: new and changed facts, procedures, solutions, and what waits for you."""

    async def work() -> LearnedNews | None:
        async with open_configured() as (database, _):
            begin = parse_moment(since, database.clock.now())
            return await load_learned(database, begin, agent=agent, project=project, peer=peer, limit=limit)

    news = run_async(work())
    if as_json:
        print_json(None if news is None else news.as_json())
    elif news is None:
        print_line("nothing yet: `consolidator import`, then `consolidator run consolidation`")
    else:
        _print_news(news)


def _print_news(news: LearnedNews) -> None:
    if OUT.is_terminal:
        print_screen(news)
    else:
        lines = ((line.kind, line.text, line.sessions, line.owner, line.id) for line in _lines(news))
        print_table("learned", ("what", "learned", "sessions", "of", "id"), lines)
    if news.steering is not None and news.steering.steers:
        print_note(f"people {news.steering}")
    waiting = {} if news.waiting is None else asdict(news.waiting)
    for name, (what, command) in _WAITING.items():
        if waiting.get(name):
            print_note(f"{waiting[name]} {what}: consolidator {command}")


def print_screen(news: LearnedNews) -> None:
    """Print what was learned kind by kind: sentences are too long for a table."""
    print_line(f"Since {sanitize(news.since)}{_source(news.sums)}:", style="bold")
    lines = list(_lines(news))
    for kind, group in groupby(lines, key=lambda line: line.kind):
        print_line()
        print_line(_TITLES[kind], style="bold")
        for line in group:
            print_entry(line.text, pluralize(line.sessions, "session"), line.owner, short_id(line.id))
        if more := news.more[kind]:
            print_line(f"    and {more} more: --limit {news.limit + more}", style="dim")
    if not lines:
        print_line("  nothing new")


def _source(sums: NightSumsRow | None) -> str:
    """Return from how much it was learned; "" where that is not told."""
    if sums is None:
        return ""
    # How many sessions several nights have read together is not known: one may have been read by each.
    read = f"of {pluralize(sums.sessions, 'session')}" if sums.nights == 1 else f"in {pluralize(sums.nights, 'night')}"
    return f", from {pluralize(sums.seen, 'event')} {read}"


def _lines(news: LearnedNews) -> Iterator[_Line]:
    for fact in news.facts:
        yield _Line("facts", fact.sentence, fact.sessions, owner_name(fact.project, fact.peer, fact.agent), fact.id)
    for fact in news.changed:
        text, owner = f"{fact.before} → {fact.sentence}", owner_name(fact.project, fact.peer, fact.agent)
        yield _Line("changed", text, fact.sessions, owner, fact.id)
    for row in news.procedures:
        yield _Line("procedures", row.title, row.support, owner_name(row.project, row.agent), row.id)
    for solution in news.solutions:
        owner = owner_name(solution.project, solution.agent)
        yield _Line("solutions", solution.body["line"], solution.sessions, owner, solution.id)
