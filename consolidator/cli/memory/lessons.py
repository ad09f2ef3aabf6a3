"""consolidator learned, commands, friction and lessons: what was learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from consolidator.cli.common import OwnerOptions, parse_moment, run, run_configured
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
from consolidator.models.memory_filter import LessonFilter, MemoryScope
from consolidator.service.database import Database
from consolidator.service.hooks.usage import exchange_warnings
from consolidator.service.memory import lessons
from consolidator.service.memory.lessons import LessonRow
from consolidator.settings import Settings

if TYPE_CHECKING:
    from consolidator.service.memory.learned import LearnedNews, NightSumsRow
    from consolidator.service.nights.night_digest import NightDigest


_LESSONS = table(
    "lessons",
    "id, lesson, >sessions, >worked, >failed, worth, agents, of",
    entry=lambda row: (
        _line(row), pluralize(row.body["sessions"], "session"),
        f"worked {row.body['successes']}, failed {row.body['failures']}", lessons.describe_worth(row) or "-",
        ", ".join(row.body["agents"]), owner_name(row.project), short_id(row.id),
    ),
    id=lambda row: short_id(row.id),
    lesson=lambda row: _line(row),
    sessions=lambda row: row.body["sessions"],
    worked=lambda row: row.body["successes"],
    failed=lambda row: row.body["failures"],
    worth=lambda row: lessons.describe_worth(row) or "-",
    agents=lambda row: ", ".join(row.body["agents"]),
    of=lambda row: owner_name(row.project),
)  # fmt: skip


def commands_command(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORDS]", help="A purpose (test, lint, build) or other words.")
    ] = None,
    *,
    owner: OwnerOptions,
    limit: Limit = 20,
) -> None:
    """List how commands are run here, and which never work: of all agents of a person, the most helpful first."""
    filters = LessonFilter(**owner.values(), limit=limit)
    emit(run(lessons.find_lessons_about, " ".join(words or []), filters), _LESSONS)


def friction_command(*, owner: OwnerOptions, limit: Limit = 20) -> None:
    """List what failed in three sessions or more, and what then worked: what failed in most sessions first."""
    emit(run(lessons.list_friction, LessonFilter(**owner.values(), limit=limit)), _LESSONS)


def lessons_command(
    words: Annotated[list[str] | None, typer.Argument(metavar="[WORDS]", help="Words of a lesson.")] = None,
    *,
    owner: OwnerOptions,
    pin: Annotated[str | None, typer.Option(metavar="ID", help="Tell this lesson whatever came of it.")] = None,
    unpin: Annotated[str | None, typer.Option(metavar="ID", help="Let its figures decide again.")] = None,
    correct: Annotated[
        str | None, typer.Option(metavar="ID", help="Let calls be corrected by this lesson, each shown before it runs.")
    ] = None,
    uncorrect: Annotated[str | None, typer.Option(metavar="ID", help="Correct no more calls by it.")] = None,
    limit: Limit = 20,
) -> None:
    """List every lesson with what it is worth: how its situation went where it was told, and where not."""

    async def load(database: Database, settings: Settings) -> list[LessonRow]:
        if (identity := pin or unpin or correct or uncorrect) is None:
            filters = LessonFilter(**owner.values(), query=" ".join(words or []) or None, limit=limit)
            return await lessons.list_lessons(database, filters)
        if pin or unpin:
            row = await lessons.choose_lesson(database, identity, pinned=pin is not None)
        else:
            row = await lessons.choose_lesson(database, identity, corrects=correct is not None)
        await exchange_warnings(database, settings.home)  # the hook before calls says the next one by it
        return [row]

    emit(run_configured(load), _LESSONS)


def _line(row: LessonRow) -> str:
    """Return a lesson, and what only a person is shown of it."""
    if row.harm is not None:
        return f"{row.line} [hostile: told to no agent, since it {row.harm}]"
    marks = [f"told no more: {row.withheld}"] if row.withheld else ["pinned"] * row.pinned
    marks += ["corrects calls"] * row.corrects
    return " ".join([row.line, *(f"[{mark}]" for mark in marks)])


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
    from consolidator.service.memory.learned import load_learned  # lists of lessons load nothing of it

    async def load(database: Database) -> LearnedNews | None:
        begin = parse_moment(since, database.clock.now())
        return await load_learned(database, begin, MemoryScope(**owner.values()), limit=limit)

    emit(run(load), _print_news, encode=lambda news: None if news is None else news.as_json())


def _show_digest(since: str | None, *, is_sent: bool) -> None:
    """Send the digest, or print it."""
    from consolidator.service.nights.night_digest import preview_digest, send_digest

    make = send_digest if is_sent else preview_digest

    async def load(database: Database, settings: Settings) -> NightDigest | None:
        return await make(database, settings, since=parse_moment(since, database.clock.now()))

    digest = run_configured(load)
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
    from consolidator.service.memory.learned import count_by_kind, describe_waiting, list_sections

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
    if news.steering is not None and news.steering.succeeded + news.steering.failed:
        print_note(f"people {news.steering}")
    for _, line, command in describe_waiting(count_by_kind(news.waiting)):
        print_note(f"{line}: {command}")


def print_screen(news: LearnedNews) -> None:
    """Print what was learned kind by kind: sentences are too long for a table."""
    from consolidator.service.memory.learned import list_sections

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
    print_line()
    print_line("what was learned before: `consolidator learned --since 30d`", style="dim")


def _source(sums: NightSumsRow | None) -> str:
    """Return from how much it was learned; "" where that is not told."""
    if sums is None:
        return ""
    # How many sessions several nights have read together is not known: one may have been read by each.
    read = f"of {pluralize(sums.sessions, 'session')}" if sums.nights == 1 else f"in {pluralize(sums.nights, 'night')}"
    return f", from {pluralize(sums.seen, 'event')} {read}"
