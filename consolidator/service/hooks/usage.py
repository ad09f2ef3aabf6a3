"""What hooks put into agents' contexts: counted, and judged by what the agents did then."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulid import ULID

from consolidator.database import Database
from consolidator.models.injection import InjectionRow
from consolidator.store.log import events
from consolidator.store.memory import injections
from consolidator.store.sessions.sessions import imported_session_id

if TYPE_CHECKING:
    from consolidator.service.hooks.payload import HookCall
    from consolidator.service.memory.telling.brief import Brief

MAX_EVENTS_JUDGED = 200  # of a session, from the failed call on


async def count_injection(database: Database, call: HookCall, answer: Brief) -> None:
    """Count an answer that was shown."""
    row = InjectionRow(
        id=str(ULID()),
        session_id=call.session_id,
        agent=call.agent,
        project=call.project,
        moment=answer.moment,
        cited=answer.block.cited,
        tokens=answer.block.tokens,
        call_id=call.call_id,
        fix=answer.fix,
        outcome=None,
        created_at=database.clock.now(),
    )
    async with database.transaction(flushed=False) as conn:
        await injections.add(conn, row)


async def exchange_warnings(database: Database, home: Path) -> None:
    """Leave the hook before calls what it is to say, and count what it has said."""
    from consolidator.jobs.merging.warning_file import write_warnings  # `status` reads only the sums

    await write_warnings(database, home)
    await count_warnings(database, home)


async def count_warnings(database: Database, home: Path) -> int:
    """Count what the hook before calls has said since the last time; return how often that was."""
    from consolidator.jobs.merging.warning_file import DIRECTORY, WARNED

    path = home / DIRECTORY / WARNED
    taken = path.with_name(f"{WARNED}.taken")
    with suppress(FileNotFoundError):
        path.rename(taken)  # what is said from now on begins a new file
    try:
        lines = taken.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return 0
    rows = [row for line in lines if (row := _read_warning(line, database.clock.now())) is not None]
    async with database.transaction(flushed=False) as conn:
        for row in rows:
            await injections.add(conn, row)
    taken.unlink()
    return len(rows)


def _read_warning(line: str, now: datetime) -> InjectionRow | None:
    """Return what a line of the hook says; None for one that is broken."""
    try:
        warning = json.loads(line)
        client, session, call_id = str(warning["client"]), str(warning["session_id"]), warning.get("tool_use_id")
        return InjectionRow(
            id=str(ULID()),
            session_id=imported_session_id(client, session),
            agent=client,
            project=str(warning["project"]),
            moment="before_call",
            cited=[f"lesson:{warning['id']}"],
            tokens=int(warning["tokens"]),
            call_id=call_id if isinstance(call_id, str) else None,
            fix={"correction": warning["correction"]} if warning.get("correction") in ("possible", "made") else {},
            outcome=None,
            created_at=min(now, datetime.fromtimestamp(float(warning["at"]), UTC)) if "at" in warning else now,
        )
    except (ValueError, TypeError, KeyError, OverflowError, OSError):
        return None


async def judge_fixes(database: Database, session_id: str) -> int:
    """Look in a session's log whether the fixes that it was shown were of use; return how many are known now."""
    from consolidator.memory.solutions.fix_outcome import judge_fix

    judged = 0
    async with database.connection() as conn:
        for injection in await injections.list_unjudged(conn, session_id):
            if injection.call_id is None:
                continue
            seq = await injections.find_call(conn, session_id, injection.call_id)
            if seq is None:
                continue
            following = await events.read(conn, session_id, after=seq - 1, limit=MAX_EVENTS_JUDGED)
            outcome = judge_fix(following, injection.call_id, injection.fix)
            if outcome is not None:
                await injections.judge(conn, injection.id, outcome)
                judged += 1
    return judged


async def summarize_injections(database: Database, *, days: int = 30) -> dict[str, dict[str, Any]]:
    """Return how often hooks answered in the last days, how many tokens, and what came of fixes, by moment."""
    async with database.connection() as conn:
        sums = await injections.sum_by_moment(conn, database.clock.now() - timedelta(days=days))
    return {row.moment: {name: value for name, value in asdict(row).items() if name != "moment"} for row in sums}
