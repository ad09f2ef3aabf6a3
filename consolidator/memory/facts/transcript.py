"""Cuts a session's events into transcript chunks that a model reads: one line an event, each with a short name.

The words of a line are a JSON string, so that nothing in them can pass for another line; so are a speaker's name and a
call. A line in brackets gives the day and hour of those below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import assert_never

from consolidator.memory.calls.approvals import describe_approval, read_choice
from consolidator.memory.calls.argument_redaction import redact_arguments
from consolidator.memory.calls.argument_summary import summarize_arguments
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.local_source import is_local_source
from consolidator.memory.facts.candidates import SessionContext, is_quote_in, speaker_name
from consolidator.memory.facts.orders import commands_memory
from consolidator.memory.facts.quotes import find_quote
from consolidator.memory.facts.tool_output import is_file_text, is_notice
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.quotations import split_quoted
from consolidator.memory.text.recall_markers import strip_recalled
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.models.principal import Role, role_of

MAX_LINE_CHARS = {"user": 6000, "tool": 400, "agent": 200, "approval": 400}
MAX_FILE_CHARS = 200  # of a result that shows what files hold
MAX_CALL_CHARS = 80  # of the call that a result belongs to
CONTEXT_LINES = 4  # before a chunk, shown beside it
LINES_BEFORE_WORD, LINES_AFTER_WORD = 3, 1  # of what surrounds a person's word: what it answers, and what came of it
_GAP = " […] "  # stands for the omitted middle of a long text
_LINE_OVERHEAD = 4  # tokens of a line beside what it shows
# What an agent explains on the way is what it found out.
_EXPLAINS = re.compile(
    r"\b(?:because|turns? out|(?:root )?cause|requires?|only when|pre-existing|there(?: is|'s) no|is not installed"
    r"|fails?"
    r"|weil|Ursache|parce que|à cause)\b|ので|ため|因为|原因",
    re.IGNORECASE,
)
_SPACES = re.compile(r"[^\S\n]+")
_LINE_BREAKS = re.compile(r" ?\n[ \n]*")


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
    call: str | None = None  # what a tool was called for: its name and what it was given
    commands_memory: bool = (
        False  # whether what no person says in it addresses whoever reads it, omitted parts included
    )
    is_local: bool = False  # whether it is the result of a call that reads only this machine and project

    @property
    def local_time(self) -> datetime:
        """When it happened in the time zone of its place: what "yesterday" is relative to."""
        return self.local or self.occurred_at

    @property
    def is_choice(self) -> bool:
        """Whether a person chose among answers that the agent offered."""
        return self.source == "approval" and self.unquoted is not None

    @property
    def citable(self) -> bool:
        """Whether a fact may rest on it."""
        return self.trust is not None

    @property
    def is_said(self) -> bool:
        """Whether somebody says in it what a fact may rest on: no tool's output."""
        return self.citable and self.source != "tool"

    def find_quote(self, quote: str) -> tuple[str, ...]:
        """Return the passages of its shown words that a quote names, verbatim; none where it is not there."""
        return find_quote(quote, self._shown_pieces)

    def trust_of(self, quote: str) -> str:
        """Return how far a quote is trusted: what a user only quotes is worth as much as a tool's word.

        A quote that also stands in the quoted part, or that crosses its border, is not the user's alone.
        """
        if self.is_choice and self.unquoted is not None:  # who chooses an answer makes its words their own
            is_chosen = is_quote_in(self.unquoted, quote) or is_quote_in(quote, self.unquoted)
            return self.trust if self.trust and is_chosen else "tool"
        is_own = self.unquoted is None or is_quote_in(quote, self.unquoted)
        is_quoted = bool(self.quoted) and is_quote_in(quote, self.quoted)
        return self.trust if self.trust and is_own and not is_quoted else "tool"

    @property
    def heading(self) -> str:
        """The day and hour in which it happened, as the line above it says them."""
        return self.local_time.strftime("%Y-%m-%d %a %H:%M %Z").strip()

    @property
    def hour(self) -> tuple[str, int, str]:
        """Two lines of the same hour need one heading."""
        return f"{self.local_time:%Y-%m-%d}", self.local_time.hour, f"{self.local_time:%Z}"

    def render(self) -> str:
        """Return the line as a model is shown it, after its name."""
        detail = self.speaker or self.call
        who = f"{self.source} {json.dumps(detail, ensure_ascii=False)}" if detail else self.source
        text = _GAP.join(map(_squeeze, self._shown_pieces)) if self.source == "tool" else self.text
        return f"{who}: {json.dumps(text, ensure_ascii=False)}"

    @property
    def _shown_pieces(self) -> tuple[str, ...]:
        return self.pieces or (self.text,)


@dataclass(frozen=True, slots=True)
class TranscriptChunk:
    """Lines that are read at once, and a few before them that are only context."""

    lines: tuple[TranscriptLine, ...]
    context: tuple[TranscriptLine, ...] = ()
    told: tuple[tuple[int, str], ...] = ()  # others' words that the session held, folded, by seq

    def named_lines(self) -> dict[str, TranscriptLine]:
        """Return the lines to read, by the names they are shown with."""
        return {f"e{number}": line for number, line in enumerate(self.lines, 1 + len(self.context))}

    def render(self, prefix: str = "") -> str:
        """Return what the model is shown; names of lines begin with a prefix where other chunks are shown, too."""
        context = _render_lines((f"{prefix}c{number}", line) for number, line in enumerate(self.context, 1))
        head = ["Context, read before; cite nothing of it:", *context, ""] if context else []
        events = _render_lines((f"{prefix}{name}", line) for name, line in self.named_lines().items())
        return "\n".join([*head, "Events:", *events])

    @property
    def is_citable(self) -> bool:
        """Whether a fact may rest on any of its lines."""
        return any(line.citable for line in self.lines)

    @property
    def has_persons_word(self) -> bool:
        """Whether a person says anything in it, however little."""
        return any(line.is_said for line in self.lines)

    def split(self) -> list[TranscriptChunk]:
        """Return the two halves of a chunk of more than one line."""
        middle = len(self.lines) // 2
        first, second = self.lines[:middle], self.lines[middle:]
        return [
            TranscriptChunk(first, self.context, self.told),
            TranscriptChunk(second, first[-CONTEXT_LINES:], self.told),
        ]


def transcript_lines(
    events: Sequence[Event], session: SessionContext, redact: Callable[[str], str], zone: tzinfo = UTC
) -> list[TranscriptLine]:
    """Return the lines of events; an event without words, or with words of memory itself alone, has none.

    `zone` is the place of events whose log has times in UTC.
    """
    calls = _pair_calls(events)
    lines = ((event, _line_of_event(event, session, redact, events, calls)) for event in events)
    return [replace(line, local=event.to_local_time(zone)) for event, line in lines if line is not None]


def lines_near_words(lines: Sequence[TranscriptLine]) -> list[TranscriptLine]:
    """Return the lines in which somebody says something, each with a few around it, and what the agent explains."""
    near: set[int] = set()
    for position, line in enumerate(lines):
        if line.is_said:
            near.update(range(position - LINES_BEFORE_WORD, position + LINES_AFTER_WORD + 1))
        elif line.source == "agent" and _EXPLAINS.search(line.text):
            near.add(position)
    return [line for position, line in enumerate(lines) if position in near]


def cut_chunks(
    lines: Sequence[TranscriptLine], context: Sequence[TranscriptLine], *, budget: int, count: Callable[[str], int]
) -> list[TranscriptChunk]:
    """Cut lines into chunks of at most `budget` tokens; those without anything to cite are left out.

    Lines that are left out still are the context of the next chunk.
    """
    parts: list[list[TranscriptLine]] = [[]]
    tokens = 0
    for line in lines:
        size = count(line.render()) + _LINE_OVERHEAD
        if parts[-1] and tokens + size > budget:
            parts.append([])
            tokens = 0
        parts[-1].append(line)
        tokens += size
    chunks = []
    earlier = list(context)
    for part in parts:
        chunk = TranscriptChunk(tuple(part), tuple(earlier[-CONTEXT_LINES:]))
        if chunk.is_citable:
            chunks.append(chunk)
        earlier += part
    return chunks


def _render_lines(named_lines: Iterable[tuple[str, TranscriptLine]]) -> list[str]:
    """Return named lines, with a heading above each that is of another hour than the one before."""
    rendered: list[str] = []
    hour = None
    for name, line in named_lines:
        if line.hour != hour:
            rendered.append(f"[{line.heading}]")
            hour = line.hour
        rendered.append(f"{name} {line.render()}")
    return rendered


def _pair_calls(events: Sequence[Event]) -> dict[int, CompletedCall]:
    """Return the calls whose results are among the events, by the seq of the result."""
    pairer = CallPairer()
    completed = (pairer.feed(event) for event in events)
    return {call.result_seq: call for call in completed if call is not None}


def _line_of_event(
    event: Event,
    session: SessionContext,
    redact: Callable[[str], str],
    around: Sequence[Event],
    calls: Mapping[int, CompletedCall],
) -> TranscriptLine | None:
    match event.type:
        case EventType.USER_MESSAGE:
            return _line_of_message(event, session, redact)
        case EventType.TOOL_RESULT:
            return _line_of_result(event, calls.get(event.seq), session, redact)
        case EventType.ASSISTANT_RESPONSE:
            return _make_line(
                event, "agent", redact(strip_recalled(strip_invisible(str(event.data.get("text") or "")))), None
            )
        case EventType.APPROVAL_GRANTED:
            return _line_of_approval(event, "granted", session, redact, around)
        case EventType.APPROVAL_DENIED:
            return _line_of_approval(event, "denied", session, redact, around)
        case (
            EventType.SESSION_START | EventType.SESSION_END | EventType.TOOL_CALL | EventType.THINKING_START
            | EventType.POLICY_DECISION | EventType.TASK_START | EventType.TASK_END | EventType.ERROR
            | EventType.SUBAGENT_SPAWN | EventType.SUBAGENT_COMPLETE | EventType.APPROVAL_REQUESTED
        ):  # fmt: skip
            return None
        case _:
            assert_never(event.type)


def _line_of_message(event: Event, session: SessionContext, redact: Callable[[str], str]) -> TranscriptLine | None:
    if event.data.get("origin", "user") != "user":
        return None
    text = redact(strip_recalled(strip_invisible(str(event.data.get("text") or ""))))
    if session.is_subagent:  # its user is an agent
        return _make_line(event, "agent", text, None)
    if not event.is_persons_word:  # the record of a client
        line = _make_line(event, "agent", text, "agent")
        return line and replace(line, commands_memory=commands_memory(text))
    line = _make_line(event, "user", text, "user")
    if line is None:
        return None
    name = speaker_name(event, redact)
    # The whole message tells whose words they are: a quotation may begin in the middle that is omitted.
    own, passed_on = split_quoted(text)
    unquoted, quoted = (_GAP.join(_shorten(part, MAX_LINE_CHARS["user"])) for part in (own, passed_on))
    commands = bool(quoted) and commands_memory(passed_on)
    return replace(line, speaker=name, unquoted=unquoted, quoted=quoted, commands_memory=commands)


def _line_of_result(
    event: Event, call: CompletedCall | None, session: SessionContext, redact: Callable[[str], str]
) -> TranscriptLine | None:
    """Return the line of a result, with its call; none where it only says that the call worked."""
    text = redact(strip_recalled(strip_invisible(_plain_text(event.data.get("content"))), is_excerpt=True))
    if is_notice(call, text):
        return None
    line = _make_line(event, "tool", text, "tool", MAX_FILE_CHARS if is_file_text(call) else None)
    if line is None:
        return None
    line = replace(line, commands_memory=commands_memory(text))
    if call is None:
        return line
    # And no client's record; an event from before principals has none.
    is_of_this_session = event.principal is None or role_of(event.principal) in (Role.TOOL, Role.HARNESS)
    is_local = is_of_this_session and is_local_source(call.tool, call.arguments, session.project)
    return replace(line, call=_describe_call(call, redact), is_local=is_local)


def _describe_call(call: CompletedCall, redact: Callable[[str], str]) -> str:
    """Return a call's tool and what it was given, in a few words."""
    given = summarize_arguments(call.tool, redact_arguments(call.arguments, redact), MAX_CALL_CHARS)
    return redact(strip_invisible(f"{call.tool[:MAX_CALL_CHARS]}: {given}" if given else call.tool[:MAX_CALL_CHARS]))


def _line_of_approval(
    event: Event, answer: str, session: SessionContext, redact: Callable[[str], str], around: Sequence[Event]
) -> TranscriptLine | None:
    is_persons = not session.is_subagent and event.is_persons_word
    if (choice := read_choice(event)) is not None:
        question, chosen = (redact(strip_recalled(strip_invisible(part))).strip() for part in choice)
        line = _make_line(event, "approval", f"{question} -> {chosen}", "user" if is_persons else None)
        return line and replace(line, quoted=question, unquoted=chosen)
    operation, reason = describe_approval(event, around), event.data.get("reason")
    reason = strip_recalled(reason).strip() if isinstance(reason, str) else reason
    if operation is None and not reason:
        return None
    text = f"{answer} {operation or event.data.get('tool') or 'a call'}" + (
        f": {reason}" if isinstance(reason, str) and reason else ""
    )
    return _make_line(event, "approval", redact(strip_invisible(text)), "user" if is_persons else None)


def _make_line(
    event: Event, source: str, text: str, trust: str | None, limit: int | None = None
) -> TranscriptLine | None:
    """Return the line of a text; None where the text is empty."""
    pieces = _shorten(text, limit or MAX_LINE_CHARS[source])
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


def _squeeze(text: str) -> str:
    """Return a text without indentation, empty lines and alignment: layout costs tokens and says nothing."""
    return _LINE_BREAKS.sub("\n", _SPACES.sub(" ", text))
