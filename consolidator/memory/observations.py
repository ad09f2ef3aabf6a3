"""Turns what a model says that a session found out into candidates, each with a quote of the line that shows it.

An observation says how things are, never what to do. Of a failure or a command the program says what happened, and the
model only why. What was told to the agent, what excuses a failure or loosens a check is held for a person.
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
from consolidator.memory.facts.candidates import REDACTED_MARK, FactExtractor, Proposals
from consolidator.memory.facts.norms import is_norm
from consolidator.memory.facts.orders import INSTRUCTION, commands_memory, is_order, overrides_instructions
from consolidator.memory.facts.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.lessons.harm import lesson_harm, quote_reason
from consolidator.memory.lessons.history import code
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.quotations import split_quoted
from consolidator.memory.text.similarity import content_words
from consolidator.memory.text.surroundings import sentence_around
from consolidator.models.event import Event
from consolidator.models.payload import EventType

OBSERVATION = "observation"  # the kind of a candidate and of a fact
MAX_OBSERVATIONS, MAX_SENTENCE, MAX_HEADLINE = 5, 200, 100
HEDGED, NO_NAME, TOLD = "only a guess", "names no file, command or symbol", "told to the agent by others, not found"
EXCUSE, LOOSENING, PASSING = "excuses a failure", "loosens a check", "about the work in hand"
ELSEWHERE, NO_MOMENT = "about another place than the project", "names no moment at which it is of use"
SECRET, NOT_IN_QUOTE = "contains a secret", "names what its quote does not"
NEVER_RUN = "names a project's call that nothing here ran or shows"
REASON = "An agent's reason:"
_BY_PROGRAM = ("failure", "command")  # what happened is known without the model
_RUNS_HOOKS = re.compile(r"git (?:commit|push|merge)\b")
_NAME = re.compile(
    r"`([^`\n]{2,80})`|(?<![\w@])([\w@-]*[./_@:]\w[\w@./:+-]*|\w*[a-z][A-Z]\w*|[a-z]+\d\w*|--?\w[\w-]*|[a-z]+(?:-[a-z]+)+)"
)
_HEDGE = re.compile(
    r"\b(?:may|might|maybe|perhaps|likely|probably|possibly|seems?|appears? to|suspect|guess|assum\w+|presumably"
    r"|could be|i think|wohl|vermutlich|vielleicht|scheint|peut-etre|semble)\b|かもしれ|らしい|ようです|可能|也许|似乎",
    re.IGNORECASE,
)
_PASSING = re.compile(r"\b(?:now|currently|would|planned|will|todo|bug|for the moment|temporarily)\b", re.IGNORECASE)
_EXCUSE = re.compile(
    r"\b(?:expected|harmless|flak\w+|on purpose|intentional\w*|(?<!git )ignor\w+|broken|by design|known issue|spurious"
    r"|unrelated|benign|cosmetic|false positive|same as|equivalent|covers?|not needed|optional|absichtlich|harmlos"
    r"|attendu)\b"
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
_FOREIGN_DOCUMENT = re.compile(
    r"\.(?:html?|pdf|eml|mbox|docx?|diff|patch)\b|(?:node_modules|vendor|site-packages)/|/tmp/", re.IGNORECASE
)
_FROM_DOCUMENT = re.compile(rf"^(?=[^\s:]*(?:{_DOCUMENT.pattern}))[^\s:]+:.*", re.IGNORECASE | re.MULTILINE)
_CODE, _HYPHEN = re.compile(r"`[^`\n]+`"), re.compile(r"(?<=\w)-(?=\w)")
_PROJECTS_CALL = re.compile(
    r"(?<![\w./-])(?:(?:(npm|pnpm|yarn|bun|deno|make|just|task|mise|uv|poetry|rake|nox|tox|gradle|mvn|ant)(?: run)?"
    r"|python\d?|node|bash|sh|ruby|perl) +)(?:-\S+ +)*([\w@./][\w@:./-]*)|(?<![\w./-])()(\./[\w./-]+)"
)
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
    source: FactExtractor,
    known: Sequence[KnownObservation] = (),
) -> Proposals:
    """Return the observations of an answer, and what it says of known ones, as candidates; none outside a project."""
    proposals, project = Proposals(), source.session.project
    if project is None:
        return proposals
    lines = chunk.named_lines()
    by_name = {item.name: item for item in known}
    reader = _Reader(chunk, source, proposals)
    for stated in answer.get("observations", [])[:MAX_OBSERVATIONS]:
        reason = strip_invisible(" ".join(str(stated["sentence"]).split()))
        proofs = [lines[name] for name in map(str, stated.get("proof", ())) if name in lines and name[0] in "FC"]
        line = lines.get(str(stated["line"]))
        if stated["kind"] in _BY_PROGRAM and not proofs and line is not None and line.kind in ("F", "C"):
            proofs = [line]
        names = _names(reason)
        subject, value, sentence = names[0] if names else project, reason, reason
        if stated["kind"] in _BY_PROGRAM and proofs:
            subject, value = _describe(proofs[0])
            sentence = f"{value} {REASON} {reason}"
        item = KnownObservation(subject, f"observed_{stated['kind']}", value, sentence)
        reader.add(item, stated, line, proofs, reason=reason)
    for key, is_end in (("again", False), ("ended", True)):
        for cited in answer.get(key, [])[:MAX_OBSERVATIONS]:
            known_item = by_name.get(str(cited["known"]))
            quote_words = content_words(str(cited["quote"]))
            if known_item is not None and quote_words & content_words(known_item.sentence):
                reader.add(known_item, cited, lines.get(str(cited["line"])), is_end=is_end)
    return proposals


@dataclass(frozen=True, slots=True)
class _Reader:
    """Adds what an answer says of one question to its proposals."""

    chunk: TranscriptChunk
    source: FactExtractor
    proposals: Proposals

    def add(
        self,
        item: KnownObservation,
        cited: Mapping[str, Any],
        line: TranscriptLine | None,
        proofs: Sequence[TranscriptLine] = (),
        *,
        reason: str | None = None,
        is_end: bool = False,
    ) -> None:
        """Add what the answer says of one observation; `reason`: the model's own words, where the program has more."""
        quotes = line.find_quote(str(cited["quote"])) if line else ()
        said = item.sentence if reason is None else reason
        rejected = NO_MOMENT if not str(cited.get("moment", "-")).strip() else None
        rejected = rejected or _rejection(item, said, quotes, line, is_end=is_end)
        if line is None or rejected:
            quote, subject = redact(item.sentence)[:400], redact(item.subject)[:80]
            place = line or self.chunk.lines[0]
            self.proposals.rejected.append(self.source.reject(place, item.predicate, rejected or "", quote, subject))
            return
        told = [words for words in self.chunk.told if words[0] < line.seq]
        if line.is_persons:  # a person's word, which ends one
            held = None
        elif is_end:
            held = TOLD if is_told(quotes[0], (), told) else None
        else:
            names = _names(said)
            held = _objection(said, quotes[0], line, names, told, self.source.session.project or "")
            shown = " ".join([quotes[0], *(f"{proof.detail} {proof.text}" for proof in proofs)]).casefold()
            if held is None and names and not any(name.casefold() in shown for name in names):
                held = NOT_IN_QUOTE
            if held is None and reason is not None and not _projects_calls(*_CODE.findall(said)) <= self.chunk.ran:
                held = NEVER_RUN
        is_proved = held is None and not is_end and _is_proved(str(cited.get("kind", "")), line, proofs)
        is_proved = is_proved and _shows_code(said, [line, *proofs])
        source, evidence = self.source, [proof for proof in proofs if proof.kind == "F" and proof is not line]
        self.proposals.candidates.append(
            source.propose(
                line,
                *(str(source.revision), item.predicate, item.value, str(is_end)),
                level="project",
                subject=item.subject[:80],
                predicate=item.predicate,
                value=item.value,
                sentence=item.sentence,
                kind=OBSERVATION,
                confidence="explicit" if is_proved else "inferred",
                trust="agent",
                quote=quotes[0],
                evidence=tuple((proof.seq, proof.text) for proof in evidence),
                quarantined=held,
                valid_to=line.occurred_at if is_end else None,
            )
        )


def _describe(line: TranscriptLine) -> tuple[str, str]:
    """Return what a line of a failure or a command is about, and what it showed, in a sentence of the program."""
    if line.kind == "C":
        operation, _, counts = (line.detail or "").rpartition(": ")
        return operation, f"{code(operation)} {counts.replace(' of ', ' times of ')} in one session."
    # Whoever wrote the program chose the words that it prints: only what says what is wrong is told.
    headline = quote_reason((line.pieces or (line.text,))[0], MAX_HEADLINE)
    failure = f"{code(line.detail or '')} failed" + (f': "{headline}"' if headline else "")
    steps = (line.outcome or "").removeprefix("then ").removesuffix("worked").split(", ")
    mending = ", ".join(code(step) for step in steps if step)
    return line.detail or "", f"{failure}; after {mending} it worked." if line.is_proof else f"{failure}."


def _is_proved(kind: str, line: TranscriptLine, proofs: Sequence[TranscriptLine]) -> bool:
    """Tell whether one session's results prove an observation: a failure that was mended, or what a hook printed."""
    if kind in _BY_PROGRAM:
        return any(proof.is_proof for proof in proofs)
    is_hook = line.kind == "F" and _RUNS_HOOKS.match(line.detail or "") is not None
    return kind == "convention" and is_hook


def _shows_code(said: str, lines: Sequence[TranscriptLine]) -> bool:
    """Tell whether each command and name in code marks stands in what shows it: a result proves no made-up one."""
    shown = " ".join(f"{line.detail} {line.text} {line.outcome}" for line in lines).casefold()
    return all(span.strip("`").casefold() in shown for span in _CODE.findall(said))


def _names(sentence: str) -> list[str]:
    return [match[1] or match[2] for match in _NAME.finditer(sentence)]


def _rejection(
    item: KnownObservation, said: str, quotes: Sequence[str], line: TranscriptLine | None, *, is_end: bool
) -> str | None:
    """Return why an observation is none."""
    if line is None or not quotes:
        return "quote not in event"
    if line.is_persons and not (is_end and line.is_own(quotes[0])):  # a person's word may end one
        return "not the agent's own words"
    if line.kind in ("A", "S") and _HEDGE.search(sentence_around(line.text, quotes[0])):
        return HEDGED
    if is_end:
        return None
    if _HEDGE.search(said):
        return HEDGED
    if not said or len(said) > MAX_SENTENCE:
        return "empty or too long"
    if REDACTED_MARK in redact(f"{item.sentence} {quotes[0]}"):
        return SECRET
    if not _names(item.sentence):
        return NO_NAME
    if any(map(overrides_instructions, (said, quotes[0]))) or commands_memory(said):
        return INSTRUCTION
    plain = _CODE.sub("`x`", _HYPHEN.sub("_", said))  # neither "pre-commit" nor a command's name is an order
    if is_order(plain) or is_norm(said):
        return "says what to do"
    return lesson_harm(item.sentence, None, None)


def _objection(
    said: str,
    quote: str,
    line: TranscriptLine,
    names: Sequence[str],
    told: Sequence[tuple[int, str, bool]],
    project: str,
) -> str | None:
    """Return why a person has to review an observation first."""
    if is_told(quote, names, told):
        return TOLD
    paths = [path for path in _PATH.findall(f"{said} {quote}") if not _SYSTEM.match(path)]
    if any(path != project and not path.startswith(f"{project.rstrip('/')}/") for path in paths):
        return ELSEWHERE
    is_printed = line.kind in ("F", "C")  # of what a program prints, "would" says nothing of the work in hand
    for pattern, reason in ((_EXCUSE, EXCUSE), (_LOOSENING, LOOSENING), (_PASSING, PASSING)):
        if pattern.search(said if is_printed and pattern is _PASSING else f"{said} {quote}"):
            return reason
    return None


def told_texts(events: Sequence[Event], *, is_subagent: bool = False) -> tuple[tuple[int, str, bool], ...]:
    """Return what was told to an agent, folded: its seq, its words, and whether strangers may have chosen them.

    That is what came by web, MCP, a sub-agent, an issue, another host, a document or an installed package, what a
    person passed on, and what a harness or memory wrote. Of a document of the project only the words count: the names
    in it are those of the project.
    """
    pairer = CallPairer()
    texts: list[tuple[int, str, bool]] = []
    plans = {event.seq - 1 for event in events if event.data.get("approves") == "plan"}  # the agent's own
    for event in events:
        if event.type is EventType.USER_MESSAGE and event.data.get("origin") != "compaction":
            text = str(event.data.get("text") or "")
            is_persons = event.data.get("origin", "user") == "user" and event.is_persons_word
            passed_on = split_quoted(text)[1] if is_persons and not is_subagent else text
            texts.append((event.seq, passed_on, not is_subagent and event.seq not in plans))
        elif event.type is EventType.SUBAGENT_COMPLETE:
            texts.append((event.seq, json.dumps(dict(event.data), ensure_ascii=False), True))
        if (call := pairer.feed(event)) is not None:
            texts.append((event.seq, *_told_part(call)))
    return tuple((seq, folded, is_foreign) for seq, text, is_foreign in texts if (folded := _fold(text)))


def ran_calls(events: Sequence[Event]) -> frozenset[str]:
    """Return the project's own calls, such as those of a task runner, that ran or that its files and results show."""
    pairer = CallPairer()
    calls = [call for event in events if (call := pairer.feed(event)) is not None]
    return frozenset().union(
        *(
            _projects_calls(shell_command(call.tool, call.arguments) or "", "" if foreign else call.result_text)
            for call in calls
            for _, foreign in (_told_part(call),)
        )
    )


def _projects_calls(*texts: str) -> frozenset[str]:
    found = (match for text in texts for match in _PROJECTS_CALL.finditer(text))
    return frozenset(" ".join(filter(None, match.groups())) for match in found)


def is_told(quote: str, names: Sequence[str], told: Sequence[tuple[int, str, bool]]) -> bool:
    """Tell whether half of a quote's runs of five words stand in what was told, or a name in what strangers told."""
    words = _fold(quote).split()
    runs = {" ".join(words[start : start + _RUN]) for start in range(max(1, len(words) - _RUN + 1))}
    in_told = sum(any(run in text for _, text, _ in told) for run in runs)
    named = {f" {folded} " for name in names if len(folded := _fold(name)) > 1}
    is_named = any(is_foreign and name in f" {text} " for name in named for _, text, is_foreign in told)
    return 2 * in_told >= len(runs) or is_named


def _told_part(call: CompletedCall) -> tuple[str, bool]:
    """Return what of a call's result are words of others, and whether they may be strangers'."""
    line = shell_command(call.tool, call.arguments)
    if line is not None:
        is_foreign = any(each.search(line) for each in (_TELLING_COMMAND, *([_INSTALLS] if call.ok else [])))
        text = line
    elif call.tool.lower().startswith("mcp__") or not _OWN_TOOL.fullmatch(tool_base_name(call.tool)):
        is_foreign, text = True, ""
    else:
        paths = [call.arguments.get(key) for key in PATH_KEYS] if isinstance(call.arguments, dict) else []
        is_foreign, text = False, " ".join(path for path in paths if isinstance(path, str))
    if is_foreign or _DOCUMENT.search(text):
        return call.result_text, is_foreign or _FOREIGN_DOCUMENT.search(text) is not None
    documents = [match[0] for match in _FROM_DOCUMENT.finditer(call.result_text)]
    return "\n".join(documents), any(map(_FOREIGN_DOCUMENT.search, documents))


def _fold(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
