"""What usually follows where a session is now, or after some calls: the next ones, with their arguments."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.llm.redaction.redact import redact, redact_json
from consolidator.memory.calls.symbols import is_inspection, tool_symbol
from consolidator.memory.procedures.digest import Digest
from consolidator.memory.procedures.prediction import ProcedureUnderWay, find_procedures_under_way, predict_next_calls
from consolidator.memory.procedures.tool_profiles import ToolProfile
from consolidator.models.event import Event
from consolidator.models.memory_filter import MemoryScope, ProcedureFilter
from consolidator.models.payload import EventType
from consolidator.models.viewer import OWNER, Viewer
from consolidator.runtime.session.access import find_session
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.scope import narrow_scope
from consolidator.store.facts.visibility import load_person
from consolidator.store.memory import lookup
from consolidator.store.sessions import projects
from consolidator.store.sessions.lineage import load_lineage, read_lineage

MAX_EVENTS_READ = 2000
MAX_PROCEDURES_READ = 200  # the best of a scope
MAX_CALLS = 50  # recent ones that a client tells
_CALLED_AT = datetime(1970, 1, 1, tzinfo=UTC)  # of calls that a client tells: when they were made does not count


async def suggest_next_calls(
    database: Database, session_name: str, *, peer: str | None = None, limit: int = 5, viewer: Viewer = OWNER
) -> list[dict[str, Any]]:
    """Return the calls that usually follow in a session, from its last two thousand events.

    They are predicted from what the person whose session it is may see. With `peer` the session must be that person's,
    and it must be within the viewer's reach; any other raises NotFound.
    """
    async with database.connection() as conn:
        session = await find_session(conn, viewer.narrow(peer=peer), session_name, "read")
        person = await load_person(conn, session.id)
        scope = MemoryScope(session.agent, session.project, person, viewer.is_of_project)
        rows = await lookup.load_tool_profiles(conn, scope)
        lineage = await load_lineage(conn, session.id, session)
        latest = await read_lineage(conn, lineage, after=session.head - MAX_EVENTS_READ, upto=session.head)
    profiles = choose_profiles([ToolProfile.from_json(row.body) for row in rows])
    return await asyncio.to_thread(suggest_from_events, profiles, latest, limit)


def choose_profiles(profiles: Iterable[ToolProfile]) -> dict[str, ToolProfile]:
    """Return one profile of each tool: of the own and the shared one that with more roots (sessions or people)."""
    chosen: dict[str, ToolProfile] = {}
    for profile in profiles:
        better = chosen.get(profile.symbol)
        if better is None or (profile.roots, profile.calls) > (better.roots, better.calls):
            chosen[profile.symbol] = profile
    return chosen


def suggest_from_events(
    profiles: dict[str, ToolProfile], session_events: list[Event], limit: int
) -> list[dict[str, Any]]:
    """Return what usually follows a session's events, redacted; values are folded in clear, in this process only."""
    digest = Digest(redact, b"", keep_values=True)
    for event in session_events:
        digest.feed(event)
    return suggest_from_digest(profiles, digest, limit)


def suggest_from_digest(profiles: dict[str, ToolProfile], digest: Digest, limit: int = 5) -> list[dict[str, Any]]:
    """Return what usually follows the calls of a digest that keeps clear values: redacted, the likeliest call first.

    Each says in how many sessions its tool was called, and the share of its calls that worked.
    """
    suggestions = []
    for call in predict_next_calls(profiles, digest, limit):
        profile = profiles.get(call.symbol, ToolProfile(call.symbol))
        experience = {"sessions": profile.roots, "worked": 1 - profile.failed / max(profile.calls, 1)}
        suggestions.append({**asdict(call), "arguments": redact_json(call.arguments), **experience})
    return suggestions


async def suggest_after_calls(
    database: Database,
    calls: Sequence[Mapping[str, Any]],
    scope: MemoryScope = MemoryScope(),
    *,
    limit: int = 5,
    viewer: Viewer = OWNER,
) -> list[dict[str, Any]]:
    """Return the calls that usually follow some recent ones, the latest last, that no log has yet.

    Each is `{"tool": ..., "arguments": {...}, "failed": false}`. Without an agent it is the one that worked last in
    the project, or anywhere. Raises UsageError for too many calls or one without a tool.
    """
    viewer.check_may("read")
    events = read_calls(calls)
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, scope)
        name = scope.agent or await projects.find_latest_agent(conn, scope.project)
        if name is None:
            return []
        rows = await lookup.load_tool_profiles(conn, replace(scope, agent=name))
    profiles = choose_profiles([ToolProfile.from_json(row.body) for row in rows])
    return await asyncio.to_thread(suggest_from_events, profiles, events, limit)


async def find_procedures_after_calls(
    database: Database,
    calls: Sequence[Mapping[str, Any]],
    scope: MemoryScope = MemoryScope(),
    *,
    viewer: Viewer = OWNER,
) -> list[ProcedureUnderWay]:
    """Return the procedures that recent calls, the latest last, are in the middle of; none after a failed call."""
    viewer.check_may("read")
    if calls[-1].get("failed"):
        return []
    filters = ProcedureFilter(scope.agent, scope.project, include_unworthy=True, limit=MAX_PROCEDURES_READ)
    procedures = await list_procedures(database, filters, viewer=viewer)
    symbols = [tool_symbol(str(call.get("tool")), call.get("arguments")) for call in calls]
    return find_procedures_under_way(procedures, [symbol for symbol in symbols if not is_inspection(symbol)])


def read_calls(calls: Sequence[Mapping[str, Any]]) -> list[Event]:
    """Return calls that a client tells as the events that a session would have; raise UsageError for what is none."""
    if not 1 <= len(calls) <= MAX_CALLS:
        raise UsageError(f"name between 1 and {MAX_CALLS} recent calls, the latest last, not {len(calls)}")
    events: list[Event] = []
    for number, call in enumerate(calls, 1):
        tool = call.get("tool")
        if not isinstance(tool, str) or not tool:
            raise UsageError(f'call {number} names no tool: {{"tool": "Bash", "arguments": {{"command": "make"}}}}')
        data = {"call_id": str(number), "tool": tool, "arguments": call.get("arguments", {})}
        events.append(Event("", 2 * number - 1, EventType.TOOL_CALL, data, _CALLED_AT))
        result = {"call_id": str(number), "content": "", "status": "error" if call.get("failed") else "ok"}
        events.append(Event("", 2 * number, EventType.TOOL_RESULT, result, _CALLED_AT))
    return events
