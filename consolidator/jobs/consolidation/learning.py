"""Learns from one window of a session's events, without a database: events in, what a transaction will store out.

An event that makes an extractor fail is set aside, with the error; the window is learned from without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from consolidator.errors import ConsolidatorError
from consolidator.llm.redaction.redact import redact, redact_json
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.calls.tool_values import read_tool_value
from consolidator.memory.facts.candidates import Candidate, SessionContext, read_steering
from consolidator.memory.facts.remembered import read_forgetting
from consolidator.memory.facts.rule_extraction import propose_candidates
from consolidator.memory.lessons.trace import TraceFold
from consolidator.memory.procedures.digest import Digest, PackedDigest
from consolidator.memory.recall.episodes import Episode, extract_episode
from consolidator.memory.solutions.error_records import ErrorRecord
from consolidator.memory.solutions.error_tracker import ErrorTracker
from consolidator.memory.summary import SummaryFold
from consolidator.memory.text.phrasing import is_foreign
from consolidator.models.event import Event
from consolidator.models.fact import CorrectionRow
from consolidator.models.payload import EventType
from consolidator.models.session import SteerRow, TaskOutcomeRow
from consolidator.process import gc_paused


@dataclass(slots=True)
class ReadResult:
    """What a model read in a session's events."""

    candidates: list[Candidate] = field(default_factory=list)
    rejected: list[Candidate] = field(default_factory=list)
    failed_events: dict[int, str] = field(default_factory=dict)  # seq -> "model: error"
    stopped_before: int | None = None  # the first seq that has to wait for another night

    def append(self, other: ReadResult) -> None:
        """Add what was read in later events; nothing after a stop counts."""
        if self.stopped_before is None:
            self.candidates += other.candidates
            self.rejected += other.rejected
            self.failed_events |= other.failed_events
            self.stopped_before = other.stopped_before

    def limit_to(self, seq: int) -> ReadResult:
        """Return only what rests on events up to a seq."""
        return replace(
            self,
            candidates=[candidate for candidate in self.candidates if max(_cited_seqs(candidate)) <= seq],
            rejected=[rejected for rejected in self.rejected if rejected.seq <= seq],
            failed_events={failed: error for failed, error in self.failed_events.items() if failed <= seq},
        )

    @property
    def sources(self) -> set[int]:
        """The seqs of events that something was learned from."""
        return {seq for candidate in self.candidates for seq in _cited_seqs(candidate)} - set(self.failed_events)


def _cited_seqs(candidate: Candidate) -> list[int]:
    return [candidate.seq, *(seq for seq, _ in candidate.evidence)]


MAX_DEAD_EVENTS = 100  # of one window; with more, the window as a whole fails
_WORDLESS = (EventType.TOOL_CALL, EventType.TOOL_RESULT, EventType.THINKING_START)  # no fact is in them
MAX_ERROR_CHARS = 2000  # of an error that are kept


@dataclass(frozen=True, slots=True)
class FoldStates:
    """The states of a session's folds between two windows; each None before the first."""

    digest: PackedDigest | None = None
    errors: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None
    trace: bytes = b""


@dataclass(slots=True)
class WindowResult:
    """What a window taught, and from which events."""

    folds: FoldStates  # after the window
    errors: list[ErrorRecord] = field(default_factory=list)  # new or changed
    candidates: list[Candidate] = field(default_factory=list)
    rejected: list[Candidate] = field(default_factory=list)
    forgotten: list[CorrectionRow] = field(default_factory=list)  # what people asked to forget
    steering: list[SteerRow | TaskOutcomeRow] = field(default_factory=list)
    sources: set[int] = field(default_factory=set)  # seqs that something was learned from
    events: int = 0  # events of the window, dead ones included
    dead: dict[int, str] = field(default_factory=dict)  # seq -> "extractor: error"
    episodes: list[Episode] = field(default_factory=list)
    announced: int | None = None  # an event before the window, after which it begins with a call
    last_at: datetime | None = None  # when the last event happened
    foreign: int = 0  # messages of persons in languages that the rules cannot read

    def add_read(self, read: ReadResult) -> None:
        """Add what a model read in the same events."""
        self.candidates += read.candidates
        self.rejected += read.rejected
        self.dead |= read.failed_events
        self.sources = (self.sources | read.sources) - set(self.dead)


class TooManyDeadEvents(ConsolidatorError):
    """So many events of one window cannot be learned from that the fault must be elsewhere."""


class _ExtractorFailed(Exception):
    """An extractor failed on an event; the text is "extractor: error"."""

    def __init__(self, seq: int, failure: str) -> None:
        super().__init__(failure)
        self.seq = seq


def learn_window(context: SessionContext, folds: FoldStates, events: Sequence[Event], salt: bytes) -> WindowResult:
    """Learn from a session's next events; raise TooManyDeadEvents if more than MAX_DEAD_EVENTS must be set aside."""
    dead: dict[int, str] = {}
    while True:
        try:
            with gc_paused():
                result = _fold_events(context, folds, [event for event in events if event.seq not in dead], salt)
        except _ExtractorFailed as error:
            dead[error.seq] = str(error)
            if len(dead) > MAX_DEAD_EVENTS:
                raise TooManyDeadEvents(f"{len(dead)} events cannot be learned from, the last: {error}") from error
            continue
        result.dead, result.events = dead, len(events)
        return result


def _fold_events(context: SessionContext, folds: FoldStates, events: Sequence[Event], salt: bytes) -> WindowResult:
    errors = ErrorTracker.from_json(folds.errors, redact) if folds.errors else ErrorTracker(redact)
    digest = Digest(redact, salt, call_listener=errors, packed=folds.digest)
    summary = SummaryFold.from_json(folds.summary) if folds.summary else SummaryFold()
    trace = TraceFold(redact, folds.trace, digest.pairer)
    result = WindowResult(folds)
    for unredacted in events:
        if unredacted.unreadable is not None:
            raise _ExtractorFailed(unredacted.seq, f"log: {unredacted.unreadable}")
        event, calls_before = redact_call(unredacted), digest.completed_calls
        _feed(event, "digest", digest.feed)
        if event.type in (EventType.TOOL_CALL, EventType.TASK_END) or digest.completed_calls > calls_before:
            result.sources.add(event.seq)
        _feed(event, "trace", trace.feed)
        _feed(event, "summary", summary.feed)
        if event.type not in _WORDLESS:
            _feed(event, "facts", lambda event: _add_candidates(event, context, result))
        _feed(event, "episode", lambda event: _add_episode(event, context, result, events[0].seq))
    digest.pairer.pending = [
        {**redact_json({**call, "arguments": None}), "arguments": call["arguments"]} for call in digest.pairer.pending
    ]
    result.errors = errors.take_changed()
    result.folds = FoldStates(digest.pack(), errors.to_json(), summary.to_json(), trace.pack())
    result.last_at = max((event.occurred_at for event in events), default=None)
    return result


def redact_call(event: Event) -> Event:
    """Return a call with redacted arguments and folder: the folds keep them while the call waits for its result.

    They are redacted as memory reads them, since characters that nobody sees can hide a credential. A session's start
    names a folder, too.
    """
    if event.type not in (EventType.TOOL_CALL, EventType.SESSION_START):
        return event
    read = {name: event.data[name] for name in ("arguments", "cwd") if name in event.data}
    try:
        redacted = {name: redact_json(read_tool_value(value)) for name, value in read.items()}
        if isinstance(line := redacted.get("arguments"), str) and shell_command(str(event.data.get("tool")), line):
            redacted["arguments"] = redact(line, in_command=True)
    except Exception as error:
        raise _ExtractorFailed(event.seq, f"redaction: {type(error).__name__}") from error
    return event if redacted == read else replace(event, data={**event.data, **redacted})


def _add_candidates(event: Event, context: SessionContext, result: WindowResult) -> None:
    proposals = propose_candidates([event], context, redact)
    is_persons = event.type is EventType.USER_MESSAGE and event.is_persons_word and not context.is_subagent
    if is_persons and event.data.get("origin", "user") == "user":
        result.foreign += is_foreign(str(event.data.get("text") or "")[:MAX_ERROR_CHARS])
    result.candidates.extend(proposals.candidates)
    result.rejected.extend(proposals.rejected)
    steering = read_steering(event, context.session_id)
    if steering is not None:
        result.steering.append(steering)
    forgotten = read_forgetting(event, context)
    if forgotten is not None:
        result.forgotten.append(forgotten)
    if proposals.candidates or steering is not None or forgotten is not None:
        result.sources.add(event.seq)


def _add_episode(event: Event, context: SessionContext, result: WindowResult, first: int) -> None:
    """Add a turn for recall; nothing is learned from it. A sub-agent's user is an agent, whose own log has the text."""
    if event.type is EventType.TOOL_CALL and event.seq == first:
        result.announced = event.seq - 1
    elif event.type is EventType.TOOL_CALL and result.episodes and result.episodes[-1].seq == event.seq - 1:
        last = result.episodes[-1]
        result.episodes[-1] = replace(last, announces=last.role == "assistant")
    turn = extract_episode(event, redact)
    if turn is not None and not (context.is_subagent and turn.role == "user"):
        result.episodes.append(turn)


def _feed(event: Event, extractor: str, feed: Callable[[Event], None]) -> None:
    try:
        feed(event)
    except Exception as error:
        message = redact(f"{type(error).__name__}: {error}")[:MAX_ERROR_CHARS]  # it may quote the event
        raise _ExtractorFailed(event.seq, f"{extractor}: {message}") from error
