"""Cuts a session's events into chunks that a model can read: one line an event, each with a short name.

A line's words are a JSON string, so that nothing in them can pass for another line. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from consolidator.memory.calls.approvals import operation
from consolidator.memory.facts.candidates import SessionContext, verify_quote
from consolidator.memory.text.quotations import parted
from consolidator.memory.text.recall_markers import without_recalled
from consolidator.memory.text.words import words
from consolidator.models.event import Event
from consolidator.models.payload import EventType

LONGEST = {"user": 6000, "tool": 400, "agent": 200, "approval": 400}  # characters of a line
CONTEXT = 4  # lines before a chunk that are shown beside it
_GAP = " […] "  # stands for the left-out middle of a long text
_FRAME = 14  # tokens of a line beside its words
_ANSWERS = {EventType.APPROVAL_GRANTED: "granted", EventType.APPROVAL_DENIED: "denied"}


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """An event as a model sees it."""

    seq: int
    who: str  # user | tool | agent | approval
    text: str  # redacted; what is shown
    occurred_at: datetime
    trust: str | None  # of what it proves; None where it proves nothing
    speaker: str | None = None
    cited: str = ""  # the part of the text that its user only passes on
    own: str | None = None  # the part that is the user's own; None: all of it
    pieces: tuple[str, ...] = ()  # the beginning and the end that are shown of a long text; none: all of it
    local: datetime | None = None  # when it happened by the clock on the wall

    @property
    def wall(self) -> datetime:
        """When it happened by the clock on the wall there: what "yesterday" is counted from."""
        return self.local or self.occurred_at

    @property
    def citable(self) -> bool:
        """Whether a fact may rest on it."""
        return self.trust is not None

    def holds(self, quote: str) -> bool:
        """Tell whether a quote is in its words, and no mere letters of one; what stands for a gap is none of them."""
        return any(verify_quote(quote, piece) and set(words(quote)) & set(words(piece)) for piece in self._shown)

    def proves(self, quote: str) -> str:
        """Return how far a quote is to be believed: what a user only passes on is worth as much as a tool's word.

        What they say and pass on, too, or what begins in their words and ends in another's, is not theirs alone.
        """
        own = self.own is None or verify_quote(quote, self.own)
        passed_on = bool(self.cited) and verify_quote(quote, self.cited)
        return self.trust if self.trust and own and not passed_on else "tool"

    @property
    def _shown(self) -> tuple[str, ...]:
        return self.pieces or (self.text,)


@dataclass(frozen=True, slots=True)
class TranscriptChunk:
    """Lines to be read at once, and a few before them that are only context."""

    lines: tuple[TranscriptLine, ...]
    before: tuple[TranscriptLine, ...] = ()

    def named(self) -> dict[str, TranscriptLine]:
        """Return the lines that are to be read, by the names they are shown with."""
        return {f"e{number}": line for number, line in enumerate(self.lines, 1 + len(self.before))}

    def render(self) -> str:
        """Return what the model is shown."""
        shown = [f"c{number} {_shown(line)}" for number, line in enumerate(self.before, 1)]
        told = [f"{name} {_shown(line)}" for name, line in self.named().items()]
        head = ["Context, read before; cite nothing of it:", *shown, ""] if shown else []
        return "\n".join([*head, "Events:", *told])

    def halves(self) -> list[TranscriptChunk]:
        """Return the two halves of a chunk of more than one line."""
        middle = len(self.lines) // 2
        first, second = self.lines[:middle], self.lines[middle:]
        return [TranscriptChunk(first, self.before), TranscriptChunk(second, first[-CONTEXT:])]


def lines_of(
    events: Sequence[Event], session: SessionContext, redact: Callable[[str], str], zone: tzinfo = UTC
) -> list[TranscriptLine]:
    """Return the lines of events; what says nothing, or what memory itself put there, has none.

    `zone` is where those happened whose log tells its times in UTC.
    """
    found = ((event, _line(event, session, redact, events)) for event in events)
    return [replace(line, local=event.local_at(zone)) for event, line in found if line is not None]


def chunks(
    lines: Sequence[TranscriptLine], before: Sequence[TranscriptLine], *, budget: int, count: Callable[[str], int]
) -> list[TranscriptChunk]:
    """Cut lines into chunks of at most `budget` tokens; those without anything to cite are left out."""
    cut: list[list[TranscriptLine]] = [[]]
    used = 0
    for line in lines:
        size = count(line.text) + _FRAME
        if cut[-1] and used + size > budget:
            cut.append([])
            used = 0
        cut[-1].append(line)
        used += size
    found = []
    earlier = list(before)
    for part in cut:
        if any(line.citable for line in part):
            found.append(TranscriptChunk(tuple(part), tuple(earlier[-CONTEXT:])))
        earlier += part
    return found


def _line(
    event: Event, session: SessionContext, redact: Callable[[str], str], around: Sequence[Event]
) -> TranscriptLine | None:
    if event.type is EventType.USER_MESSAGE:
        return _from_user(event, session, redact)
    if event.type is EventType.TOOL_RESULT:
        told = redact(without_recalled(_plain(event.data.get("content"))))
        return _line_of(event, "tool", told, "tool")
    if event.type is EventType.ASSISTANT_RESPONSE:
        return _line_of(event, "agent", redact(without_recalled(str(event.data.get("text") or ""))), None)
    if event.type in _ANSWERS:
        what, reason = operation(event, around), event.data.get("reason")
        if what is None and not reason:
            return None
        told = f"{_ANSWERS[event.type]} {what or 'a call'}" + (f": {reason}" if isinstance(reason, str) else "")
        return _line_of(event, "approval", redact(told), None if session.is_subagent else "user")
    return None


def _from_user(event: Event, session: SessionContext, redact: Callable[[str], str]) -> TranscriptLine | None:
    if event.data.get("origin", "user") != "user":
        return None
    said = redact(without_recalled(str(event.data.get("text") or "")))
    if session.is_subagent:  # its user is an agent
        return _line_of(event, "agent", said, None)
    line = _line_of(event, "user", said, "user")
    if line is None:
        return None
    speaker = event.data.get("speaker")
    name = redact(speaker.strip())[:80] if isinstance(speaker, str) and speaker.strip() else None
    # Whose words they are is told from the whole message: what is left out of it may open a quotation.
    own, cited = (_GAP.join(_shortened(part, LONGEST["user"])) for part in parted(said))
    return replace(line, speaker=name, own=own, cited=cited)


def _line_of(event: Event, who: str, told: str, trust: str | None) -> TranscriptLine | None:
    """Return the line of what is told; None where that is nothing."""
    pieces = _shortened(told, LONGEST[who])
    if not pieces[0]:
        return None
    return TranscriptLine(event.seq, who, _GAP.join(pieces), event.occurred_at, trust, pieces=pieces)


def _shown(line: TranscriptLine) -> str:
    when = line.wall.strftime("%Y-%m-%d %a %H:%M %Z").strip()
    who = f"{line.who} {json.dumps(line.speaker, ensure_ascii=False)}" if line.speaker else line.who
    return f"[{when}] {who}: {json.dumps(line.text, ensure_ascii=False)}"


def _plain(content: object) -> str:
    """Return a result's text: of JSON the JSON, of parts their texts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) and "text" in part for part in content):
        return "\n".join(str(part["text"]) for part in content)
    return "" if content is None else json.dumps(content, ensure_ascii=False, default=str)


def _shortened(text: str, most: int) -> tuple[str, ...]:
    """Return a text, or the beginning and the end of a long one."""
    text = text.strip()
    if len(text) <= most:
        return (text,)
    tail = most // 3
    return text[: most - tail].rstrip(), text[-tail:].lstrip()
