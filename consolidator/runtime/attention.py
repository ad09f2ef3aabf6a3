"""What waits for a person in a session: calls to be allowed, and calls of which nobody knows whether they ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from consolidator.database import Database
from consolidator.models.payload import EventType
from consolidator.store.log import events, sessions

_BACK = 500  # events in which a call that waits is looked for


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that waits for a person's word."""

    call_id: str
    tool: str
    kind: Literal["approval", "uncertain"]
    arguments: Any = None


async def waiting(database: Database, session_id: str) -> list[Waiting]:
    """Return the calls of a session that wait for a person, in the log's order."""
    async with database.connection() as conn:
        found = await sessions.get(conn, session_id)
        asked: dict[str, dict[str, Any]] = found["attention"]
        if not asked:
            return []
        low = max(found["pruned_to"], min(found["settled_to"], found["head"] - _BACK))
        bounds = (found["created_at"], found["last_event_at"])
        log = await events.read(conn, session_id, after=low, upto=found["head"], bounds=bounds)
    calls = {str(one.data["call_id"]): one.data for one in log if one.type is EventType.TOOL_CALL}
    order = {name: number for number, name in enumerate(calls)}
    return [
        Waiting(name, str(one.get("tool") or ""), one["kind"], calls.get(name, {}).get("arguments"))
        for name, one in sorted(asked.items(), key=lambda told: order.get(told[0], -1))
    ]
