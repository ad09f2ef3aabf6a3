"""What usually follows where a session is now: the next calls, with their arguments."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact, redact_json
from consolidator.memory.procedures.digest import Digest
from consolidator.memory.procedures.prediction import predict_next_calls
from consolidator.memory.procedures.tool_profiles import ToolProfile
from consolidator.models.event import Event
from consolidator.store.log import events, sessions
from consolidator.store.memory import lookup

MAX_EVENTS_READ = 2000


async def suggest_next_calls(database: Database, session_name: str, *, limit: int = 5) -> list[dict[str, Any]]:
    """Return the calls that usually follow in a session, from its last two thousand events."""
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find_session_id(conn, session_name))
        rows = await lookup.load_tool_profiles(conn, session.agent, session.project)
        after = max(session.head - MAX_EVENTS_READ, session.pruned_to)
        latest = await events.read(conn, session.id, after=after, bounds=session.ingest_bounds)
    profiles = {row.tool: ToolProfile.from_json(row.body) for row in rows}
    return await asyncio.to_thread(suggest_from_events, profiles, latest, limit)


def suggest_from_events(
    profiles: dict[str, ToolProfile], session_events: list[Event], limit: int
) -> list[dict[str, Any]]:
    """Return what usually follows a session's events, redacted; values are folded in clear, in this process only."""
    digest = Digest(redact, b"", keep_values=True)
    for event in session_events:
        digest.feed(event)
    return suggest_from_digest(profiles, digest, limit)


def suggest_from_digest(profiles: dict[str, ToolProfile], digest: Digest, limit: int = 5) -> list[dict[str, Any]]:
    """Return what usually follows the calls of a digest that keeps clear values: redacted, the likeliest call first."""
    return [
        {**asdict(call), "arguments": redact_json(call.arguments)}
        for call in predict_next_calls(profiles, digest, limit)
    ]
