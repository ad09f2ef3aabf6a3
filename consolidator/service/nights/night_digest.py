"""A digest after each scheduled night: what is new since the last one, to whoever a person configured; or nothing.

A night is claimed before its digest is sent, so that no crash, retry or replica sends it twice. What was not sent, as
after a crash or where nobody took it, is part of the next one, as is what was learned between nights: by hand, by
backfills, from batches. No receiver's failure fails a night.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, UsageError
from consolidator.llm.redaction.redact import format_redacted_traceback, redact
from consolidator.memory.text.invisible import strip_invisible
from consolidator.models.audience import describe_peer, pluralize
from consolidator.models.memory_filter import LessonFilter
from consolidator.service.memory.compiling import list_compiled
from consolidator.service.memory.learned import (
    LearnedSection,
    count_by_kind,
    describe_waiting,
    list_sections,
    load_learned,
)
from consolidator.service.memory.lessons import describe_worth, list_lessons
from consolidator.service.memory.rules import RuleProposal, list_rules
from consolidator.service.nights.receivers import send_each
from consolidator.settings import Settings
from consolidator.store.memory.learned import LearnedNews
from consolidator.store.nights import night_digest

MAX_LINES = 5  # of one kind
MAX_CHARS = 200  # of what a log holds, on one line
_MAX_READ = 2000  # characters of a text that are looked at
_MAX_OWNER = 60
_MARKUP = str.maketrans({"<": "‹", ">": "›", "[": "(", "]": ")", "`": "'"})
_CALLED = re.compile(r"(?<!\w)@(?=\w)")  # @everyone
_SCHEME = re.compile(r"\b([a-z][a-z0-9+.-]*):(?=//)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NightDigest:
    """What is told after a night."""

    title: str
    body: str  # Markdown


def compose_digest(
    news: LearnedNews, rules: Sequence[RuleProposal], *, told_waiting: Mapping[str, int], now: datetime, zone: tzinfo
) -> NightDigest | None:
    """Return a digest of what is new, what failed again and what waits; None where nothing is new.

    `told_waiting` is what waited when a digest was sent last: what waits is new only where it is more than that.
    """
    waiting = count_by_kind(news.waiting)
    sections = list_sections(news)
    has_more_waiting = any(count > told_waiting.get(name, 0) for name, count in waiting.items())
    if not sections and not has_more_waiting:
        return None
    failed = sum(len(section.lines) + section.more for section in sections if section.kind == "failed_again")
    new = sum(len(section.lines) + section.more for section in sections) - failed
    counts = ((new, "new"), (failed, "failed again"), (sum(waiting.values()), "waiting"))
    title = f"What your agents learned by {now.astimezone(zone):%Y-%m-%d}: " + ", ".join(
        f"{count} {what}" for count, what in counts if count
    )
    blocks = [[f"Since {news.since.astimezone(zone):%Y-%m-%d %H:%M %Z}."]]
    failures = [section for section in sections if section.kind == "failed_again"]
    others = [section for section in sections if section.kind != "failed_again"]
    blocks += [_section_lines(section) for section in failures]
    if waiting:
        blocks.append(_waiting_lines(waiting, rules))
    blocks += [_section_lines(section) for section in others]
    return NightDigest(title, "\n\n".join("\n".join(lines) for lines in blocks) + "\n")


def _section_lines(section: LearnedSection) -> list[str]:
    lines = [f"**{section.title}**", ""]
    for line in section.lines[:MAX_LINES]:
        owner = describe_peer(next(filter(None, line.owner), ""))
        sessions = pluralize(line.sessions, "session")
        if section.kind == "solutions":  # the line says it
            sessions = ""
        lines.append(f"- {_quote(line.text)} ({', '.join(filter(None, (sessions, _quote(owner, _MAX_OWNER))))})")
    if more := max(0, len(section.lines) - MAX_LINES) + section.more:
        lines.append(f"- and {more} more: `consolidator learned`")
    return lines


def _waiting_lines(waiting: Mapping[str, int], rules: Sequence[RuleProposal]) -> list[str]:
    lines = ["**Waits for a word from you**", ""]
    for name, line, command in describe_waiting(waiting):
        lines.append(f"- {line}: `{command}`")
        if name == "rules":
            lines += [
                f"- “{_quote(rule.rule)}” (asked in {pluralize(rule.sessions, 'session')})"
                for rule in rules[:MAX_LINES]
            ]
    return lines


def _quote(text: str, width: int = MAX_CHARS) -> str:
    """Return what a log holds as one line of plain text."""
    line = " ".join(strip_invisible(redact(text[:_MAX_READ])).split())
    line = line if len(line) <= width else f"{line[: width - 1]}…"
    return _SCHEME.sub(r"\1 ", _CALLED.sub("＠", line.translate(_MARKUP)))


log = logging.getLogger("consolidator.digest")


async def send_night_digest(database: Database, settings: Settings, run_id: str) -> None:
    """Send the digest of a scheduled night that ended, where one is wanted; log what failed."""
    if not settings.digest_to:
        return
    try:
        await _send_night_digest(database, settings, run_id)
    except DatabaseUnavailable as error:
        log.warning("no digest after the night %s: %s", run_id, error)
    except Exception as error:  # noqa: BLE001 - the edge: a night does not fail for its digest
        log.error("no digest after the night %s: %s", run_id, format_redacted_traceback(error))


async def preview_digest(
    database: Database, settings: Settings, *, since: datetime | None = None
) -> NightDigest | None:
    """Return the digest of what was learned since a moment, or else since the latest night that learned."""
    news = await load_learned(database, since, limit=2 * MAX_LINES)
    return None if news is None else await _compose(database, settings, news, told_waiting={})


async def send_digest(database: Database, settings: Settings, *, since: datetime | None = None) -> NightDigest | None:
    """Send now what `preview_digest` returns; the next night's digest is what it would have been.

    Raises UsageError where no receiver is configured, and for those that did not take it.
    """
    if not settings.digest_to:
        raise UsageError("nobody receives digests: CONSOLIDATOR_DIGEST_TO takes addresses; docs/nights.md shows some")
    digest = await preview_digest(database, settings, since=since)
    if digest is not None and (failures := await send_each(settings.digest_to, digest.title, digest.body)):
        raise UsageError("of CONSOLIDATOR_DIGEST_TO " + "; ".join(failures))
    return digest


async def _send_night_digest(database: Database, settings: Settings, run_id: str) -> None:
    async with database.transaction() as conn:
        state = await night_digest.claim(conn, run_id)
        if state is None:
            return
        since = state.begin or await night_digest.find_previous_night(conn, run_id)
    until = database.clock.now() + datetime.resolution  # what is recorded now is told now
    news = await load_learned(database, since, limit=2 * MAX_LINES)
    if news is None:
        return
    digest = await _compose(database, settings, news, told_waiting=state.waiting)
    failures = [] if digest is None else await send_each(settings.digest_to, digest.title, digest.body)
    for failure in failures:
        log.warning("CONSOLIDATOR_DIGEST_TO: the digest after the night %s was not sent to %s", run_id, failure)
    if len(failures) < len(settings.digest_to):
        async with database.transaction() as conn:
            await night_digest.mark_told(conn, until=until, waiting=count_by_kind(news.waiting))


async def _compose(
    database: Database, settings: Settings, news: LearnedNews, *, told_waiting: dict[str, int]
) -> NightDigest | None:
    rules = await list_rules(database, limit=MAX_LINES)
    zone = ZoneInfo(settings.timezone)
    digest = compose_digest(news, rules, told_waiting=told_waiting, now=database.clock.now(), zone=zone)
    rows = await list_lessons(database, LessonFilter(limit=_MAX_READ))
    rows_told = [row for row in rows if row.body.get("worth", {}).get("sessions") and row.harm is None][:MAX_LINES]
    blocks = {
        "What came of telling lessons": [f"- {_quote(row.line)} {describe_worth(row)}" for row in rows_told],
        "Compiled procedures that sessions now do otherwise": [
            f"- {_quote(tool.title)}: {'; '.join(map(_quote, tool.drift))}"
            for tool in await list_compiled(database) if tool.drift
        ][:MAX_LINES],
    }  # fmt: skip
    more = [line for title, lines in blocks.items() if lines for line in ("", f"**{title}**", "", *lines)]
    return digest and replace(digest, body="\n".join([digest.body.removesuffix("\n"), *more, ""]))
