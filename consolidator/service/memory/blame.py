"""Blame: which lines of memory stood in the context of a call, and what the log and memory know of a file."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.memory.calls.argument_redaction import redact_arguments
from consolidator.memory.calls.argument_summary import argument_texts
from consolidator.memory.lessons.history import History
from consolidator.memory.lessons.learning import MAX_TRACES
from consolidator.memory.lessons.trace import Trace
from consolidator.memory.text.markers import RECALL_BEGIN, find_citations
from consolidator.memory.text.words import query_words
from consolidator.models.audience import OWNER as OWNER_PERSON
from consolidator.models.event import Event
from consolidator.models.memory_filter import FactFilter
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, role_of
from consolidator.service.log.events import read_events
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import list_facts
from consolidator.service.sessions.listing import read_titles
from consolidator.store.memory import injections, lessons

OWN_TOOL = re.compile(r"mcp__.*consolidator.*__\w+")  # ours, as agents name it: a block elsewhere may be anybody's text


async def blame_call(database: Database, session: str, seq: int) -> dict[str, Any]:
    """Return a call and the lines of memory that its session was told before, those that share most words first.

    Each with the moment that it was told at, the shared words, and what it rests on: quote, author, night. Raises
    NotFound where there is no such session, UsageError where the event is no call.
    """
    call: Event | None = None
    moments: dict[str, tuple[str, datetime]] = {}  # citation -> the moment that told it, and when
    tools: dict[str, str] = {}

    async for event in read_events(database, session):
        if event.seq >= seq:
            call = event if event.seq == seq and event.type is EventType.TOOL_CALL else None
            break
        call_id, content = str(event.data.get("call_id")), event.data.get("content")
        if event.type is EventType.TOOL_CALL:
            tools[call_id] = str(event.data.get("tool"))
        elif event.type is EventType.TOOL_RESULT and OWN_TOOL.fullmatch(tools.get(call_id, "")):
            text = str(content)
            moments |= {id: ("recall", event.occurred_at) for id in find_citations(text) if RECALL_BEGIN in text}
        elif event.type is EventType.THINKING_START and role_of(event.principal or Role.HARNESS) is not Role.CLIENT:
            recalled = event.data.get("recalled")  # our runtime names what it showed the model
            cited = recalled if isinstance(recalled, list) else ()
            moments |= {str(id): ("recall", event.occurred_at) for id in cited}

    if call is None:
        raise UsageError(f"event {seq} of this session is no call; `session events` lists them")
    async with database.connection() as conn:
        for row in reversed(await injections.list_of_session(conn, call.session_id)):
            if row.created_at <= call.occurred_at and row.fix.get("correction") != "shadow":
                moments |= {line.partition(":")[2]: (row.moment, row.created_at) for line in row.cited}

    arguments = argument_texts(str(call.data.get("tool")), redact_arguments(call.data.get("arguments")))
    line = " ".join(arguments.values())
    lines = [await _blame_line(database, id, line, *when) for id, when in moments.items()]
    lines.sort(key=lambda each: (-len(each["words"]), each["at"]))
    return {"session_id": call.session_id, "seq": seq, "tool": call.data.get("tool"), "call": line, "lines": lines}


async def _blame_line(database: Database, memory_id: str, call: str, moment: str, at: datetime) -> dict[str, Any]:
    line: dict[str, Any] = {"id": memory_id, "moment": moment, "at": at, "text": None, "words": []}
    try:
        explanation = await explain(database, memory_id)
    except (NotFound, UsageError):  # a turn of a session, or forgotten since
        return line
    proof: dict[str, Any] = next(iter(explanation["evidence"]), {})
    words = sorted(set(query_words(call)) & set(query_words(explanation["title"])))
    quoted = {"quote": proof.get("quote"), "agent": proof.get("agent"), "by": explanation["by"]}
    return line | quoted | {"text": explanation["title"], "words": words, "learned_at": explanation["learned_at"]}


async def blame_path(database: Database, path: str, project: str) -> dict[str, Any]:
    """Return which of a project's latest sessions changed a file, what people said of it, and what failed there."""
    name = str(Path(project, path).relative_to(project)) if Path(project, path).is_relative_to(project) else path
    async with database.connection() as conn:
        rows = await lessons.list_traces(conn, OWNER_PERSON, project, limit=MAX_TRACES)
        traces = (Trace.unpack(row.session_id, row.root_id, row.agent, row.trace) for row in rows)
        history = await asyncio.to_thread(lambda: History.of(list(traces)))  # too much work for the event loop
        changes: dict[str, dict[str, Any]] = {}
        failures: list[dict[str, Any]] = []
        for session, call in history.calls():
            named = [call.path, *(path for segment in call.segments for path in segment.paths)]
            places = [below for each in named if (below := session.relative(each)) is not None]
            if not any(below == name or below.endswith(f"/{name}") for below in places):
                continue
            place = {"session_id": session.session_id, "agent": session.agent, "at": call.at}
            if call.kind == "edit" and call.ok:
                times = changes.get(session.session_id, {"changes": 0})["changes"] + 1
                changes[session.session_id] = place | {"changes": times}
            elif call.ok is False:
                reason = next((headline.text for headline in history.reasons(call)), "")
                failures.append(place | {"seq": call.seq, "call": call.line or call.name, "reason": reason})
        titles = await read_titles(conn, sorted(changes))
    file = name.rsplit("/", 1)[-1]
    facts = await list_facts(database, FactFilter(project=project, query=file, limit=20))
    return {
        "path": name,
        "sessions": [row | {"title": titles.get(id)} for id, row in sorted(changes.items(), key=lambda c: c[1]["at"])],
        "decisions": [{"id": fact.id, "text": fact.sentence} for fact in facts if file in fact.sentence],
        "failures": sorted(failures, key=lambda failure: failure["at"]),
    }
