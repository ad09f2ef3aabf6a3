"""A digest after each scheduled night: what is new since the last one, to whoever a person configured; or nothing.

A night is claimed before its digest is sent, so that no crash, retry or replica sends it twice. What was not sent, as
after a crash or where nobody took it, is part of the next one, as is what was learned between nights: by hand, by
backfills, from batches. No receiver's failure fails a night.
"""

from __future__ import annotations

import logging
from datetime import datetime
from zoneinfo import ZoneInfo

from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, UsageError
from consolidator.llm.redaction.redact import format_redacted_traceback
from consolidator.service.memory.learned import load_learned
from consolidator.service.memory.rules import list_rules
from consolidator.service.nights.digest_text import MAX_LINES, NightDigest, compose_digest, count_waiting
from consolidator.service.nights.receivers import send_each
from consolidator.settings import Settings
from consolidator.store.memory.learned import LearnedNews
from consolidator.store.nights import night_digest

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
            await night_digest.mark_told(conn, until=until, waiting=count_waiting(news))


async def _compose(
    database: Database, settings: Settings, news: LearnedNews, *, told_waiting: dict[str, int]
) -> NightDigest | None:
    rules = await list_rules(database, limit=MAX_LINES)
    zone = ZoneInfo(settings.timezone)
    return compose_digest(news, rules, told_waiting=told_waiting, now=database.clock.now(), zone=zone)
