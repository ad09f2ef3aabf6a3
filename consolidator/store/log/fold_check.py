"""Checks that a session's row says what its log says: its state, its open task, its totals, its scratchpad.

The row caches the fold of the log. Sessions are compared one by one, so that any number of them can be; one that
changes meanwhile is compared again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from consolidator.database import Connection
from consolidator.database.jsonb import dumps
from consolidator.models.event import follow_task
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.store.log.seals import canonical_json
from consolidator.store.queries import fetch_column, fetch_one, load
from consolidator.store.sessions import lineage as past
from consolidator.store.sessions import sessions, tasks

_SQL = load("log/fold_check")
_PAGE = 500  # sessions, or events of a session, read at once
_ATTEMPTS = 5  # to compare a session that is written to meanwhile
MAX_PROBLEMS = 20


@dataclass(slots=True)
class FoldCheck:
    """What came of comparing rows with logs."""

    problems: list[str] = field(default_factory=list)
    whole: int = 0  # sessions compared with their whole log
    pruned: int = 0  # compared without state, task and counts, which cannot be folded without the pruned events
    branches: int = 0  # compared without state and task, which begin where the branch does
    stopped_after: str | None = None  # the last session that was compared, where others are left

    def describe(self) -> str:
        """Return in words how many sessions were compared, which of them in part, and where it stopped."""
        words = f"{self.whole} compared whole"
        if self.pruned:
            words += f", {self.pruned} without state, task and counts: pruned"
        if self.branches:
            words += f", {self.branches} without state and task: branches"
        if self.stopped_after is not None:
            words += f"; stopped: --after {self.stopped_after} compares the rest"
        return words


@dataclass(frozen=True, slots=True)
class LogTotals:
    """What a session's own log, and the ledger of its calls, add up to; and what is kept beside the row."""

    head: int
    turns: int  # answers without calls
    compactions: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: Decimal
    reserved: Decimal
    scratchpad_set_at: int  # the last event that set the scratchpad, 0 if none did
    scratchpad_seq: int  # as it is stored
    folded_to: int  # the stored view holds everything up to here
    has_blobs: bool  # whether answers are kept elsewhere as a whole


async def check_folds(conn: Connection, *, after: str = "", limit: int | None = None) -> FoldCheck:
    """Compare the rows of sessions that the runtime writes with the folds of their logs, in the order of their ids.

    It begins with the first session after `after`, and stops after `limit` sessions or MAX_PROBLEMS problems.
    """
    check, compared = FoldCheck(), 0
    while ids := await fetch_column(conn, _SQL["list_native"], {"after": after, "limit": _PAGE}):
        for session_id in ids:
            if compared == limit or len(check.problems) >= MAX_PROBLEMS:
                check.stopped_after = after
                return check
            await _check_session(conn, session_id, check)
            after, compared = session_id, compared + 1
    return check


async def _check_session(conn: Connection, session_id: str, check: FoldCheck) -> None:
    """Compare one session, once it stands still."""
    for _ in range(_ATTEMPTS):
        session = await sessions.get(conn, session_id)
        totals = await fetch_one(conn, LogTotals, _SQL["sum_log"], {"session": session_id})
        lineage = await past.load_lineage(conn, session_id, session)
        is_whole = not lineage.is_truncated and session.kind != "branch"
        problems = _compare_totals(session, totals) if totals is not None else []
        if is_whole:
            problems += _compare("state", *map(_as_stored, (session.state, await _fold_state(conn, session, lineage))))
            problems += _compare("open task", session.open_task, await _fold_task(conn, session, lineage))
        if not problems or await _is_unchanged(conn, session):
            break
    check.problems += [f"{session_id}: {problem}" for problem in problems]
    check.whole += is_whole
    check.pruned += lineage.is_truncated
    check.branches += not is_whole and not lineage.is_truncated


async def _is_unchanged(conn: Connection, session: SessionRow) -> bool:
    return await sessions.get(conn, session.id) == session


def _compare_totals(session: SessionRow, totals: LogTotals) -> list[str]:
    """Return where a row's totals differ from its log's; turns and compactions only where nothing is pruned."""
    problems = [
        problem
        for name in ("input_tokens", "output_tokens", "cached_tokens", "cost", "reserved")
        for problem in _compare(name, getattr(session, name), getattr(totals, name))
    ]
    if session.pruned_to <= session.base_seq and not totals.has_blobs:
        problems += _compare("turns", session.turns, totals.turns)
        problems += _compare("compactions", session.compactions, totals.compactions)
    is_behind = totals.scratchpad_seq < totals.scratchpad_set_at <= totals.folded_to
    is_ahead = totals.scratchpad_seq > max(totals.scratchpad_set_at, session.base_seq, session.pruned_to)
    if is_behind or is_ahead:
        problems += _compare("scratchpad", f"of event {totals.scratchpad_seq}", f"of {totals.scratchpad_set_at}")
    return problems


async def _fold_state(conn: Connection, session: SessionRow, lineage: Lineage) -> dict[str, Any]:
    """Return the sum of the changes of the state, read from the latest on: of a key, the first one met counts."""
    state: dict[str, Any] = {}
    upto = session.head
    while patches := await past.read_state_patches(conn, lineage, after=lineage.begins_after, upto=upto, limit=_PAGE):
        for event in patches:
            state = {**event.data["state_patch"], **state}
        upto = patches[-1].seq - 1
    return state


async def _fold_task(conn: Connection, session: SessionRow, lineage: Lineage) -> str | None:
    """Return the task that is open by the session's own log, and before it by its ancestors'."""
    open_task = None
    for part in lineage.slice(lineage.begins_after, session.head):
        after = part.after_seq
        while moves := await tasks.read_task_events(conn, part.session_id, after, part.upto_seq, _PAGE):
            for move in moves:
                open_task = follow_task(open_task, EventType(move.event_type), {"task_id": move.task_id})
            after = moves[-1].seq
    return None if session.status == "ended" else open_task


def _as_stored(state: Mapping[str, Any]) -> str:
    """Return a state as one text: a large number is an integer where jsonb holds it, and a float in a blob."""
    return canonical_json(json.loads(dumps(state)))


def _compare(name: str, stored: object, folded: object) -> list[str]:
    if stored == folded:
        return []
    return [f"its row's {name} is {str(stored)[:100]!r}, by its log it is {str(folded)[:100]!r}"]
