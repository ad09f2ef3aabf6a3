"""What hooks put into agents' contexts: counted, and judged by what the agents did then."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from ulid import ULID

from consolidator.database import Database
from consolidator.memory.solutions.fix_outcome import judge_fix
from consolidator.models.injection import InjectionRow
from consolidator.service.hooks.payload import HookCall
from consolidator.service.memory.brief import Brief
from consolidator.store.log import events
from consolidator.store.memory import injections

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


async def judge_fixes(database: Database, session_id: str) -> int:
    """Look in a session's log whether the fixes that it was shown were of use; return how many are known now."""
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
