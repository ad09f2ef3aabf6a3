"""Two sessions side by side, a bounded stretch of both at a time: long ones are compared part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consolidator.database import Connection, Database
from consolidator.errors import UsageError
from consolidator.models.session import SessionRow
from consolidator.runtime.rerun import branches
from consolidator.runtime.rerun.comparison import Comparison, RecordedTurn, compare_runs
from consolidator.runtime.rerun.recorded_runs import read_turns
from consolidator.service.sessions.access import find_session
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.sessions.lineage import load_lineage

MAX_EVENTS = 400  # of each session that are read for one part


@dataclass(frozen=True, slots=True)
class _Side:
    """A stretch of one of the sessions."""

    turns: list[RecordedTurn]
    start: int  # the position before it
    end: int  # of its last event
    is_cut: bool  # whether the session goes on


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """A part of two sessions side by side: a branch or a rerun stands right of what it came from."""

    left: SessionRow
    right: SessionRow
    after: int  # the position of both from which they are compared; 0 for whole sessions
    comparison: Comparison
    next: tuple[int, int] | None  # the positions of both after which the next part begins; None after the last one
    is_pruned: bool  # whether events of one of them are gone that would be compared


async def compare_pair(
    database: Database,
    left: str,
    right: str,
    *,
    positions: tuple[int, int] | None = None,
    limit: int = MAX_EVENTS,
    viewer: Viewer = OWNER,
) -> ComparedPair:
    """Compare the next part of two sessions, by ids or names; one that came of the other only from there on.

    Without `right`, `left` is compared with what it came from. `positions` is where the part before ended. Raises
    NotFound and Forbidden, and UsageError where there is nothing to compare with.
    """
    async with database.connection() as conn:
        one = await find_session(conn, viewer, left, "read")
        other_name = right or one.parent_id
        if not other_name:
            raise UsageError(f"session {one.id} came of no other: name a second one to compare it with")
        other = await find_session(conn, viewer, other_name, "read")
        if one.id == other.id:
            raise UsageError("this is one session twice: name another one")
        if one.parent_id == other.id:
            one, other = other, one
        begin = None
        if other.parent_id == one.id:
            begin = await branches.find_begin(conn, other) if other.kind == "branch" else other.base_seq
        starts = [await _find_start(conn, session, begin) for session in (one, other)]
    starts = list(positions) if positions else starts
    ends = [min(start + limit, session.head) for session, start in zip((one, other), starts, strict=True)]
    sides = [
        _Side(await read_turns(database, session.id, after=start, upto=end), start, end, end < session.head)
        for session, start, end in zip((one, other), starts, ends, strict=True)
    ]
    shown, following = _cut_to_whole_turns(sides)
    is_pruned = any(session.pruned_to > max(begin or 0, session.base_seq) for session in (one, other))
    after = 0 if begin is None else other.base_seq
    return ComparedPair(one, other, after, compare_runs(*shown), following, is_pruned)


async def _find_start(conn: Connection, session: SessionRow, begin: int | None) -> int:
    """Return the position after which a session is compared: `begin`, or where what can be read of it begins."""
    lineage = await load_lineage(conn, session.id, session)
    return max(lineage.readable_after, lineage.begins_after if begin is None else begin)


def _cut_to_whole_turns(sides: Sequence[_Side]) -> tuple[list[list[RecordedTurn]], tuple[int, int] | None]:
    """Return the turns of both that are compared now, and the positions after which the next part begins.

    A turn that does not end in this part is left to the next, as are those to which the other session has not come. One
    that is longer than a part is compared as far as it goes.
    """
    if not any(side.is_cut for side in sides):
        return [side.turns for side in sides], None
    whole = [side.turns[:-1] if side.is_cut and len(side.turns) > 1 else side.turns for side in sides]
    count = min(len(turns) for turns, side in zip(whole, sides, strict=True) if side.is_cut)
    left, right = (
        max(side.turns[count].seq - 1, side.start) if len(side.turns) > count else side.end for side in sides
    )
    return [turns[:count] for turns in whole], (left, right)
