"""How far a session may be read tonight, and where a window may end: not between a call and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.session import SessionRow
from consolidator.settings import Settings

SafePointFinder = Callable[[SessionRow, list[Event]], int]  # given a session and its last window
ABANDONED_HOURS = 24  # after which an open tool call is given up
_CLOSING = (EventType.TASK_END, EventType.SESSION_END)


def safe_point_finder(settings: Settings, now: datetime) -> SafePointFinder:
    """Return the function that finds a session's safe point at a time."""

    def find_session_safe_point(session: SessionRow, events: list[Event]) -> int:
        return find_safe_point(
            events,
            ended=session.status == "ended",
            last=min(session.last_occurred_at, session.last_event_at),
            now=now,
            quiet=timedelta(minutes=settings.quiet_minutes),
            abandoned=timedelta(hours=ABANDONED_HOURS),
        )

    return find_session_safe_point


def find_safe_point(
    events: Sequence[Event], *, ended: bool, last: datetime, now: datetime, quiet: timedelta, abandoned: timedelta
) -> int:
    """Return the seq up to which a session may be read tonight; 0 if nothing may be read.

    A closed task or an ended session may be read at once, anything else when nothing new came for `quiet`; never the
    middle of a tool call, unless nothing came for `abandoned`. `last` is when the last thing happened.
    """
    if not events:
        return 0
    if ended or now - last >= abandoned:
        return events[-1].seq
    return seq_before_open_calls(events, events[-1].seq if now - last >= quiet else _last_closing_seq(events))


def find_window_end(events: Sequence[Event]) -> int:
    """Return the seq at which to end a window that is not the session's last: between calls, if it can."""
    end = seq_before_open_calls(events, events[-1].seq)
    return end if end >= events[0].seq else events[-1].seq


def _last_closing_seq(events: Sequence[Event]) -> int:
    return max((event.seq for event in events if event.type in _CLOSING), default=0)


def seq_before_open_calls(events: Sequence[Event], upto: int) -> int:
    """Return the last seq before the first call that has no result by `upto`."""
    open_calls: list[tuple[str, int]] = []
    for event in events:
        if event.seq > upto:
            break
        call_id = str(event.data.get("call_id"))
        if event.type is EventType.TOOL_CALL:
            open_calls.append((call_id, event.seq))
        elif event.type is EventType.TOOL_RESULT:
            answered = next((call for call in open_calls if call[0] == call_id), None)
            if answered:
                open_calls.remove(answered)
    return open_calls[0][1] - 1 if open_calls else upto
