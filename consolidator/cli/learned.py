"""consolidator learned: what the agents learned, in one screen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any

import typer

from consolidator.cli.common import moment, opened, run
from consolidator.cli.output import (
    OUT,
    Agent,
    AsJson,
    Limit,
    Project,
    emit,
    entry,
    many,
    note,
    place,
    plain,
    say,
    table,
)
from consolidator.store.memory import learned

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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("learned")(learned_command)


def learned_command(
    since: Annotated[
        str | None, typer.Option(help="A date, a time, or a span ago such as 7d; else the latest night that learned.")
    ] = None,
    agent: Agent = None,
    project: Project = None,
    limit: Limit = 10,
    as_json: AsJson = False,
) -> None:
    """Say what your agents learned: new and changed facts, procedures, solutions, and what waits for your word."""

    async def work() -> dict[str, Any] | None:
        async with opened() as (database, _), database.connection() as conn:
            begin = moment(since, database.clock.now()) or await learned.latest(conn)
            return await learned.learned(conn, begin, agent=agent, project=project, limit=limit) if begin else None

    told = run(work())
    if as_json:
        emit(told)
    elif told is None:
        say("nothing yet: `consolidator import`, then `consolidator run consolidation`")
    else:
        _show(told)


def _show(told: dict[str, Any]) -> None:
    if OUT.is_terminal:
        _show_person(told)
    else:
        lines = ((what, text, sessions, place(one), one["id"]) for what, text, sessions, one in _lines(told))
        table("learned", ("what", "learned", "sessions", "of", "id"), lines)
    for name, (what, words) in _WAITING.items():
        if told["waiting"][name]:
            note(f"{told['waiting'][name]} {what}: consolidator {words}")


def _show_person(told: dict[str, Any]) -> None:
    """Print what was learned kind by kind: sentences are too long for a table."""
    one_night = told["nights"] == 1  # how many sessions several nights have read together, nobody knows later
    source = f"of {many(told['sessions'], 'session')}" if one_night else f"in {many(told['nights'], 'night')}"
    say(f"Since {plain(told['since'])}, from {many(told['seen'], 'event')} {source}:", style="bold")
    for what, found in groupby(_lines(told), key=lambda line: line[0]):
        say()
        say(_TITLES[what], style="bold")
        for _, text, sessions, one in found:
            entry(text, many(sessions, "session"), place(one), one["id"])
        if more := told["more"][what]:
            say(f"    and {more} more: --limit {told['limit'] + more}", style="dim")
    if not any(told[kind] for kind in learned.KINDS):
        say("  nothing new")


def _lines(told: dict[str, Any]) -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    for one in told["facts"]:
        yield "facts", one["sentence"], one["sessions"], one
    for one in told["changed"]:
        yield "changed", f"{one['before']} → {one['sentence']}", one["sessions"], one
    for one in told["procedures"]:
        yield "procedures", one["title"], one["support"], one
    for one in told["solutions"]:
        yield "solutions", one["body"]["line"], one["sessions"], one
