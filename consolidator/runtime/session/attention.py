"""What waits for a person in a session: calls that need approval, and calls of which nobody knows whether they ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from consolidator.database import Database
from consolidator.models.payload import EventType
from consolidator.store.log import events
from consolidator.store.sessions import sessions

_LOOKBACK = 500  # events in which the arguments of a waiting call are looked for


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for a person."""

    call_id: str
    tool: str
    kind: Literal["approval", "uncertain"]
    arguments: Any = None


async def load_pending_calls(database: Database, session_id: str) -> list[PendingCall]:
    """Return the calls of a session that wait for a person, in the log's order."""
    async with database.connection() as conn:
        session = await sessions.get(conn, session_id)
        attention: dict[str, dict[str, Any]] = session.attention
        if not attention:
            return []
        after = max(session.pruned_to, min(session.settled_to, session.head - _LOOKBACK))
        log = await events.read(conn, session_id, after=after, upto=session.head, bounds=session.ingest_bounds)
    calls = {str(event.data["call_id"]): event.data for event in log if event.type is EventType.TOOL_CALL}
    order = {call_id: number for number, call_id in enumerate(calls)}
    return [
        PendingCall(call_id, str(request.get("tool") or ""), request["kind"], calls.get(call_id, {}).get("arguments"))
        for call_id, request in sorted(attention.items(), key=lambda item: order.get(item[0], -1))
    ]
