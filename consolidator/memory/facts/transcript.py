"""Cuts a session's events into transcript chunks that a model reads: one line an event, each with a short name.

The words of a line are a JSON string, so that nothing in them can pass for another line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import assert_never

from consolidator.memory.calls.approvals import describe_approval
from consolidator.memory.facts.candidates import SessionContext, is_quote_in
from consolidator.memory.text.quotations import split_quoted
from consolidator.memory.text.recall_markers import strip_recalled
from consolidator.memory.text.words import split_words
from consolidator.models.event import Event
from consolidator.models.payload import EventType

MAX_LINE_CHARS = {"user": 6000, "tool": 400, "agent": 200, "approval": 400}
CONTEXT_LINES = 4  # before a chunk, shown beside it
_GAP = " […] "  # stands for the omitted middle of a long text
_LINE_OVERHEAD = 14  # tokens of a line beside its words


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """An event as a model sees it."""

    seq: int
    source: str  # user | tool | agent | approval
    text: str  # redacted, as shown
    occurred_at: datetime
    trust: str | None  # of what it proves; None where it proves nothing
    speaker: str | None = None
    quoted: str = ""  # the part of the text that its user only quotes
    unquoted: str | None = None  # the user's own part; None: all of it
    pieces: tuple[str, ...] = ()  # the beginning and the end that are shown of a long text; empty: all of it is shown
    local: datetime | None = None  # when it happened, in the time zone of its place

    @property
    def local_time(self) -> datetime:
        """When it happened in the time zone of its place: what "yesterday" is relative to."""
        return self.local or self.occurred_at

    @property
    def citable(self) -> bool:
        """Whether a fact may rest on it."""
        return self.trust is not None

    def contains(self, quote: str) -> bool:
        """Tell whether a quote has whole words of one shown piece; the mark of a gap belongs to none."""
        words = set(split_words(quote))
        return any(is_quote_in(quote, piece) and words & set(split_words(piece)) for piece in self._shown_pieces)

    def trust_of(self, quote: str) -> str:
        """Return how far a quote is trusted: what a user only quotes is worth as much as a tool's word.

        A quote that also stands in the quoted part, or that crosses its border, is not the user's alone.
        """
        is_own = self.unquoted is None or is_quote_in(quote, self.unquoted)
        is_quoted = bool(self.quoted) and is_quote_in(quote, self.quoted)
        return self.trust if self.trust and is_own and not is_quoted else "tool"

    def render(self) -> str:
        """Return the line as a model is shown it, after its name."""
        time = self.local_time.strftime("%Y-%m-%d %a %H:%M %Z").strip()
        who = f"{self.source} {json.dumps(self.speaker, ensure_ascii=False)}" if self.speaker else self.source
        return f"[{time}] {who}: {json.dumps(self.text, ensure_ascii=False)}"

    @property
    def _shown_pieces(self) -> tuple[str, ...]:
        return self.pieces or (self.text,)


@dataclass(frozen=True, slots=True)
class TranscriptChunk:
    """Lines that are read at once, and a few before them that are only context."""

    lines: tuple[TranscriptLine, ...]
    context: tuple[TranscriptLine, ...] = ()

    def named_lines(self) -> dict[str, TranscriptLine]:
        """Return the lines to read, by the names they are shown with."""
        return {f"e{number}": line for number, line in enumerate(self.lines, 1 + len(self.context))}

    def render(self) -> str:
        """Return what the model is shown."""
        context = [f"c{number} {line.render()}" for number, line in enumerate(self.context, 1)]
        events = [f"{name} {line.render()}" for name, line in self.named_lines().items()]
        head = ["Context, read before; cite nothing of it:", *context, ""] if context else []
        return "\n".join([*head, "Events:", *events])

    def split(self) -> list[TranscriptChunk]:
        """Return the two halves of a chunk of more than one line."""
        middle = len(self.lines) // 2
        first, second = self.lines[:middle], self.lines[middle:]
        return [TranscriptChunk(first, self.context), TranscriptChunk(second, first[-CONTEXT_LINES:])]


def transcript_lines(
    events: Sequence[Event], session: SessionContext, redact: Callable[[str], str], zone: tzinfo = UTC
) -> list[TranscriptLine]:
    """Return the lines of events; an event without words, or with words of memory itself alone, has none.

    `zone` is the place of events whose log has times in UTC.
    """
    lines = ((event, _line_of_event(event, session, redact, events)) for event in events)
    return [replace(line, local=event.to_local_time(zone)) for event, line in lines if line is not None]


def cut_chunks(
    lines: Sequence[TranscriptLine], context: Sequence[TranscriptLine], *, budget: int, count: Callable[[str], int]
) -> list[TranscriptChunk]:
    """Cut lines into chunks of at most `budget` tokens; those without anything to cite are left out."""
    parts: list[list[TranscriptLine]] = [[]]
    tokens = 0
    for line in lines:
        size = count(line.text) + _LINE_OVERHEAD
        if parts[-1] and tokens + size > budget:
            parts.append([])
            tokens = 0
        parts[-1].append(line)
        tokens += size
    chunks = []
    earlier = list(context)
    for part in parts:
        if any(line.citable for line in part):
            chunks.append(TranscriptChunk(tuple(part), tuple(earlier[-CONTEXT_LINES:])))
        earlier += part
    return chunks


def _line_of_event(
    event: Event, session: SessionContext, redact: Callable[[str], str], around: Sequence[Event]
) -> TranscriptLine | None:
    match event.type:
        case EventType.USER_MESSAGE:
            return _line_of_message(event, session, redact)
        case EventType.TOOL_RESULT:
            text = redact(strip_recalled(_plain_text(event.data.get("content"))))
            return _make_line(event, "tool", text, "tool")
        case EventType.ASSISTANT_RESPONSE:
            return _make_line(event, "agent", redact(strip_recalled(str(event.data.get("text") or ""))), None)
        case EventType.APPROVAL_GRANTED:
            return _line_of_approval(event, "granted", session, redact, around)
        case EventType.APPROVAL_DENIED:
            return _line_of_approval(event, "denied", session, redact, around)
        case (
            EventType.SESSION_START
            | EventType.SESSION_END
            | EventType.TOOL_CALL
            | EventType.THINKING_START
            | EventType.POLICY_DECISION
            | EventType.TASK_START
            | EventType.TASK_END
            | EventType.ERROR
            | EventType.SUBAGENT_SPAWN
            | EventType.SUBAGENT_COMPLETE
            | EventType.APPROVAL_REQUESTED
        ):
            return None
        case _:
            assert_never(event.type)


def _line_of_message(event: Event, session: SessionContext, redact: Callable[[str], str]) -> TranscriptLine | None:
    if event.data.get("origin", "user") != "user":
        return None
    text = redact(strip_recalled(str(event.data.get("text") or "")))
    if session.is_subagent:  # its user is an agent
        return _make_line(event, "agent", text, None)
    line = _make_line(event, "user", text, "user")
    if line is None:
        return None
    speaker = event.data.get("speaker")
    name = redact(speaker.strip())[:80] if isinstance(speaker, str) and speaker.strip() else None
    # The whole message tells whose words they are: a quotation may begin in the middle that is omitted.
    unquoted, quoted = (_GAP.join(_shorten(part, MAX_LINE_CHARS["user"])) for part in split_quoted(text))
    return replace(line, speaker=name, unquoted=unquoted, quoted=quoted)


def _line_of_approval(
    event: Event, answer: str, session: SessionContext, redact: Callable[[str], str], around: Sequence[Event]
) -> TranscriptLine | None:
    operation, reason = describe_approval(event, around), event.data.get("reason")
    if operation is None and not reason:
        return None
    text = f"{answer} {operation or 'a call'}" + (f": {reason}" if isinstance(reason, str) else "")
    return _make_line(event, "approval", redact(text), None if session.is_subagent else "user")


def _make_line(event: Event, source: str, text: str, trust: str | None) -> TranscriptLine | None:
    """Return the line of a text; None where the text is empty."""
    pieces = _shorten(text, MAX_LINE_CHARS[source])
    if not pieces[0]:
        return None
    return TranscriptLine(event.seq, source, _GAP.join(pieces), event.occurred_at, trust, pieces=pieces)


def _plain_text(content: object) -> str:
    """Return a result as text: the texts of its parts, or its JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) and "text" in part for part in content):
        return "\n".join(str(part["text"]) for part in content)
    return "" if content is None else json.dumps(content, ensure_ascii=False, default=str)


def _shorten(text: str, limit: int) -> tuple[str, ...]:
    """Return a text, or the beginning and the end of a long one."""
    text = text.strip()
    if len(text) <= limit:
        return (text,)
    tail = limit // 3
    return text[: limit - tail].rstrip(), text[-tail:].lstrip()
