"""One step of a unit, pure: a window of a session's events becomes what its transaction will commit.

Whatever an extractor dies of is pinned to its event, which is set aside; the others go on without it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from consolidator.errors import ConsolidatorError
from consolidator.jobs.model.extraction import Read
from consolidator.llm.redaction.redact import redact, redact_json
from consolidator.memory.facts.candidates import Candidate, Rejected, SessionContext, propose
from consolidator.memory.procedures.digest import Digest, Packed
from consolidator.memory.recall.episodes import Episode, episode
from consolidator.memory.solutions.error_tracker import ErrorFold, ErrorRecord
from consolidator.memory.summary import SummaryFold
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store.queries import Row

MOST_DEAD = 100  # events of one step that may be set aside before the step as a whole is given up
LONGEST_ERROR = 2000  # characters of it that are kept
_ENDS = (EventType.TASK_END, EventType.SESSION_END)


@dataclass(frozen=True, slots=True)
class Folded:
    """A session's folds between two steps."""

    packed: Packed | None = None
    errors: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None


@dataclass(slots=True)
class WindowResult:
    """What a step learned, and from which events."""

    folded: Folded
    errors: list[ErrorRecord]
    candidates: list[Candidate]
    rejected: list[Rejected]
    sources: set[int]  # seqs that something was learned from
    events: int = 0  # how many it was fed, the dead among them
    dead: dict[int, str] = field(default_factory=dict)  # seq -> "extractor: error"
    episodes: list[Episode] = field(default_factory=list)
    last_at: datetime | None = None

    def add_read(self, read: Read) -> None:
        """Add what a model read in the same events."""
        self.candidates += read.candidates
        self.rejected += read.rejected
        self.dead |= read.dead
        self.sources = (self.sources | read.sources) - set(self.dead)


class Poisoned(ConsolidatorError):
    """So many events of one step cannot be learned from that the fault must be elsewhere."""


class _Dead(Exception):
    """An extractor died of an event."""

    def __init__(self, seq: int, told: str) -> None:
        super().__init__(told)
        self.seq = seq
        self.told = told


def learn(context: SessionContext, folded: Folded, events: Sequence[Event], salt: bytes) -> WindowResult:
    """Fold a session's next events; raise Poisoned where more than a hundred of them cannot be learned from."""
    dead: dict[int, str] = {}
    while True:
        try:
            learned = _attempt(context, folded, [e for e in events if e.seq not in dead], salt)
        except _Dead as death:
            dead[death.seq] = death.told
            if len(dead) > MOST_DEAD:
                raise Poisoned(f"{len(dead)} events cannot be learned from, the last: {death.told}") from death
            continue
        learned.dead, learned.events = dead, len(events)
        return learned


def _attempt(context: SessionContext, folded: Folded, events: Sequence[Event], salt: bytes) -> WindowResult:
    errors = ErrorFold.from_json(folded.errors, redact) if folded.errors else ErrorFold(redact)
    digest = Digest(redact, salt, errors=errors, packed=folded.packed)
    summary = SummaryFold.from_json(folded.summary) if folded.summary else SummaryFold()
    learned = WindowResult(folded, [], [], [], set())
    for told in events:
        event, before = _hidden(told), digest.done
        _fed(event, "digest", digest.feed)
        if event.type in (EventType.TOOL_CALL, EventType.TASK_END) or digest.done > before:
            learned.sources.add(event.seq)
        _fed(event, "summary", summary.feed)
        _proposed(event, context, learned)
        _fed(event, "episode", lambda one: _said(one, context, learned))
    digest.calls.open = [
        {**redact_json({**call, "arguments": None}), "arguments": call["arguments"]} for call in digest.calls.open
    ]
    learned.errors = errors.take_changed()
    learned.folded = Folded(digest.pack(), errors.to_json(), summary.to_json())
    learned.last_at = max((event.occurred_at for event in events), default=None)
    return learned


def _hidden(event: Event) -> Event:
    """Return a call without its credentials: it is folded as it will be kept while it waits for its result."""
    given = event.data.get("arguments") if event.type is EventType.TOOL_CALL else None
    try:
        hidden = redact_json(given)
    except Exception as error:
        raise _Dead(event.seq, f"redaction: {type(error).__name__}") from error
    return event if hidden == given else replace(event, data={**event.data, "arguments": hidden})


def _proposed(event: Event, context: SessionContext, learned: WindowResult) -> None:
    """Take an event's facts."""

    def facts(one: Event) -> None:
        found = propose([one], context, redact)
        learned.candidates.extend(found.candidates)
        learned.rejected.extend(found.rejected)
        if found.candidates:
            learned.sources.add(one.seq)

    _fed(event, "facts", facts)


def _said(event: Event, context: SessionContext, learned: WindowResult) -> None:
    """Take a turn for recall; it teaches nothing by itself. A sub-agent's user is an agent, and said it elsewhere."""
    told = episode(event, redact)
    if told is not None and not (context.is_subagent and told.role == "user"):
        learned.episodes.append(told)


def _fed(event: Event, extractor: str, feed: Callable[[Event], None]) -> None:
    try:
        feed(event)
    except Exception as error:
        told = redact(f"{type(error).__name__}: {error}")[:LONGEST_ERROR]  # it may quote what it died of
        raise _Dead(event.seq, f"{extractor}: {told}") from error


def safe_point(
    events: Sequence[Event], *, ended: bool, last: datetime, now: datetime, quiet: timedelta, abandoned: timedelta
) -> int:
    """Return up to which seq a session may be read tonight; 0 where nothing may.

    A closed task or an ended session may be read at once, anything else when nothing new came for `quiet`; never the
    middle of a tool call, unless nothing came for `abandoned`. `last` is when the last thing happened.
    """
    if not events:
        return 0
    if ended or now - last >= abandoned:
        return events[-1].seq
    return before_open_calls(events, events[-1].seq if now - last >= quiet else _last_end(events))


def window_end(events: Sequence[Event]) -> int:
    """Return where to cut a window that is not the session's last: between calls, if there is such a place."""
    cut = before_open_calls(events, events[-1].seq)
    return cut if cut >= events[0].seq else events[-1].seq


def _last_end(events: Sequence[Event]) -> int:
    return max((event.seq for event in events if event.type in _ENDS), default=0)


def before_open_calls(events: Sequence[Event], upto: int) -> int:
    """Return the last seq before the first call that has no result by `upto`."""
    waiting: list[tuple[str, int]] = []
    for event in events:
        if event.seq > upto:
            break
        if event.type is EventType.TOOL_CALL:
            waiting.append((str(event.data.get("call_id")), event.seq))
        elif event.type is EventType.TOOL_RESULT:
            done = next((one for one in waiting if one[0] == str(event.data.get("call_id"))), None)
            if done:
                waiting.remove(done)
    return waiting[0][1] - 1 if waiting else upto


def context_of(session: Row) -> SessionContext:
    """Return what memory is told of a session."""
    return SessionContext(
        session_id=session["id"],
        root_id=session["root_id"],
        agent=session["agent"],
        project=session["project"],
        peer=session["peer"],
        is_subagent=session["kind"] == "sub-agent",
    )


def bounds_of(session: Row) -> tuple[datetime, datetime]:
    """Return between which times a session's events were ingested, so that other partitions are left alone."""
    return session["created_at"], session["last_event_at"]


def packed_json(value: Any) -> bytes:
    """Return JSON as compressed bytes."""
    return zlib.compress(json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode(), 6)


def unpacked_json(data: bytes) -> Any:
    """Return what `packed_json` was given."""
    return json.loads(zlib.decompress(data))
