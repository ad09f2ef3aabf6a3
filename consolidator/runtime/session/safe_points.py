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
from consolidator.runtime.session.fold import OpenState, find_safe_seqs, fold_open_state
from consolidator.store.sessions import lineage as store
from consolidator.store.sessions.lineage import load_lineage, read_latest, read_lineage
from consolidator.store.turns.generation import is_shown_whole, read_chunks

LOOKBACK = 1024  # events before a point in which what is open there is looked for
_FIRST_LOOKBACK = 16  # most turns are short
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
    upto = session.head if at is None else min(at + 1, session.head)
    start, log = await _read_turn(conn, session, lineage, upto)
    safe = _find_safe(session, log, start)
    seq = safe[-1] if at is None else at
    if seq not in safe:
        ahead = min(upto + _LOOKAHEAD, session.head)
        more = await store.read_skeletons(conn, lineage, after=upto, upto=ahead)
        safe = _find_safe(session, [*log, *more], start)
        nearest = [*[near for near in safe if near < seq][-1:], *[near for near in safe if near > seq][:1]]
        raise UsageError(
            f"session {session.id}: a call or an answer is under way at event {at}; nothing is open after "
            + " and ".join(f"event {near}" for near in nearest)
        )
    before = [event for event in log if event.seq <= seq]
    if session.is_driven_elsewhere:
        return SafePoint(seq, min(_unanswered_messages(before), default=seq + 1) - 1)
    return SafePoint(seq, fold_open_state(before, settled_to=start, head=seq).settled_to)


async def find_safe_before(conn: Connection, session: SessionRow, lineage: Lineage, seq: int) -> int:
    """Return the last safe point before an event of a session's past. Raises UsageError where it is not there."""
    _check_is_there(session, lineage, seq)
    start, log = await _read_turn(conn, session, lineage, seq)
    return max(safe for safe in _find_safe(session, log, start) if safe < seq)


async def _read_turn(conn: Connection, session: SessionRow, lineage: Lineage, upto: int) -> tuple[int, list[Event]]:
    """Return a position up to which nothing is open, and the events after it, up to a position.

    That is the session's own mark, or else the end of the latest turn that ended before.
    """
    is_marked = session.settled_to < upto and not session.is_driven_elsewhere
    if is_marked:
        start = max(lineage.readable_after, session.settled_to)
        return start, await store.read_skeletons(conn, lineage, after=start, upto=upto)
    window = _FIRST_LOOKBACK
    while True:
        start = max(lineage.readable_after, upto - window)
        log = await store.read_skeletons(conn, lineage, after=start, upto=upto)
        settled = _find_settled(log[:-1], calling=_find_calling_answers(log), is_foreign=session.is_driven_elsewhere)
        if settled is not None and settled >= start:
            return settled, [event for event in log if event.seq > settled]
        if start == lineage.readable_after or window >= LOOKBACK:
            return start, log
        window = min(window * 4, LOOKBACK)


def _find_settled(events: Sequence[Event], *, calling: set[int], is_foreign: bool) -> int | None:
    """Return a seq up to which nothing is open, by the latest answer that ended a turn; None if there is none.

    The model is called only where every call has its result, and its answer says what it was shown.
    """
    for event in reversed(events):
        if event.type is not EventType.ASSISTANT_RESPONSE or event.seq in calling:
            continue
        if is_foreign:
            return event.seq - 1
        seen = event.data.get("upto_seq")
        if isinstance(seen, int) and not event.data.get("held"):
            return min(seen, event.seq - 1)
    return None


def _find_safe(session: SessionRow, events: Sequence[Event], start: int) -> list[int]:
    """Return the seqs after which nothing is open; `events` are those after `start`."""
    find = find_foreign_safe_seqs if session.is_driven_elsewhere else find_safe_seqs
    calling = _find_calling_answers(events)
    return [seq for seq in find(events, settled_to=start) if seq not in calling]


def _check_is_there(session: SessionRow, lineage: Lineage, at: int) -> None:
    first = lineage.readable_after + 1
    if lineage.begins_after < at < first:
        raise UsageError(
            f"session {session.id}: its log up to event {first - 1} is gone; the first one left is {first}"
        )
    if not first <= at <= session.head:
        raise UsageError(f"session {session.id} has no event {at}: there are {first} to {session.head}")


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


@dataclass(frozen=True, slots=True)
class Recovery:
    """A row of the table: the state that the log is in, and what a wake does."""

    state: str
    action: str


IDLE = Recovery("GEN_SENT", "idle")


async def read_open_state(
    conn: Connection, session: SessionRow, lineage: Lineage, *, most: int | None = None
) -> OpenState:
    """Return what is open at the end of a session's log; of `most` events, if so many are to be read."""
    settled_to = max(session.settled_to, lineage.readable_after, 0 if most is None else session.head - most)
    open_end = []
    if session.status == "open" and settled_to < session.head:
        open_end = await read_lineage(conn, lineage, after=settled_to, upto=session.head)
    return fold_open_state(open_end, settled_to=settled_to, head=session.head)


async def find_recovery(conn: Connection, session: SessionRow, *, has_sender: bool = False) -> Recovery:
    """Return the row that a wake of a session would apply now; `has_sender` where its channel is sent to from here."""
    if session.status != "open":
        return Recovery("SESSION_TERMINATED", "noop")
    lineage = await load_lineage(conn, session.id, session)
    state = await read_open_state(conn, session, lineage)
    if state.generation is not None:
        chunks = await read_chunks(conn, session.id, state.generation.message_id, low=session.created_at)
        return Recovery("GEN_CHUNK", "resume_or_replace") if chunks else Recovery("LLM_CALLED", "step")
    if state.calls:
        return Recovery("TOOL_INVOKED", "wait_for_person" if state.waits_for_person else "reissue_tool_or_fail")
    if state.unanswered:
        return Recovery("MESSAGE_RECEIVED", "step")
    if state.unseen_results:
        return Recovery("TOOL_RESULT", "step")
    answers = await read_latest(conn, lineage, (EventType.ASSISTANT_RESPONSE,), upto=session.head, limit=1)
    if not answers or answers[-1].seq <= session.delivered_to:
        return IDLE
    message_id = str(answers[-1].data.get("message_id"))
    is_shown = not has_sender and await is_shown_whole(
        conn, session.id, message_id, session.channel_name, session.channel is None, low=session.created_at
    )
    return IDLE if is_shown else Recovery("GEN_COMPLETE", "redeliver_if_unsent")
