"""Reads recorded runs: the turns of a session's past, the messages to send again, and the results of its calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from consolidator.database import Database
from consolidator.llm.prices import calculate_cost
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.runtime.rerun.comparison import RecordedTurn, RunFold
from consolidator.runtime.rerun.recorded_changes import RecordedChange, RecordedSteer, parse_change
from consolidator.runtime.rerun.recorded_tools import Recording
from consolidator.runtime.session.outcome import Outcome
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import find_event, load_lineage, read_lineage

_PAGE = 200  # events read at once


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """A person's message of a recorded session."""

    seq: int
    text: str
    speaker: str | None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a recorded session has for a rerun."""

    messages: list[RecordedMessage]
    changes: list[RecordedChange]  # by people and programs, in their order
    steers: list[RecordedSteer]  # said while a turn was under way, and no part of `messages`
    calls: Recording


async def read_past(
    database: Database, session_id: str, *, after: int | None = None, upto: int | None = None
) -> AsyncIterator[Event]:
    """Yield the events of a session's past after a position, page by page; by default all that can be read."""
    async with database.connection() as conn:
        session = await sessions.get(conn, session_id)
        lineage = await load_lineage(conn, session_id, session)
    position = max(lineage.readable_after, lineage.begins_after if after is None else after)
    end = session.head if upto is None else min(upto, session.head)
    while position < end:
        page_end = min(position + _PAGE, end)
        async with database.connection() as conn:
            page = await read_lineage(conn, lineage, after=position, upto=page_end)
        for event in page:
            yield event
        position = page_end


async def find_own_start(database: Database, session: SessionRow) -> int | None:
    """Return the seq of the person's message that a session answered first itself; None if there is none.

    Of a child that is its own first message, or the one that was open where it began; what its ancestors answered is
    not its own.
    """
    answered_first = False
    own: int | None = None
    async for event in read_past(database, session.id, after=session.base_seq):
        if _is_from_person(event):
            own = event.seq
            break
        answered_first = answered_first or event.type is EventType.THINKING_START
    low = session.base_seq if answered_first else 0
    while low > 0:  # back to the message that was open, which is near in any case
        low, upto = max(low - _PAGE, 0), low
        page = read_past(database, session.id, after=low, upto=upto)
        asked = [event.seq async for event in page if _is_from_person(event)]
        if asked:
            return asked[-1]
    return own


async def read_turns(
    database: Database, session_id: str, *, after: int | None = None, upto: int | None = None
) -> list[RecordedTurn]:
    """Return the turns of a session's past between two positions; results of calls as their hash and beginning."""
    fold = RunFold(_price)
    async for event in read_past(database, session_id, after=after, upto=upto):
        fold.feed(event)
    return fold.turns


async def read_recording(database: Database, session_id: str, *, after: int) -> RecordedRun:
    """Return what people said and changed after a position, and the results of its calls, which are read when used."""

    async def load(seq: int) -> Outcome | None:
        async with database.connection() as conn:
            session = await sessions.get(conn, session_id)
            event = await find_event(conn, await load_lineage(conn, session_id, session), seq)
        return None if event is None else _to_outcome(event)

    messages: list[RecordedMessage] = []
    changes: list[RecordedChange] = []
    steers: list[RecordedSteer] = []
    is_at_work = False
    recording = Recording(load)
    calls: dict[str, list[Event]] = {}  # without a result, by call_id: logs may reuse one
    async for event in read_past(database, session_id, after=after):
        data = event.data
        if _is_from_person(event):
            text, speaker = str(data.get("text") or ""), data.get("speaker")
            if is_at_work and data.get("mode") == "steer" and messages:
                steers.append(RecordedSteer(event.seq, text, speaker))
            else:
                messages.append(RecordedMessage(event.seq, text, speaker))
            is_at_work = True
        elif event.type is EventType.ASSISTANT_RESPONSE:
            is_at_work = False  # unless it calls
        elif event.type is EventType.TOOL_CALL:
            is_at_work = True
            calls.setdefault(str(data.get("call_id")), []).append(event)
        elif event.type is EventType.TOOL_RESULT and (waiting := calls.get(str(data.get("call_id")))):
            call = waiting.pop(0)
            if data.get("status") != "uncertain":
                recording.add(str(call.data.get("tool")), call.data.get("arguments"), event.seq)
        elif (change := parse_change(event)) is not None:
            changes.append(change)
    return RecordedRun(messages, changes, steers, recording)


def _is_from_person(event: Event) -> bool:
    return event.type is EventType.USER_MESSAGE and event.data.get("origin", "user") == "user"


def _to_outcome(event: Event) -> Outcome:
    data = event.data
    status: Literal["ok", "error"] = "error" if data.get("status") == "error" else "ok"
    return Outcome(data.get("content", ""), status, data.get("reason"), data.get("state_patch"))


def _price(model: str, input_tokens: int, cached_tokens: int, output_tokens: int) -> Decimal | None:
    return calculate_cost(model, input_tokens=input_tokens, cached_tokens=cached_tokens, output_tokens=output_tokens)
