"""consolidator learned: what the agents learned, in one screen."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from consolidator.cli.common import parse_moment, run
from consolidator.cli.options import OwnerOptions
from consolidator.cli.output import (
    OUT,
    Limit,
    emit,
    owner_name,
    pluralize,
    print_entry,
    print_line,
    print_note,
    sanitize,
    short_id,
    table,
)
from consolidator.cli.streams import is_json
from consolidator.errors import UsageError
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.memory.learned import LearnedNews, NightSumsRow, list_sections, load_learned
from consolidator.service.nights.night_digest import preview_digest, send_digest

_WAITING = {
    "rules": ("to accept or dismiss as a rule", "rules"),
    "to_review": ("to accept or reject", "facts --review"),
    "flagged": ("kept beside what they resemble", "facts --flagged"),
    "dead_letters": ("events that could not be learned from", "retry"),
    "calls": ("sessions with a call that waits", "session list --attention"),
}


_TABLE = table("learned", "what=kind, learned=text, sessions, of, id", of=lambda line: owner_name(*line["owner"]))


def learned_command(
    since: Annotated[
        str | None, typer.Option(help="A date, a time, or a span ago such as 7d; else the latest night that learned.")
    ] = None,
    *,
    owner: OwnerOptions,
    limit: Limit = 10,
    digest: Annotated[bool, typer.Option("--digest", help="Show the digest that a night would send.")] = False,
    send: Annotated[bool, typer.Option("--send", help="Send the digest now, to CONSOLIDATOR_DIGEST_TO.")] = False,
) -> None:
    """Show what your agents learned: new and changed facts, lessons, procedures and fixes, and what waits for you."""

    if digest or send:
        if any(owner.values().values()) or is_json():
            raise UsageError("a digest is of all of memory, and text: --digest and --send go with --since alone")
        _show_digest(since, is_sent=send)
        return

    news = run(
        lambda database, _: load_learned(
            database, parse_moment(since, database.clock.now()), MemoryScope(**owner.values()), limit=limit
        )
    )
    emit(news, _print_news, encode=lambda news: None if news is None else news.as_json())


def _show_digest(since: str | None, *, is_sent: bool) -> None:
    """Send the digest, or print it."""
    make = send_digest if is_sent else preview_digest
    digest = run(lambda database, settings: make(database, settings, since=parse_moment(since, database.clock.now())))
    if digest is None:
        print_line("nothing new, so nothing is sent")
    elif is_sent:
        print_line(f"sent: {digest.title}")
    else:
        print_line(digest.title, style="bold")
        print_line()
        for line in digest.body.splitlines():
            print_line(line)


def _print_news(news: LearnedNews | None) -> None:
    if news is None:
        print_line("nothing yet: `consolidator import`, then `consolidator run consolidation`")
        return
    if OUT.is_terminal:
        print_screen(news)
    else:
        _TABLE.print(
            {"kind": section.kind, "text": line.text, "sessions": line.sessions, "owner": line.owner, "id": line.id}
            for section in list_sections(news)
            for line in section.lines
        )
    if news.steering is not None and news.steering.steers:
        print_note(f"people {news.steering}")
    waiting = {} if news.waiting is None else asdict(news.waiting)
    for name, (what, command) in _WAITING.items():
        if waiting.get(name):
            print_note(f"{waiting[name]} {what}: consolidator {command}")


def print_screen(news: LearnedNews) -> None:
    """Print what was learned kind by kind: sentences are too long for a table."""
    print_line(f"Since {sanitize(news.since)}{_source(news.sums)}:", style="bold")
    sections = list_sections(news)
    for section in sections:
        print_line()
        print_line(section.title, style="bold")
        for line in section.lines:
            print_entry(line.text, pluralize(line.sessions, "session"), owner_name(*line.owner), short_id(line.id))
        if section.more:
            print_line(f"    and {section.more} more: --limit {news.limit + section.more}", style="dim")
    if not sections:
        print_line("  nothing new")


def _source(sums: NightSumsRow | None) -> str:
    """Return from how much it was learned; "" where that is not told."""
    if sums is None:
        return ""
    # How many sessions several nights have read together is not known: one may have been read by each.
    read = f"of {pluralize(sums.sessions, 'session')}" if sums.nights == 1 else f"in {pluralize(sums.nights, 'night')}"
    return f", from {pluralize(sums.seen, 'event')} {read}"
