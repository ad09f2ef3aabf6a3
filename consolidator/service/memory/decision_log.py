"""Writes what memory is asked to remember and to forget into the log: one session for each owner and asker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database import Connection
from consolidator.models.event import Event, NewEvent
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, name_principal
from consolidator.models.viewer import Viewer
from consolidator.store.log import events
from consolidator.store.sessions import sessions

CHANNEL = "memory"  # of sessions that hold what memory was asked


@dataclass(frozen=True, slots=True)
class MemoryOwner:
    """Whom something belongs to: a memory (an agent's own, or that of all), and a project or a peer in it."""

    memory: str
    project: str | None = None
    peer: str | None = None

    @property
    def key(self) -> str:
        """The key of the session of what was asked for this owner."""
        place = "" if self.project is None else f"@{self.project}"
        return f"{self.memory}:{CHANNEL}:{self.peer or ''}{place}"


async def log_decision(
    conn: Connection, owner: MemoryOwner, decision: Mapping[str, Any], *, now: datetime, viewer: Viewer
) -> Event:
    """Append a decision in the words of the viewer: a person's with the scope `write`, else an agent's; return it.

    The caller holds the agent's lock.
    """
    values = {
        "key": owner.key,
        "agent": owner.memory,
        "channel": CHANNEL,
        "peer": owner.peer,
        "project": owner.project,
        "recorded_by": viewer.name,
    }
    principal = name_principal(Role.USER if viewer.may("write") else Role.AGENT, viewer.name)
    data = {**decision, "occurred_at": now.isoformat()}
    session_id = await sessions.open_current(conn, values, now=now)
    new_event = NewEvent(EventType.POLICY_DECISION, data, principal=principal)
    appended = await events.append(conn, session_id, [new_event], now=now)
    return Event(session_id, appended.last_seq, EventType.POLICY_DECISION, data, now, principal=principal)
