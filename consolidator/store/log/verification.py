"""Verifies the log as evidence, and that each session's row says what its log says.

Every hash is recomputed here, so that nothing in the database has to be trusted. A row caches the fold of its log (its
state, open task, totals and scratchpad): sessions are compared one by one, and one that changes meanwhile again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from consolidator.database.jsonb import dumps
from consolidator.database.partitions import Connection
from consolidator.database.schema import function_hashes
from consolidator.models.event import follow_task
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.store.log import seals
from consolidator.store.log.seals import (
    ChainedEvent,
    canonical_json,
    hash_content,
    hash_event,
    hash_root,
    hash_session_id,
)
from consolidator.store.queries import fetch_column, fetch_one, load
from consolidator.store.sessions import lineage as past
from consolidator.store.sessions import sessions, tasks

MAX_PROBLEMS = 20  # reported of each kind, and of folds


async def find_tampering(conn: Connection) -> dict[str, list[str]]:
    """Return, for each part of invariant I17, the first violations as texts; run it in a read-only transaction."""
    return {
        "I17 events are what was appended": await find_broken_chains(conn),
        "I17 pieces and deliveries are what was added": await seals.find_broken_output(conn),
        "I17 children begin where they left their parents": await seals.find_broken_beginnings(conn),
        "I17 sessions read their own past": await seals.find_foreign_pasts(conn),
        "I17 blobs are what was appended": await seals.find_rewritten_blobs(conn),
        "I17 sealed sessions are as they were sealed": await seals.find_broken_seals(conn),
        "I17 sealed messages are as they were sealed": await seals.find_broken_messages(conn),
        "I17 seals follow from one another": await find_broken_roots(conn),
        "I17 the guards are this version's": await find_changed_guards(conn),
    }


async def find_broken_chains(conn: Connection) -> list[str]:
    """Return the sessions whose events do not hash to what was stored with them, each with the first such event."""
    problems: list[str] = []
    async for problem in _check_chains(seals.stream_chains(conn)):
        problems.append(problem)
        if len(problems) == MAX_PROBLEMS:
            break
    return problems


@dataclass(slots=True)
class _Chain:
    """The check of one session's chain, up to the first problem."""

    session: ChainedEvent
    last: int = 0  # seq of the last event that was checked
    previous: bytes | None = None  # hash of the event before
    problem: str | None = field(default=None)

    def __post_init__(self) -> None:
        session = self.session
        self.last = max(session.pruned_to, session.unchained_to)
        pruned = session.pruned_to > session.unchained_to and session.pruned_hash is not None
        self.previous = bytes(session.pruned_hash or b"") if pruned else hash_session_id(session.id)

    def add(self, event: ChainedEvent) -> None:
        """Check the next event."""
        if (
            self.problem
            or event.seq is None
            or event.event_type is None
            or event.data is None
            or event.created_at is None
        ):
            return
        if event.seq <= event.unchained_to:
            return
        content = hash_content(event.event_type, event.task_id, event.tool_name, event.data, event.principal)
        expected = hash_event(self.previous or b"", content, event.seq, event.created_at)
        if event.seq != self.last + 1:
            self.problem = f"{event.id}: event {self.last + 1} is missing"
        elif event.hash is None or bytes(event.hash) != expected:
            self.problem = f"{event.id}: event {event.seq} is not what was appended"
        self.last, self.previous = event.seq, expected

    def finish(self) -> str | None:
        """Return the problem, if any, when every event was checked."""
        session = self.session
        if self.problem is None and session.head > session.unchained_to:
            if self.last != session.head and session.head > session.pruned_to:
                return f"{session.id}: ends at event {self.last}, but its head is {session.head}"
            if self.last == session.head > session.pruned_to and bytes(session.chain_hash or b"") != self.previous:
                return f"{session.id}: its chain does not end with event {self.last}"
        return self.problem


async def _check_chains(events: AsyncIterator[ChainedEvent]) -> AsyncIterator[str]:
    chain: _Chain | None = None
    async for event in events:
        if chain is None or chain.session.id != event.id:
            if chain is not None and (problem := chain.finish()):
                yield problem
            chain = _Chain(event)
        chain.add(event)
    if chain is not None and (problem := chain.finish()):
        yield problem


async def find_broken_roots(conn: Connection) -> list[str]:
    """Return the seals that do not follow from what they cover and from the seal before."""
    problems: list[str] = []
    root = b""
    for number, seal in enumerate(await seals.list_seals(conn), 1):
        if seal.number != number:
            return [*problems, f"seal {number} is missing"][:MAX_PROBLEMS]
        covered = await seals.list_sealed_sessions(conn, number)
        root = hash_root(root, covered, seal.output_to, await seals.list_sealed_messages(conn, number))
        if root != bytes(seal.root) or len(covered) != seal.sessions:
            problems.append(f"seal {number} of {seal.sealed_at.isoformat()} does not match what it covers")
            root = bytes(seal.root)
    return problems[:MAX_PROBLEMS]


async def find_changed_guards(conn: Connection) -> list[str]:
    """Return the functions of the schema that are missing, or whose source is not this version's."""
    present = await seals.list_guards(conn, list(function_hashes()))
    return [
        f"function {name} {'is missing' if name not in present else 'has another source than this version knows'}"
        for name, source in function_hashes().items()
        if present.get(name) != source
    ]


async def find_missing_seals(conn: Connection, exported: Mapping[int, str]) -> list[str]:
    """Return the seals (number -> root as hex digits) of a copy kept elsewhere that this log does not have."""
    roots = {seal.number: bytes(seal.root).hex() for seal in await seals.list_seals(conn)}
    return [
        f"seal {number} of the copy is {'missing' if number not in roots else 'another one'} here"
        for number, root in sorted(exported.items())
        if roots.get(number) != root
    ][:MAX_PROBLEMS]


_SQL = load("log/verification")
_PAGE = 500  # sessions, or events of a session, read at once
_ATTEMPTS = 5  # to compare a session that is written to meanwhile


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
