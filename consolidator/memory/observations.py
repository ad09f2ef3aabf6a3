"""Turns what a model says that an agent found out into candidates, each with a quote of the agent's own words.

An observation says how things are, never what to do. What was told to the agent, what excuses a failure or loosens a
check is held for a person.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.calls.tool_kinds import EDITING_TOOLS, PATH_KEYS, READING_TOOLS, tool_base_name
from consolidator.memory.facts.candidates import REDACTED_MARK, Candidate, Proposals, RejectedCandidate, SessionContext
from consolidator.memory.facts.norms import is_norm
from consolidator.memory.facts.orders import INSTRUCTION, commands_memory, is_order, overrides_instructions
from consolidator.memory.facts.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.lessons.harm import lesson_harm
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.quotations import split_quoted
from consolidator.memory.text.similarity import content_words
from consolidator.memory.text.surroundings import sentence_around
from consolidator.models.event import Event
from consolidator.models.payload import EventType

OBSERVATION = "observation"  # the kind of a candidate and of a fact
MAX_OBSERVATIONS, MAX_SENTENCE = 5, 200
HEDGED, NO_NAME, TOLD = "only a guess", "names no file, command or symbol", "told to the agent by others, not found"
EXCUSE, LOOSENING, PASSING = "excuses a failure", "loosens a check", "about the work in hand"
ELSEWHERE, NO_MOMENT = "about another place than the project", "names no moment at which it is of use"
SECRET = "contains a secret"
_NAME = re.compile(r"`([^`\n]{2,80})`|(?<![\w@])([\w@-]*[./_@:]\w[\w@./:+-]*|\w*[a-z][A-Z]\w*|[a-z]+\d\w*|--?\w[\w-]*)")
_HEDGE = re.compile(
    r"\b(?:may|might|maybe|perhaps|likely|probably|possibly|seems?|appears?|suspect|guess|assum\w+|presumably|could be"
    r"|i think|wohl|vermutlich|vielleicht|scheint|peut-etre|semble)\b|かもしれ|らしい|ようです|可能|也许|似乎",
    re.IGNORECASE,
)
_PASSING = re.compile(r"\b(?:now|currently|would|planned|will|todo|bug|for the moment|temporar\w+)\b", re.IGNORECASE)
_EXCUSE = re.compile(
    r"\b(?:expected|harmless|flak\w+|on purpose|intentional\w*|ignor\w+|broken|by design|known issue|spurious|unrelated"
    r"|benign|cosmetic|false positive|same as|equivalent|covers?|not needed|optional|absichtlich|harmlos|attendu)\b"
    r"|無視|想定|忽略|预期",
    re.IGNORECASE,
)
_LOOSENING = re.compile(
    r"\b(?:(?:is|are|be|turn\w*|switch\w*) off|disabl\w+|skip\w*|bypass\w*"
    r"|certificat\w+|tls|ssl|verif\w+|tokens?|secrets?|keys?|passwords?|credentials?"
    r"|prod(?:uction)?|sudo|root|chmod|force|trust\w*|registry|mirror|proxy|install\w*|downloads?|upload\w*|push\w*"
    r"|deploy\w*|unsafe|insecure|--no-\w+)\b|(?<!\S)-n\b|--(?:no-|force|insecure|skip)|\w://",
    re.IGNORECASE,
)
# What is read with other tools than these, and by these commands, are words of others.
_OWN_TOOL = re.compile(
    rf"{READING_TOOLS.pattern}|{EDITING_TOOLS.pattern}|codebase_search|grep_search|todo_?(?:read|write)|update_plan"
    r"|(?:grep|glob|ls|list|find|file|search)(?:_?(?:files?(?:_content)?|dir(?:ectory)?|search))?"
    r"|(?:bash|shell|kill|command)_?(?:output|status|shell|bash)?|exec_command|write_stdin"
)
_TELLING_COMMAND = re.compile(
    r"(?<![\w./-])(?:curl|wget|ssh|gh|glab|hub|http|xh|lynx|w3m|himalaya|consolidator|claude|codex|gemini"
    r"|git\b[^;&|\n]*?\s(?:log|show|blame|annotate|notes|shortlog|reflog|whatchanged|tag|rebase|pull|am|cherry-pick)"
    r"|(?:npm|pnpm|yarn|pip3?|cargo|gem|brew)\s+(?:view|info|show|search|home|docs|explain))(?![\w-])"
)
_INSTALLS = re.compile(
    r"\b(?:npm|pnpm|yarn|bun|pip3?|uv|cargo|gem|composer)\s+(?:\w+\s+)?(?:install|i|ci|add|update|sync)\b"
)
_DOCUMENT = re.compile(
    r"\.(?:md|mdx|txt|rst|adoc|org|html?|pdf|eml|mbox|docx?|diff|patch)\b|(?:node_modules|vendor|site-packages|docs?)/"
    r"|/tmp/|\b(?:readme|changelog|contributing|license)\b",
    re.IGNORECASE,
)
_FROM_DOCUMENT = re.compile(rf"^(?=[^\s:]*(?:{_DOCUMENT.pattern}))[^\s:]+:.*", re.IGNORECASE | re.MULTILINE)
_SYSTEM = re.compile(r"/(?:usr|bin|sbin|lib\w*|opt|dev|tmp)(?:/|$)")
_PATH = re.compile(r"(?<![\w.~@:/-])(?:~|/[\w.@-]+)(?:/[\w.@-]+)+")
_WORD = re.compile(r"[\w@][\w@./:+#-]*")
_RUN = 5  # words in a row that are no accident


@dataclass(frozen=True, slots=True)
class KnownObservation:
    """A sentence that a question shows as known: another session may show it anew, or show that it is over."""

    subject: str
    predicate: str
    value: str
    sentence: str

    @property
    def name(self) -> str:
        """By which a question and its answer call it: the same whatever else is known."""
        text = "\x1f".join((self.subject, self.predicate, self.value))
        return f"K{int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 100_000}"


def read_observations(
    chunk: TranscriptChunk,
    answer: Mapping[str, Any],
    session: SessionContext,
    extractor: str,
    revision: int,
    known: Sequence[KnownObservation] = (),
) -> Proposals:
    """Return the observations of an answer, and what it says of known ones, as candidates; none outside a project."""
    proposals = Proposals()
    if session.project is None:
        return proposals
    lines = chunk.named_lines()
    by_name = {item.name: item for item in known}

    def add(item: KnownObservation, cited: Mapping[str, Any], *, is_end: bool = False) -> None:
        line = lines.get(str(cited["line"]))
        quotes = line.find_quote(str(cited["quote"])) if line else ()
        reason = NO_MOMENT if not str(cited.get("moment", "-")).strip() else None
        reason = reason or _rejection(item, quotes, line, is_end=is_end)
        if line is None or reason:
            proposals.rejected.append(_reject(item, line or chunk.lines[0], reason or "", session, extractor))
            return
        names = _names(item.sentence)
        told = [text for seq, text in chunk.told if seq < line.seq]
        if line.source != "agent":  # a person's word, which ends one
            held = None
        elif is_end:
            held = TOLD if is_told(quotes[0], (), told) else None
        else:
            held = _objection(item.sentence, quotes[0], names, told, session.project or "")
        proposals.candidates.append(_candidate(item, line, quotes[0], session, extractor, revision, held, is_end))

    for stated in answer.get("observations", [])[:MAX_OBSERVATIONS]:
        sentence = " ".join(strip_invisible(str(stated["sentence"])).split())
        names = _names(sentence)
        predicate = f"observed_{stated['kind']}"
        add(KnownObservation(names[0] if names else session.project, predicate, sentence, sentence), stated)
    for key, is_end in (("again", False), ("ended", True)):
        for cited in answer.get(key, [])[:MAX_OBSERVATIONS]:
            item = by_name.get(str(cited["known"]))
            quote_words = content_words(str(cited["quote"]))
            if item is not None and quote_words & content_words(item.sentence):
                add(item, cited, is_end=is_end)
    return proposals


def _names(sentence: str) -> list[str]:
    return [match[1] or match[2] for match in _NAME.finditer(sentence)]


def _rejection(
    item: KnownObservation, quotes: Sequence[str], line: TranscriptLine | None, *, is_end: bool
) -> str | None:
    """Return why an observation is none."""
    if line is None or not quotes:
        return "quote not in event"
    is_persons = line.source != "agent" and line.trust_of(quotes[0]) == "user"
    if line.source != "agent" and not (is_end and is_persons):  # a person's word may end one
        return "not the agent's own words"
    if _HEDGE.search(sentence_around(line.text, quotes[0])):
        return HEDGED
    if is_end:
        return None
    sentence = item.sentence
    if not sentence or len(sentence) > MAX_SENTENCE:
        return "empty or too long"
    if REDACTED_MARK in redact(f"{sentence} {quotes[0]}"):
        return SECRET
    if not _names(sentence):
        return NO_NAME
    if any(map(overrides_instructions, (sentence, quotes[0]))) or commands_memory(sentence):
        return INSTRUCTION
    if is_order(sentence) or is_norm(sentence):
        return "says what to do"
    return lesson_harm(sentence, None, None)


def _objection(sentence: str, quote: str, names: Sequence[str], told: Sequence[str], project: str) -> str | None:
    """Return why a person has to review an observation first."""
    if is_told(quote, names, told):
        return TOLD
    paths = [path for path in _PATH.findall(f"{sentence} {quote}") if not _SYSTEM.match(path)]
    if any(path != project and not path.startswith(f"{project.rstrip('/')}/") for path in paths):
        return ELSEWHERE
    for pattern, reason in ((_EXCUSE, EXCUSE), (_LOOSENING, LOOSENING), (_PASSING, PASSING)):
        if pattern.search(f"{sentence} {quote}"):
            return reason
    is_about_quote = any(name.casefold() in quote.casefold() for name in names)
    return None if is_about_quote else "names what its quote does not"


def told_texts(events: Sequence[Event]) -> tuple[tuple[int, str], ...]:
    """Return what was told to an agent, folded, with its seq.

    That is what came by web, MCP, a sub-agent, an issue, another host, a document or an installed package, what a
    person passed on, and what a harness or memory wrote.
    """
    pairer = CallPairer()
    texts: list[tuple[int, str]] = []
    for event in events:
        if event.type is EventType.USER_MESSAGE and event.data.get("origin") != "compaction":
            text = str(event.data.get("text") or "")
            is_persons = event.data.get("origin", "user") == "user"
            texts.append((event.seq, split_quoted(text)[1] if is_persons else text))
        elif event.type is EventType.SUBAGENT_COMPLETE:
            texts.append((event.seq, json.dumps(dict(event.data), ensure_ascii=False)))
        if (call := pairer.feed(event)) is not None:
            texts.append((event.seq, _told_part(call)))
    return tuple((seq, folded) for seq, text in texts if (folded := _fold(text)))


def is_told(quote: str, names: Sequence[str], told: Sequence[str]) -> bool:
    """Tell whether half of a quote's runs of five words, or a name that it is about, stands in what was told."""
    words = _fold(quote).split()
    runs = {" ".join(words[start : start + _RUN]) for start in range(max(1, len(words) - _RUN + 1))}
    in_told = sum(any(run in text for text in told) for run in runs)
    return 2 * in_told >= len(runs) or any(_fold(name) in text for name in names for text in told)


def _told_part(call: CompletedCall) -> str:
    """Return what of a call's result are words of others: all of it, the lines of documents, or nothing."""
    line = shell_command(call.tool, call.arguments)
    if line is not None:
        is_others: object = (
            _TELLING_COMMAND.search(line) or _DOCUMENT.search(line) or (call.ok and _INSTALLS.search(line))
        )
    elif call.tool.lower().startswith("mcp__") or not _OWN_TOOL.fullmatch(tool_base_name(call.tool)):
        is_others = True
    else:
        paths = [call.arguments.get(key) for key in PATH_KEYS] if isinstance(call.arguments, dict) else []
        is_others = any(isinstance(path, str) and _DOCUMENT.search(path) for path in paths)
    return call.result_text if is_others else "\n".join(match[0] for match in _FROM_DOCUMENT.finditer(call.result_text))


def _fold(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _candidate(
    item: KnownObservation,
    line: TranscriptLine,
    quote: str,
    session: SessionContext,
    extractor: str,
    revision: int,
    held: str | None,
    is_end: bool,
) -> Candidate:
    key = (session.session_id, str(line.seq), extractor, str(revision), item.predicate, item.value, str(is_end))
    return Candidate(
        id=hashlib.blake2b("\x1f".join(key).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        session_id=session.session_id,
        root_id=session.root_id,
        seq=line.seq,
        occurred_at=line.occurred_at,
        agent=session.agent,
        project=session.project,
        peer=session.peer,
        level="project",
        subject=item.subject[:80],
        predicate=item.predicate,
        value=item.value,
        sentence=item.sentence,
        kind=OBSERVATION,
        confidence="inferred",
        trust="agent",
        quote=quote,
        extractor=extractor,
        single_valued=False,
        revision=revision,
        quarantined=held,
        valid_to=line.occurred_at if is_end else None,
    )


def _reject(
    item: KnownObservation, line: TranscriptLine, reason: str, session: SessionContext, extractor: str
) -> RejectedCandidate:
    return RejectedCandidate(
        session_id=session.session_id,
        seq=line.seq,
        predicate=item.predicate,
        reason=reason,
        quote=redact(item.sentence)[:400],
        extractor=extractor,
        subject=redact(item.subject)[:80],
        occurred_at=line.occurred_at,
    )
