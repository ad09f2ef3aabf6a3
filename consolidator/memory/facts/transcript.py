"""The lines of which a model is asked about a session, and the question that they make: each line has a short name.

P: what a person typed or chose. A: the agent's last words of a turn. S: what it explained on the way. F: failed calls,
with what then worked. E: files edited. C: commands. All words stand in JSON strings, so that nothing in them can pass
for another line.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from consolidator.memory.facts.candidates import is_quote_in
from consolidator.memory.facts.quotes import find_quote

GAP = " […] "  # stands for the omitted middle of a long text
CONTEXT_LINES = 4  # before a chunk, shown beside it
_TALK = ("P", "A")  # shown in the order of time; other lines follow by their kind
_KINDS = ("P", "A", "S", "F", "E", "C")
_FILL = ("S", "F", "C", "A", "E")  # which lines have the room first that persons' words leave
# What an agent explains on the way is what it found out.
EXPLAINS = re.compile(
    r"\b(?:because|turns? out|(?:root )?cause|requires?|only when|pre-existing|there(?: is|'s) no|is not installed"
    r"|weil|Ursache|parce que|à cause)\b|ので|ため|因为|原因",
    re.IGNORECASE,
)
_LINE_OVERHEAD = 6  # tokens of a line beside what it shows


@dataclass(frozen=True, slots=True)
class TranscriptLine:
    """What a model is shown of an event, or of a call and what came of it."""

    seq: int
    kind: str  # P | A | S | F | E | C
    text: str  # redacted, as shown: what can be quoted
    occurred_at: datetime
    detail: str | None = None  # the speaker; the call that failed; how often a command worked
    outcome: str | None = None  # what was done after a failed call, and whether it then worked
    is_proof: bool = False  # whether a call that worked proves it: a result behind a pipe proves nothing
    quoted: str = ""  # the part of a person's text that they only pass on
    unquoted: str | None = None  # the person's own part; None: all of it
    is_choice: bool = False  # whether a person chose among answers that the agent offered
    pieces: tuple[str, ...] = ()  # the beginning and the end that are shown of a long text; empty: all of it is shown
    local: datetime | None = None  # when it happened, in the time zone of its place

    @property
    def is_persons(self) -> bool:
        """Whether a person says it."""
        return self.kind == "P"

    @property
    def speaker(self) -> str | None:
        """The name of the person who says it, where it has one."""
        return self.detail if self.is_persons else None

    @property
    def local_time(self) -> datetime:
        """When it happened in the time zone of its place: what "yesterday" is relative to."""
        return self.local or self.occurred_at

    def find_quote(self, quote: str) -> tuple[str, ...]:
        """Return the passages of its shown words that a quote names, verbatim; none where it is not there."""
        return find_quote(quote, self.pieces or (self.text,)) if self.kind != "E" else ()

    def is_own(self, quote: str) -> bool:
        """Tell whether a quote is a person's own words: neither passed on, nor over the border of what is."""
        if not self.is_persons:
            return False
        if self.is_choice and self.unquoted is not None:  # who chooses an answer makes its words their own
            return is_quote_in(self.unquoted, quote) or is_quote_in(quote, self.unquoted)
        is_unquoted = self.unquoted is None or is_quote_in(quote, self.unquoted)
        return is_unquoted and not (self.quoted and is_quote_in(quote, self.quoted))

    def render(self) -> str:
        """Return the line as a model is shown it, after its name."""
        detail = f" {_quote(self.detail)}" if self.detail else ""
        outcome = f" -> {_quote(self.outcome)}" if self.outcome else ""
        return f"{detail}: {_quote(self.text)}{outcome}"


@dataclass(frozen=True, slots=True)
class Origins:
    """What a session shows of where an agent's words come from; `observations.origins` reads it."""

    told: tuple[tuple[int, str, bool], ...] = ()  # by others: the seq, the words, whether by strangers
    read: tuple[tuple[int, str], ...] = ()  # in files of the project, folded
    ran: frozenset[str] = frozenset()  # the project's calls that ran or that results show
    vouched: frozenset[str] = frozenset()  # names that a person typed, a file of the project holds, or that ran
    # Files that were edited and then committed: the commit, and the words that the edits changed, "" if unknown.
    committed: tuple[tuple[TranscriptLine, str], ...] = ()
    edits: tuple[tuple[int, str], ...] = ()  # the seq of each edit, and the file


@dataclass(frozen=True, slots=True)
class TranscriptChunk:
    """Lines that are read at once, and a few before them that are only context."""

    lines: tuple[TranscriptLine, ...]
    context: tuple[TranscriptLine, ...] = ()
    origins: Origins = field(default=Origins(), repr=False)

    def named_lines(self) -> dict[str, TranscriptLine]:
        """Return the lines to read, by the names they are shown with, in the order in which they are shown."""
        counts: Counter[str] = Counter()
        named = {}
        for line in sorted(self.lines, key=_place):
            counts[line.kind] += 1
            named[f"{line.kind}{counts[line.kind]}"] = line
        return named

    def render(self, prefix: str = "") -> str:
        """Return what the model is shown; names of lines begin with a prefix where other chunks are shown, too."""
        context = _render_lines((f"{prefix}c{number}", line) for number, line in enumerate(self.context, 1))
        head = ["Read before; cite nothing of it:", *context, ""] if context else []
        lines = _render_lines((f"{prefix}{name}", line) for name, line in self.named_lines().items())
        return "\n".join([*head, *lines])

    @property
    def first_seq(self) -> int:
        """The seq of its first line in the order of time."""
        return min(line.seq for line in self.lines)

    @property
    def is_worth_asking(self) -> bool:
        """Whether anything may be learned of it: a person speaks, a call failed, or the agent explains something."""
        return any(line.kind in ("P", "F") or EXPLAINS.search(line.text) for line in self.lines if line.kind != "C")

    def split(self) -> list[TranscriptChunk]:
        """Return the two halves of a chunk of more than one line."""
        lines = sorted(self.lines, key=lambda line: line.seq)
        first, second = lines[: len(lines) // 2], lines[len(lines) // 2 :]
        context = tuple(line for line in first if line.kind in _TALK)[-CONTEXT_LINES:]
        return [replace(self, lines=tuple(first)), replace(self, lines=tuple(second), context=context)]


def cut_chunks(
    lines: Sequence[TranscriptLine], context: Sequence[TranscriptLine], *, budget: int, count: Callable[[str], int]
) -> list[TranscriptChunk]:
    """Return the questions about a session's lines, each of at most `budget` tokens; mostly it is one.

    No word of a person is left out: those that do not fit are in a further question. Other lines have the room that
    they leave, whole lines or none. Talk of an earlier question is the context of the next.
    """
    sizes = {id(line): count(line.render()) + _LINE_OVERHEAD for line in lines}
    parts: list[list[TranscriptLine]] = [[]]
    room = budget
    for line in (line for line in lines if line.is_persons):
        if parts[-1] and sizes[id(line)] > room:
            parts.append([])
            room = budget
        parts[-1].append(line)
        room -= sizes[id(line)]
    chunks: list[TranscriptChunk] = []
    rest = [line for line in lines if not line.is_persons]
    earlier = [line for line in context if line.kind in _TALK]
    for number, part in enumerate(parts, 1):
        end = part[-1].seq if number < len(parts) else None
        room = budget - sum(sizes[id(line)] for line in part)
        shown: list[TranscriptLine] = []
        for line in reversed(earlier[-CONTEXT_LINES:]):
            if (size := count(line.render()) + _LINE_OVERHEAD) <= room // 2:
                shown.insert(0, line)
                room -= size
        own = [line for line in rest if end is None or line.seq <= end]
        rest = [line for line in rest if end is not None and line.seq > end]
        for line in sorted(own, key=lambda line: _FILL.index(line.kind)):
            if sizes[id(line)] <= room:
                part.append(line)
                room -= sizes[id(line)]
        chunk = TranscriptChunk(tuple(sorted(part, key=_place)), tuple(shown))
        if chunk.is_worth_asking:
            chunks.append(chunk)
        earlier += [line for line in chunk.lines if line.kind in _TALK]
    return chunks


def shorten(text: str, limit: int) -> tuple[str, ...]:
    """Return a text, or the beginning and the end of a long one."""
    text = text.strip()
    if len(text) <= limit:
        return (text,)
    tail = limit // 3
    return text[: limit - tail].rstrip(), text[-tail:].lstrip()


def _place(line: TranscriptLine) -> tuple[int, int]:
    return (0 if line.kind in _TALK else _KINDS.index(line.kind)), line.seq


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _render_lines(named_lines: Iterable[tuple[str, TranscriptLine]]) -> list[str]:
    """Return named lines; above talk of another hour than the line before it, a heading says which."""
    rendered: list[str] = []
    last_hour = None
    for name, line in named_lines:
        hour = f"{line.local_time:%Y-%m-%d %H %Z}"
        if line.kind in _TALK and hour != last_hour:
            rendered.append(f"[{line.local_time.strftime('%Y-%m-%d %a %H:%M %Z').strip()}]")
            last_hour = hour
        rendered.append(f"{name}{line.render()}")
    return rendered
