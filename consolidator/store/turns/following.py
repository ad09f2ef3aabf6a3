"""What following a session reads: the next events and chunks after a position, and the mark that it is followed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from consolidator.database.partitions import Connection
from consolidator.models.event import Event, EventRow, PlacedChunk
from consolidator.store.log.events import BEGINNING, complete
from consolidator.store.queries import Column, Rows, Statement, fetch_all, fetch_each, load

FOLLOWED_CHANNEL = "consolidator_followed"  # of PostgreSQL's notifications; the payload is a session's id
MAX_OPEN_EVENTS = 2_000  # after the event that begins a message, while it is open
CLOCK_SKEW = timedelta(days=1)  # by which a chunk may be older than its session: their writers' clocks differ
_SQL = load("turns/following")


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """The chunks of a message after one of them."""

    session_id: str
    message_id: str
    after: int
    low: datetime = BEGINNING  # before the first of them


@dataclass(frozen=True, slots=True)
class SessionMarks:
    """Where a session stands, besides its log."""

    id: str
    head: int
    status: str  # open | ended
    pending: bool  # whether a harness has something to do in it
    settled_to: int
    waiting_calls: list[str]  # ids of the calls that wait for a person
    is_imported: bool  # its log may grow after its end
    error: str | None  # in which its last turn ended, or what the open one waits for

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come."""
        return self.status == "ended" and not self.is_imported


async def find_last_mark(
    conn: Connection, session_id: str, upto: int, bounds: tuple[datetime, datetime]
) -> Event | None:
    """Return the last event up to a seq that begins or ends a message, if it is near enough to matter."""
    low, high = bounds
    values = {"session": session_id, "upto": upto, "after": upto - MAX_OPEN_EVENTS, "low": low, "high": high}
    rows = await complete(conn, await fetch_all(conn, EventRow, _SQL["find_last_mark"], values))
    return rows[0] if rows else None


async def read_chunks(conn: Connection, spans: Sequence[ChunkSpan], *, limit: int) -> list[list[PlacedChunk]]:
    """Return the first `limit` chunks of each span, in one round trip."""
    values = [
        {"session": span.session_id, "message": span.message_id, "after": span.after, "low": span.low, "limit": limit}
        for span in spans
    ]
    return await fetch_each(conn, PlacedChunk, _SQL["read_pieces"], values)


mark_followed = Column[str, Sequence[str], float](_SQL["mark_followed"], "ids seconds")
read_marks = Rows[SessionMarks, Sequence[str]](SessionMarks, _SQL["read_marks"])
# How many records it took that a surface has the messages that began up to an event, `piece` pieces of the open one.
acknowledge = Statement[str, str](_SQL["acknowledge"], "session surface", reach=MAX_OPEN_EVENTS)
