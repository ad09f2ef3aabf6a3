"""Which row of the recovery table a wake applies: what a log ends in, in harness logs' words, and what is done."""

from __future__ import annotations

from dataclasses import dataclass

from consolidator.database import Connection
from consolidator.models.lineage import Lineage
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.runtime.session.fold import OpenState, fold_open_state
from consolidator.store.sessions.lineage import load_lineage, read_latest, read_lineage
from consolidator.store.turns.generation import read_chunks


@dataclass(frozen=True, slots=True)
class Recovery:
    """A row of the table: the state that the log is in, and what a wake does."""

    state: str
    action: str


async def read_open_state(
    conn: Connection, session: SessionRow, lineage: Lineage, *, most: int | None = None
) -> OpenState:
    """Return what is open at the end of a session's log; of `most` events, if so many are to be read."""
    settled_to = max(session.settled_to, lineage.readable_after, 0 if most is None else session.head - most)
    open_end = []
    if session.status == "open" and settled_to < session.head:
        open_end = await read_lineage(conn, lineage, after=settled_to, upto=session.head)
    return fold_open_state(open_end, settled_to=settled_to, head=session.head)


async def find_recovery(conn: Connection, session: SessionRow) -> Recovery:
    """Return the row that a wake of a session would apply now."""
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
    is_sent = not answers or answers[-1].seq <= session.delivered_to
    return Recovery("GEN_SENT", "done") if is_sent else Recovery("GEN_COMPLETE", "redeliver_if_unsent")
