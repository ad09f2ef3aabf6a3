"""Reads from a session's events what a model is asked about: the person's words, the agent's, and what calls showed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo

from consolidator.memory.calls.tool_values import describe_approval, read_choice
from consolidator.memory.facts.candidates import SessionContext, speaker_name
from consolidator.memory.facts.questions.call_lines import call_lines
from consolidator.memory.facts.questions.transcript import EXPLAINS, GAP, TranscriptLine, shorten
from consolidator.memory.solutions.error_line import shows_failure
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.markers import strip_recalled
from consolidator.memory.text.pasted import split_quoted
from consolidator.models.event import Event
from consolidator.models.payload import EventType

MAX_PERSONS_CHARS, MAX_LAST_CHARS, MAX_EXPLANATION_CHARS = 900, 300, 260  # of a line
MAX_EXPLANATIONS_CHARS = 3000  # of all of them
_NO_PROSE = re.compile(r"```.*?(?:```|\Z)|^[ \t]*(?:\||#)[^\n]*$", re.DOTALL | re.MULTILINE)
_AFTER_FAILURE = 3  # sentences that may say why a call failed
_INTENDS = re.compile(
    r"(?:ok(?:ay)?|good|right|so|alright)?\W*(?:now\b|let(?: me|'s)|i(?:'ll| will|'m going)|ich werde|je vais)\b"
    r"|\W*step \d+[:.]",
    re.IGNORECASE,
)
# What was built is worth less than how things are; it may follow the name of what it is about.
_BUILT = re.compile(r"(?:\W*(?:`[^`]+`|\*\*[^*]+\*\*)[^\w`]*)?(?:\w+ed\b|$)", re.IGNORECASE)
_NAMES_CODE = re.compile(r"`[^`]+`|\w[./_]\w|[a-z][A-Z]|(?<!\S)--?\w")
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?。！？][\"'`)*_]*(?=\s|$)|[。！？]|(?=\n|$))")
_BULLET = re.compile(r"^\W*(?:[-*•]|\d+[.)])\s+")

Redact = Callable[[str], str]


def transcript_lines(
    events: Sequence[Event], session: SessionContext, redact: Redact, zone: tzinfo = UTC
) -> list[TranscriptLine]:
    """Return the lines of events in the order of time; `zone` is the place of events whose log has times in UTC."""
    talk = list(_talk(events, session, redact))
    shown = {line.seq: line.text for line in talk}
    explained = [line for line in _explanations(events, redact) if line.text not in shown.get(line.seq, "")]
    lines = [*talk, *explained, *call_lines(events, redact, session.project)]
    times = {event.seq: event.to_local_time(zone) for event in events}
    return [replace(line, local=times[line.seq]) for line in sorted(lines, key=lambda line: line.seq)]


def _talk(events: Sequence[Event], session: SessionContext, redact: Redact) -> Iterator[TranscriptLine]:
    """Yield what persons said, and the last words of the agent before each."""
    last: Event | None = None
    for event in events:
        if event.type is EventType.ASSISTANT_RESPONSE:
            last = event
        elif event.type is EventType.USER_MESSAGE:
            yield from _last_words(last, redact)
            last = None
        line = None if session.is_subagent or not event.is_persons_word else _line_of_person(event, redact, events)
        if line is not None:
            yield line
    yield from _last_words(last, redact)


def _last_words(event: Event | None, redact: Redact) -> Iterator[TranscriptLine]:
    if event and (line := _make_line(event, "A", _words(event.data.get("text"), redact), MAX_LAST_CHARS)):
        yield line


def _line_of_person(event: Event, redact: Redact, around: Sequence[Event]) -> TranscriptLine | None:
    if event.type is EventType.USER_MESSAGE:
        return _line_of_message(event, redact) if event.data.get("origin", "user") == "user" else None
    if event.type not in (EventType.APPROVAL_GRANTED, EventType.APPROVAL_DENIED):
        return None
    if (choice := read_choice(event)) is not None:
        question, chosen = (_words(part, redact).strip() for part in choice)
        # A plan that a person accepts stays the agent's words.
        if event.data.get("approves") == "plan" or event.data.get("tool") == "ExitPlanMode":
            return _make_line(event, "A", f"{question} -> {chosen}", MAX_LAST_CHARS)
        line = _make_line(event, "P", f"{question} -> {chosen}", MAX_PERSONS_CHARS)
        return line and replace(line, quoted=question, unquoted=chosen, is_choice=True)
    reason = event.data.get("reason")
    line = _make_line(event, "P", _words(reason, redact), MAX_PERSONS_CHARS) if isinstance(reason, str) else None
    answer = "granted" if event.type is EventType.APPROVAL_GRANTED else "denied"
    operation = describe_approval(event, around) or event.data.get("tool") or "a call"
    return line and replace(line, outcome=redact(strip_invisible(f"{answer} {operation}"))[:120])


def _line_of_message(event: Event, redact: Redact) -> TranscriptLine | None:
    text = _words(event.data.get("text"), redact)
    line = _make_line(event, "P", text, MAX_PERSONS_CHARS)
    if line is None:
        return None
    # The whole message tells whose words they are: a quotation may begin in the middle that is omitted.
    own, passed_on = split_quoted(text)
    unquoted, quoted = (GAP.join(shorten(part, len(text))) for part in (own, passed_on))
    return replace(line, detail=speaker_name(event, redact), unquoted=unquoted, quoted=quoted)


def _explanations(events: Sequence[Event], redact: Redact) -> list[TranscriptLine]:
    """Return what the agent says how things are: sentences that give a reason, come right after a failed call, name
    code, or others, in this order where there are too many; what it intends is left out."""
    ranked: dict[str, tuple[int, int, TranscriptLine]] = {}
    is_after_failure = False
    for event in events:
        if event.type is EventType.TOOL_RESULT:
            is_after_failure = event.data.get("status", "ok") != "ok" or shows_failure(str(event.data.get("content")))
        if event.type is not EventType.ASSISTANT_RESPONSE:
            continue
        prose = _NO_PROSE.sub("\n", _words(event.data.get("text"), redact))
        sentences = [_BULLET.sub("", match[0]).strip() for match in _SENTENCE.finditer(prose)]
        sentences = [sentence for sentence in sentences if len(sentence.split()) > 3 or len(sentence.encode()) > 40]
        for number, sentence in enumerate(sentences):
            if len(sentence) > MAX_EXPLANATION_CHARS or _INTENDS.match(sentence):
                continue
            explains = EXPLAINS.search(sentence) is not None
            follows = is_after_failure and number < _AFTER_FAILURE
            is_of_code = _NAMES_CODE.search(sentence) is not None and _BUILT.match(sentence) is None
            line = TranscriptLine(event.seq, "S", sentence, event.occurred_at)
            ranked.setdefault(sentence, (-4 * explains - 2 * follows - is_of_code, len(ranked), line))
        is_after_failure = False
    lines: list[TranscriptLine] = []
    room = MAX_EXPLANATIONS_CHARS
    for _, _, line in sorted(ranked.values(), key=lambda item: item[:2]):
        if len(line.text) <= room:
            lines.append(line)
            room -= len(line.text)
    return lines


def _words(text: object, redact: Redact) -> str:
    return redact(strip_recalled(strip_invisible(str(text or ""))))


def _make_line(event: Event, kind: str, text: str, limit: int) -> TranscriptLine | None:
    """Return the line of a text; None where the text is empty."""
    pieces = shorten(text, limit)
    return TranscriptLine(event.seq, kind, GAP.join(pieces), event.occurred_at, pieces=pieces) if pieces[0] else None
