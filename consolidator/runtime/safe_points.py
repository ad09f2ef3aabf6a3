"""Safe points: where a child may leave its parent's log, because no call and no generation is open there.

Only a bounded part of the log is read: what is open at a point began in the same turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from consolidator.database import Connection
from consolidator.errors import UsageError
from consolidator.models.event import Event
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.runtime.fold import find_safe_seqs, fold_open_state
from consolidator.store.log import lineage as store

LOOKBACK = 1000  # events before a point in which what is open there is looked for
_LOOKAHEAD = 200  # events after an unsafe point in which the next safe one is looked for


@dataclass(frozen=True, slots=True)
class SafePoint:
    """A place in a log where a child may begin."""

    seq: int  # of the last event before it
    settled_to: int  # nothing up to here is open: messages after it have no answer before the point

    @property
    def has_open_end(self) -> bool:
        """Whether a message before the point is not answered yet, or a result not yet seen by the model."""
        return self.settled_to < self.seq


async def find_safe_point(conn: Connection, session: SessionRow, lineage: Lineage, at: int | None = None) -> SafePoint:
    """Return the safe point after the event at a position of a session's past; by default the latest one.

    Raises UsageError where there is no such event, where its log is pruned, and where something is open: the error
    then names the nearest safe points.
    """
    if at is None and session.settled_to >= session.head:
        return SafePoint(session.head, session.head)
    if at is not None:
        _check_is_there(session, lineage, at)
    start = max(lineage.readable_after, _find_start(session, session.head if at is None else at))
    upto = session.head if at is None else min(at + _LOOKAHEAD, session.head)
    log = await store.read_skeletons(conn, lineage, after=start, upto=upto)
    find = find_foreign_safe_seqs if session.is_driven_elsewhere else find_safe_seqs
    calling = _find_calling_answers(log)
    safe = [seq for seq in find(log, settled_to=start) if seq not in calling]
    seq = safe[-1] if at is None else at
    if seq not in safe:
        raise UsageError(
            f"session {session.id}: a call or an answer is under way at event {at}; nothing is open after "
            + " and ".join(f"event {near}" for near in _nearest(safe, seq))
        )
    before = [event for event in log if event.seq <= seq]
    if session.is_driven_elsewhere:
        return SafePoint(seq, min(_unanswered_messages(before), default=seq + 1) - 1)
    return SafePoint(seq, fold_open_state(before, settled_to=start, head=seq).settled_to)


def _find_start(session: SessionRow, seq: int) -> int:
    """Return a seq up to which nothing is open that could matter at a later one."""
    is_marked = session.settled_to <= seq and not session.is_driven_elsewhere
    return session.settled_to if is_marked else seq - LOOKBACK


def _check_is_there(session: SessionRow, lineage: Lineage, at: int) -> None:
    first = lineage.readable_after + 1
    if lineage.begins_after < at < first:
        raise UsageError(
            f"session {session.id}: its log up to event {first - 1} is gone; the first one left is {first}"
        )
    if not first <= at <= session.head:
        raise UsageError(f"session {session.id} has no event {at}: there are {first} to {session.head}")


def _nearest(safe: Sequence[int], seq: int) -> list[int]:
    before = [near for near in safe if near < seq][-1:]
    return [*before, *[near for near in safe if near > seq][:1]]


def _find_calling_answers(events: Sequence[Event]) -> set[int]:
    """Return the seqs of answers that call tools: what calls them is the next event, and a part of the same message."""
    return {
        answer.seq
        for answer, call in pairwise(events)
        if answer.type is EventType.ASSISTANT_RESPONSE
        and call.type is EventType.TOOL_CALL
        and answer.data.get("message_id") == call.data.get("message_id")
    }


def find_foreign_safe_seqs(events: Sequence[Event], *, settled_to: int) -> list[int]:
    """Return the seqs of a foreign log after which no call is open; one that the log went on without is given up."""
    open_calls: set[str] = set()
    safe = [settled_to]
    for event in events:
        if event.type is EventType.TOOL_CALL:
            open_calls.add(str(event.data.get("call_id")))
        elif event.type is EventType.TOOL_RESULT:
            open_calls.discard(str(event.data.get("call_id")))
        elif event.type in (EventType.USER_MESSAGE, EventType.ASSISTANT_RESPONSE):
            open_calls.clear()
        if not open_calls:
            safe.append(event.seq)
    return safe


def _unanswered_messages(events: Sequence[Event]) -> list[int]:
    """Return the seqs of people's messages in a foreign log that nothing of the model follows."""
    unanswered: list[int] = []
    for event in events:
        if event.type is EventType.USER_MESSAGE and event.is_persons_word:
            unanswered.append(event.seq)
        elif event.type in (EventType.ASSISTANT_RESPONSE, EventType.TOOL_CALL, EventType.THINKING_START):
            unanswered.clear()
    return unanswered
