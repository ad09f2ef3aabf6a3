"""Checks of what runs: the database, the last night, what was set aside, and `serve` where it runs."""

from __future__ import annotations

import http.client
from datetime import timedelta

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.jobs.engine import describe_engine
from consolidator.service.address import find_service, read_json
from consolidator.service.clients.checks import Check
from consolidator.service.nights import receivers
from consolidator.settings import Settings
from consolidator.store.nights import runs

NIGHT_AGE = timedelta(hours=36)  # of the last consolidation, after which something is wrong


async def check_database(database: Database) -> list[Check]:
    """Return what is checked of the database: that it answers, when it was learned last, and what was set aside."""
    async with database.connection() as conn:
        version = conn.info.server_version
        last = await runs.find_last_ended(conn, "consolidation")
        letters = await runs.list_dead_letters(conn)
    checks = [Check("database", True, f"PostgreSQL {version // 10000}.{version % 10000}")]
    advice = "run `consolidator run consolidation`; `consolidator install --service` runs nights by itself"
    if last is None or last.finished_at is None:
        checks.append(Check("last night", False, "none yet", advice))
    else:
        is_recent = database.clock.now() - last.finished_at < NIGHT_AGE
        found = f"{last.status} at {last.finished_at:%Y-%m-%d %H:%M} UTC"
        failed = "`consolidator runs` says why it failed"
        passed, todo = last.status == "done" and is_recent, failed if is_recent else advice
        checks.append(Check("last night", passed, found, todo, last.finished_at))
    found = f"{len(letters)} dead letters" if letters else "nothing was set aside"
    checks.append(Check("dead letters", not letters, found, "`consolidator runs` shows them; `retry` learns again"))
    return checks


def check_engine(settings: Settings) -> Check:
    """Say what shares nights between processes, and whether it is installed."""
    try:
        return Check("night engine", True, describe_engine(settings))
    except UsageError as error:
        return Check("night engine", False, "DBOS is not installed", str(error))


def check_digest(settings: Settings) -> list[Check]:
    """Check the receivers of the digest without sending anything; nothing where there are none."""
    if not settings.digest_to:
        return []
    wrong = receivers.check_each(settings.digest_to)
    found = "; ".join(wrong) if wrong else f"{len(settings.digest_to)} receivers look right; nothing was sent"
    advice = "put CONSOLIDATOR_DIGEST_TO right; `consolidator learned --send` sends one now"
    return [Check("digest", not wrong, found, advice)]


def check_serve(settings: Settings) -> Check:
    """Ask this home's `serve` for its health; that it does not run is no failure: the hook service does the nights."""
    address = find_service(settings)
    if address is None:
        return Check("serve", True, "not running for this home: the hook service does the nights")
    try:
        state = read_json(f"{address}/healthz")
    except (OSError, ValueError, http.client.HTTPException):
        return Check("serve", True, "not running: the page is served alone, and the hook service does the nights")
    is_ok = isinstance(state, dict) and state.get("status") == "ok"
    why = state.get("failure") or state.get("database") if isinstance(state, dict) else "it answers without a state"
    return Check("serve", is_ok, "running and well" if is_ok else str(why), f"look at {address}/healthz")
