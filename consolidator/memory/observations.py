"""Turns what a model says that a session found out into candidates, each with a quote of the line that shows it.

An observation says how things are, never what to do. Of a failure or a command the program says what happened, and the
model only why. What was told to the agent, what excuses a failure or loosens a check is held for a person.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.call_pairing import CallPairer, CompletedCall
from consolidator.memory.calls.installation import KNOWN_NAMES, KNOWN_PACKAGES, PACKAGE_MANAGERS
from consolidator.memory.calls.shell import Command, parse_commands
from consolidator.memory.calls.shell_programs import PLAIN_PROGRAMS, SHELLS, SUBCOMMAND_PROGRAMS
from consolidator.memory.calls.symbols import shell_command
from consolidator.memory.calls.tool_kinds import (
    EDITING_TOOLS,
    INSPECTING_PROGRAMS,
    PATH_KEYS,
    READING_TOOLS,
    tool_base_name,
)
from consolidator.memory.facts.candidates import REDACTED_MARK, FactExtractor, Proposals
from consolidator.memory.facts.norms import is_norm
from consolidator.memory.facts.orders import INSTRUCTION, commands_memory, is_order, overrides_instructions
from consolidator.memory.facts.transcript import Origins, TranscriptChunk, TranscriptLine
from consolidator.memory.lessons.harm import lesson_harm, quote_reason
from consolidator.memory.lessons.history import code
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.phrasing import word_set
from consolidator.memory.text.quotations import split_quoted
from consolidator.memory.text.sentences import sentence_around
from consolidator.memory.text.similarity import content_words
from consolidator.models.event import Event
from consolidator.models.payload import EventType

OBSERVATION = "observation"  # the kind of a candidate and of a fact
MAX_OBSERVATIONS, MAX_SENTENCE, MAX_HEADLINE = 5, 200, 100
HEDGED, NO_NAME, TOLD = "only a guess", "names no file, command or symbol", "told to the agent by others, not found"
EXCUSE, LOOSENING, PASSING = "excuses a failure", "loosens a check", "about the work in hand"
ELSEWHERE, NO_MOMENT = "about another place than the project", "names no moment at which it is of use"
SECRET, NOT_IN_QUOTE = "contains a secret", "names what its quote does not"
NEVER_RUN = "names a project's call that nothing here ran or shows"
UNKNOWN = "names a package or program that neither the project nor a person knows"
COMMON_WORDS = "shares only words that most sessions have"
CHANGED = "(its file was changed and committed: is it so again, or ended?)"
COMMON_SHARE, MIN_COMMON = 0.15, 3  # of a project's sessions, at which a word that they share proves nothing
REASON = "An agent's reason:"
_BY_PROGRAM = ("failure", "command")  # what happened is known without the model
_COMMITS = re.compile(r"\bgit\b[^;&|\n]*?\scommit\b[^;&|\n]{0,80}")
_PACKAGE = re.compile(r"(?:@[a-z][\w.-]*/)?[a-z][a-z0-9]*(?:-[a-z0-9]+)*(?:@[\w.^~-]+)?")
_CALLED_A_PACKAGE = re.compile(
    r"\b(?:package|library|linter|formatter|bundler|runner|tool|program|plugin|preset|dependency|extension|image)s?\b"
    r"(?: [\w']+){0,4}? ((?:@[\w.-]+/)?[a-z][a-z0-9]*(?:-[a-z0-9]+)+)(?![\w/-]|\.\w)",
    re.IGNORECASE,
)
_WELL_KNOWN = SUBCOMMAND_PROGRAMS | PLAIN_PROGRAMS | SHELLS | PACKAGE_MANAGERS | KNOWN_PACKAGES | KNOWN_NAMES.keys()
_WELL_KNOWN |= word_set(
    """
    commit-msg pre-commit pre-push pre-rebase post-merge post-checkout post-commit prepare-commit-msg
    true false null none undefined nan
    """
)
_RUNS_HOOKS = re.compile(r"git (?:commit|push|merge)\b")
_NAME = re.compile(
    r"`([^`\n]{2,80})`|(?<![\w@])([\w@-]*[./_@:]\w[\w@./:+-]*|\w*[a-z][A-Z]\w*|[a-z]+\d\w*|--?\w[\w-]*|[a-z]+(?:-[a-z]+)+)"
)
_HEDGE = re.compile(
    r"\b(?:may|might|maybe|perhaps|likely|probably|possibly|seems?|appears? to|suspect|guess|assum\w+|presumably"
    r"|could be|i think|wohl|vermutlich|vielleicht|scheint|peut-etre|semble)\b|かもしれ|らしい|ようです|可能|也许|似乎",
    re.IGNORECASE,
)
_POSSIBLE = re.compile(r"\bmay\b")  # no guess in a sentence whose quote is none: "`items[i]` may be `undefined`"
_PASSING = re.compile(r"\b(?:now|currently|would|planned|will|todo|bug|for the moment|temporarily)\b", re.IGNORECASE)
_CHECKS = r"(?:fail\w*|errors?|warn\w*|tests?|lint\w*|(?:type)?checks?|hooks?|builds?|ci|make|run)"
_EXCUSE = re.compile(
    r"\b(?:expected|harmless|flak\w+|on purpose|intentional\w*|(?<!git )ignor(?!ed by)\w+|broken|by design|known issue"
    r"|spurious|benign|cosmetic|false positive|same as|equivalent|not needed|optional|absichtlich|harmlos|attendu)\b"
    r"|無視|想定|忽略|预期",
    re.IGNORECASE,
)
# Files may be unrelated to a task, and a section may cover something: of a check both are excuses.
_EXCUSE_OF_CHECK = re.compile(rf"(?=.*\b(?:unrelated|covers?)\b).*\b{_CHECKS}\b", re.IGNORECASE | re.DOTALL)
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
# What code does and how it is declared is no rule for anybody.
_DESCRIBES = re.compile(
    r"`x`(?: \w+)? (?:forbids|rejects|allows|requires|(?:is|are) (?:required|optional|always|never)(?= (?:on|in|\w+ed)\b))"
)
_PROJECTS_CALL = re.compile(
    r"(?<![\w./-])(?:(?:(npm|pnpm|yarn|bun|deno|make|just|task|mise|uv|poetry|rake|nox|tox|gradle|mvn|ant)(?: run)?"
    r"|python\d?|node|bash|sh|ruby|perl) +)(?:-\S+ +)*([\w@./][\w@:./-]*)|(?<![\w./-])()(\./[\w./-]+)"
)
_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_SYSTEM = re.compile(r"/(?:usr|bin|sbin|lib\w*|opt|dev|tmp|api|v\d+)(?:/|$)")  # and routes, which are no paths
_PATH = re.compile(r"(?<!GET )(?<!POST )(?<!PUT )(?<!PATCH )(?<!DELETE )(?<![\w.~@:/-])(?:~|/[\w.@-]+)(?:/[\w.@-]+)+")
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
    def is_by_program(self) -> bool:
        """Whether the program knows what happened without a model."""
        return self.predicate.removeprefix("observed_") in _BY_PROGRAM

    @property
    def name(self) -> str:
        """By which a question and its answer call it: the same whatever else is known."""
        text = "\x1f".join((self.subject, self.predicate, self.value))
        return f"K{int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 100_000}"


@dataclass(frozen=True, slots=True)
class ProjectWords:
    """The words of a project's other sessions: what is common in all of them tells no two sessions from others."""

    sessions: tuple[frozenset[str], ...] = ()  # content words, of each session
    typed: frozenset[str] = frozenset()  # words of names that persons typed in them

    def is_rare(self, word: str) -> bool:
        """Tell whether fewer than 15 % of the sessions, or only two of them, have a word."""
        count = sum(word in words for words in self.sessions)
        return count < max(MIN_COMMON, COMMON_SHARE * len(self.sessions))


def is_changed(item: KnownObservation, committed: Sequence[TranscriptLine]) -> TranscriptLine | None:
    """Return the commit of a file that a known sentence names, after the file was edited; None where there is none."""
    places = [name.strip("./") for name in _names(item.sentence) if "." in name or "/" in name]
    return next(
        (
            line
            for line in reversed(committed)
            if any(place and f"/{line.detail}".endswith(f"/{place}") for place in places)
        ),
        None,
    )


def read_observations(
    chunk: TranscriptChunk,
    answer: Mapping[str, Any],
    source: FactExtractor,
    known: Sequence[KnownObservation] = (),
    project_words: ProjectWords = ProjectWords(),
) -> Proposals:
    """Return the observations of an answer, and what it says of known ones, as candidates; none outside a project."""
    proposals, project = Proposals(), source.session.project
    if project is None:
        return proposals
    lines = chunk.named_lines()
    by_name = {item.name: item for item in known}
    reader = _Reader(chunk, source, proposals, chunk.origins.vouched | project_words.typed)
    for stated in answer.get("observations", [])[:MAX_OBSERVATIONS]:
        reason = strip_invisible(" ".join(str(stated["sentence"]).split()))
        proofs = [lines[name] for name in map(str, stated.get("proof", ())) if name in lines and name[0] in "FC"]
        line = lines.get(str(stated["line"]))
        if stated["kind"] in _BY_PROGRAM and not proofs and line is not None and line.kind in ("F", "C"):
            proofs = [line]
        names = _names(reason)
        subject, value, sentence = names[0] if names else project, reason, reason
        if stated["kind"] in _BY_PROGRAM and proofs:
            subject, value, happened = _describe(proofs[0])
            sentence = f"{happened} {REASON} {reason}"
        item = KnownObservation(subject, f"observed_{stated['kind']}", value, sentence)
        reader.add(item, stated, line, proofs, reason=reason)
    for key, is_end in (("again", False), ("ended", True)):
        for cited in answer.get(key, [])[:MAX_OBSERVATIONS]:
            known_item = by_name.get(str(cited["known"]))
            if known_item is None:
                continue
            shared = content_words(str(cited["quote"])) & content_words(known_item.sentence)
            line = lines.get(str(cited["line"]))
            if shared and not any(map(project_words.is_rare, shared)):
                reader.reject(known_item, line, COMMON_WORDS)
            elif shared and reader.add(known_item, cited, line, is_end=is_end):
                by_name.pop(known_item.name)
    for item in by_name.values():  # of which nothing was said: what may be no longer so is not told
        if (commit := is_changed(item, chunk.origins.committed)) is not None:
            reader.propose(item, commit, commit.text, is_end=True)
    return proposals


@dataclass(frozen=True, slots=True)
class _Reader:
    """Adds what an answer says of one question to its proposals."""

    chunk: TranscriptChunk
    source: FactExtractor
    proposals: Proposals
    vouched: frozenset[str]

    def reject(self, item: KnownObservation, line: TranscriptLine | None, reason: str) -> None:
        """Add what an answer says of an observation as what is none."""
        quote, subject = redact(item.sentence)[:400], redact(item.subject)[:80]
        place = line or self.chunk.lines[0]
        self.proposals.rejected.append(self.source.reject(place, item.predicate, reason, quote, subject))

    def add(
        self,
        item: KnownObservation,
        cited: Mapping[str, Any],
        line: TranscriptLine | None,
        proofs: Sequence[TranscriptLine] = (),
        *,
        reason: str | None = None,
        is_end: bool = False,
    ) -> bool:
        """Add what the answer says of one observation, and return whether it may be so.

        `reason`: the model's own words, where the program has more.
        """
        quotes = line.find_quote(str(cited["quote"])) if line else ()
        rejected = NO_MOMENT if not str(cited.get("moment", "-")).strip() else None
        rejected = rejected or _rejection(item, reason, quotes, line, is_end=is_end)
        if line is None or rejected:
            self.reject(item, line, rejected or "")
            return False
        shown = " ".join(f"{each.detail} {each.text} {each.outcome}" for each in (line, *proofs)).casefold()
        held = None
        if not line.is_persons:  # a person's word, which ends one
            held = self._objection(item, reason, quotes[0], line, proofs, is_end=is_end)
        is_proved = held is None and not is_end and _is_proved(str(cited.get("kind", "")), line, proofs)
        # A result proves no made-up command or name: each in code marks stands in what shows it.
        is_proved = is_proved and all(span.strip("`").casefold() in shown for span in _CODE.findall(reason or ""))
        evidence = [proof for proof in proofs if proof.kind == "F" and proof is not line]
        self.propose(item, line, quotes[0], evidence, is_proved=is_proved, held=held, is_end=is_end)
        return True

    def _objection(
        self,
        item: KnownObservation,
        reason: str | None,
        quote: str,
        line: TranscriptLine,
        proofs: Sequence[TranscriptLine],
        *,
        is_end: bool,
    ) -> str | None:
        """Return why a person has to review first what an agent's line or a call's is cited for.

        Of a known observation, which has no `reason` of its own, the quote alone is new.
        """
        told = [words for words in self.chunk.origins.told if words[0] < line.seq]
        if is_end:
            return TOLD if is_told(quote, (), told) else None
        names = _names(item.sentence if reason is None else reason)
        if is_told(quote, names, told, self._is_own):
            return TOLD
        if (held := _objection(reason or "", quote, line, self.source.session.project or "")) or reason is None:
            return held
        results = [each for each in (line, *proofs) if each.kind in ("F", "C")]  # with the call that they are of
        edited = [each for each in self.chunk.lines if each.kind == "E"]
        shown = _parts(" ".join(f"{each.detail} {each.text} {each.outcome}" for each in (line, *results, *edited)))
        if names and not any(f" {_parts(_file_name(name))} " in f" {shown} " for name in names):
            return NOT_IN_QUOTE
        if not _projects_calls(*_CODE.findall(reason)) <= self.chunk.origins.ran:
            return NEVER_RUN
        return UNKNOWN if _unknown_program(reason, self.vouched) is not None else None

    def _is_own(self, name: str) -> bool:
        """Tell whether a name is the project's: of a file that was read, or of what a person typed or agreed to."""
        origins = self.chunk.origins
        return name in origins.vouched or any(name in text for _, text in origins.read)

    def propose(
        self,
        item: KnownObservation,
        line: TranscriptLine,
        quote: str,
        evidence: Sequence[TranscriptLine] = (),
        *,
        is_proved: bool = False,
        held: str | None = None,
        is_end: bool = False,
    ) -> None:
        """Add a candidate; words of the agent that a file has, too, are a tool's: their readers are one witness.

        A doubt, which no words are about, is a tool's, too: the next witness is enough to end it.
        """
        source = self.source
        read = [text for seq, text in self.chunk.origins.read if seq < line.seq]
        is_tools = line.kind == "E" or (line.kind in ("A", "S") and not is_end and _is_repeated(quote, read))
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
                trust="tool" if is_tools else "agent",
                quote=quote,
                evidence=tuple((proof.seq, proof.text) for proof in evidence),
                quarantined=held,
                valid_to=line.occurred_at if is_end else None,
            )
        )


def _describe(line: TranscriptLine) -> tuple[str, str, str]:
    """Return what a line of a failure or a command is about, and what it showed, in a sentence of the program.

    Between the two stands what is the same in each session that shows it, however a failure was mended.
    """
    if line.kind == "C":
        operation, _, counts = (line.detail or "").rpartition(": ")
        sentence = f"{code(operation)} {counts.replace(' of ', ' times of ')} in one session."
        return operation, sentence, sentence
    # Whoever wrote the program chose the words that it prints: only what says what is wrong is told.
    headline = quote_reason((line.pieces or (line.text,))[0], MAX_HEADLINE)
    failure = f"{code(line.detail or '')} failed" + (f': "{headline}"' if headline else "")
    steps = (line.outcome or "").removeprefix("then ").removesuffix("worked").split(", ")
    mending = ", ".join(code(step) for step in steps if step)
    sentence = f"{failure}; after {mending} it worked." if line.is_proof else f"{failure}."
    return line.detail or "", failure, sentence


def _is_proved(kind: str, line: TranscriptLine, proofs: Sequence[TranscriptLine]) -> bool:
    """Tell whether one session's results prove an observation: a failure that was mended, or what a hook printed."""
    if kind in _BY_PROGRAM:
        return any(proof.is_proof for proof in proofs)
    is_hook = line.kind == "F" and _RUNS_HOOKS.match(line.detail or "") is not None
    return kind == "convention" and is_hook


def _names(sentence: str) -> list[str]:
    return [match[1] or match[2] for match in _NAME.finditer(sentence)]


def _parts(text: str) -> str:
    """Return the words of names, however they are joined: "cloudMode" is said as "cloud mode", too."""
    return " ".join(re.findall(r"\w+", _JOINT.sub(" ", text).casefold()))


def _file_name(name: str) -> str:
    """Return the last part of a file's path, by which people call it; another name as it is."""
    last = name.rpartition("/")[2]
    return last if "." in last.strip(".") else name


def _rejection(
    item: KnownObservation, reason: str | None, quotes: Sequence[str], line: TranscriptLine | None, *, is_end: bool
) -> str | None:
    """Return why an observation is none; of a known one, without a `reason` of its own, only the quote is judged."""
    if line is None or not quotes:
        return "quote not in event"
    if line.is_persons and not (is_end and line.is_own(quotes[0])):  # a person's word may end one
        return "not the agent's own words"
    if line.kind in ("A", "S") and _HEDGE.search(sentence_around(line.text, quotes[0])):
        return HEDGED
    if is_end:
        return None
    if REDACTED_MARK in redact(f"{item.sentence} {quotes[0]}"):
        return SECRET
    if any(map(overrides_instructions, (item.sentence, quotes[0]))):
        return INSTRUCTION
    return _rejection_of_words(item, reason) if reason is not None else None


def _rejection_of_words(item: KnownObservation, reason: str) -> str | None:
    """Return why what a model wrote is no observation."""
    if _HEDGE.search(_POSSIBLE.sub("", reason)):
        return HEDGED
    if not reason or len(reason) > MAX_SENTENCE:
        return "empty or too long"
    if not _names(item.sentence):
        return NO_NAME
    if overrides_instructions(reason) or commands_memory(reason):
        return INSTRUCTION
    plain = _CODE.sub("`x`", _HYPHEN.sub("_", reason))  # neither "pre-commit" nor a command's name is an order
    if is_order(_DESCRIBES.sub("`x` is", plain)) or is_norm(_DESCRIBES.sub("`x` is", _CODE.sub("`x`", reason))):
        return "says what to do"
    return lesson_harm(item.sentence, None, None)


def _objection(said: str, quote: str, line: TranscriptLine, project: str) -> str | None:
    """Return why a person has to review an observation first, whoever told it."""
    paths = [path for path in _PATH.findall(f"{said} {quote}") if not _SYSTEM.match(path)]
    if any(path != project and not path.startswith(f"{project.rstrip('/')}/") for path in paths):
        return ELSEWHERE
    is_printed = line.kind in ("F", "C")  # of what a program prints, "would" says nothing of the work in hand
    for pattern, reason in (
        (_EXCUSE, EXCUSE),
        (_EXCUSE_OF_CHECK, EXCUSE),
        (_LOOSENING, LOOSENING),
        (_PASSING, PASSING),
    ):
        if pattern.search(said if is_printed and pattern is _PASSING else f"{said} {quote}"):
            return reason
    return None


def read_origins(events: Sequence[Event], *, is_subagent: bool = False) -> Origins:
    """Return where an agent's words may come from: what others told it, what it read, what ran, what is vouched for.

    Told is what came by web, MCP, a sub-agent, an issue, another host, a document or an installed package, what a
    person passed on, and what a harness or memory wrote. Of a document of the project only the words count: the names
    in it are those of the project, which vouches for them as its other files do. What a program prints vouches for
    nothing.
    """
    told: list[tuple[int, str, bool]] = []
    read: list[tuple[int, str]] = []
    vouching, ran, committed = [], set[str](), list[TranscriptLine]()
    edited: dict[str, None] = {}
    pairer = CallPairer()
    plans = {event.seq - 1 for event in events if event.data.get("approves") == "plan"}  # a person agreed to them
    for event in events:
        if event.type is EventType.USER_MESSAGE and event.data.get("origin") != "compaction":
            text = str(event.data.get("text") or "")
            is_persons = event.data.get("origin", "user") == "user" and event.is_persons_word and not is_subagent
            own, passed_on = split_quoted(text) if is_persons else ("", text)
            told.append((event.seq, passed_on, not is_subagent and event.seq not in plans))
            vouching.append(text if event.seq in plans else own)
        elif event.type is EventType.SUBAGENT_COMPLETE:
            told.append((event.seq, json.dumps(dict(event.data), ensure_ascii=False), True))
        if (call := pairer.feed(event)) is None:
            continue
        line, paths = shell_command(call.tool, call.arguments) or "", _paths(call)
        told_part, is_foreign = _told_part(call, line, paths)
        told.append((event.seq, told_part, is_foreign))
        ran |= _projects_calls(line, "" if is_foreign else call.result_text)
        commands = parse_commands(line)
        if not is_foreign and _is_reading(call, commands):
            vouching.append(call.result_text)
            if not told_part:
                read.append((event.seq, f"{' '.join(paths)} {line} {call.result_text}"))
        if not call.ok:
            continue
        vouching += [" ".join((*command.wrappers, command.program)) for command in commands]
        if EDITING_TOOLS.fullmatch(tool_base_name(call.tool).lower()):
            edited |= dict.fromkeys(paths)
        elif (commit := _COMMITS.search(line)) is not None:
            committed += [
                TranscriptLine(call.seq, "E", redact(commit[0].strip()), event.occurred_at, path) for path in edited
            ]
            edited = {}
    return Origins(
        tuple((seq, folded, is_foreign) for seq, text, is_foreign in told if (folded := _fold(text))),
        tuple((seq, folded) for seq, text in read if (folded := _fold(text))),
        frozenset(ran),
        words_of_names(vouching),
        tuple(committed),
    )


def words_of_names(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of texts as names of packages and programs are looked up in them."""
    words = {word.rstrip(".,:;/") for text in texts for word in _WORD.findall(text.casefold())}
    return frozenset(words | {name for word in words if (name := word[:1] + word[1:].partition("@")[0])})


def _is_reading(call: CompletedCall, commands: Sequence[Command]) -> bool:
    """Tell whether a call's result is what the project's files hold, and nothing that a program says."""
    if commands:
        return all(command.program in INSPECTING_PROGRAMS or command.program == "cd" for command in commands)
    return READING_TOOLS.fullmatch(tool_base_name(call.tool).lower()) is not None


def _unknown_program(said: str, vouched: frozenset[str]) -> str | None:
    """Return the first package or program that a sentence names and nothing vouches for."""
    names = [match[1].lower() for match in _CALLED_A_PACKAGE.finditer(_CODE.sub("x", said))]
    for span in _CODE.findall(said):
        words = span.strip("` ").split()
        commands = parse_commands(" ".join(words)) if len(words) > 1 else []
        names += [command.program for command in commands] or words[:1]
    packages = (name for name in names if _PACKAGE.fullmatch(name))
    return next((name for name in packages if name.partition("@")[0] not in vouched | _WELL_KNOWN), None)


def _projects_calls(*texts: str) -> frozenset[str]:
    found = (match for text in texts for match in _PROJECTS_CALL.finditer(text))
    return frozenset(" ".join(filter(None, match.groups())) for match in found)


def is_told(
    quote: str,
    names: Sequence[str],
    told: Sequence[tuple[int, str, bool]],
    own: Callable[[str], bool] = lambda _: False,
) -> bool:
    """Tell whether half of a quote's runs of five words stand in what was told, or a name only in what strangers told.

    `own` tells whether a name is the project's: a person or a file of it has it, too.
    """
    named = {folded for name in names if len(folded := _fold(name)) > 1 and not own(folded)}
    is_named = any(is_foreign and f" {name} " in f" {text} " for name in named for _, text, is_foreign in told)
    return is_named or _is_repeated(quote, [text for _, text, _ in told])


def _is_repeated(quote: str, texts: Sequence[str]) -> bool:
    """Tell whether half of a quote's runs of five words stand in folded texts."""
    words = _fold(quote).split()
    runs = {" ".join(words[start : start + _RUN]) for start in range(max(1, len(words) - _RUN + 1))}
    return 2 * sum(any(run in text for text in texts) for run in runs) >= len(runs)


def _paths(call: CompletedCall) -> list[str]:
    values = [call.arguments.get(key) for key in PATH_KEYS] if isinstance(call.arguments, dict) else []
    return [value for value in values if isinstance(value, str)]


def _told_part(call: CompletedCall, line: str, paths: Sequence[str]) -> tuple[str, bool]:
    """Return what of a call's result are words of others, and whether they may be strangers'."""
    if line:
        is_foreign = any(each.search(line) for each in (_TELLING_COMMAND, *([_INSTALLS] if call.ok else [])))
    else:
        is_foreign = call.tool.lower().startswith("mcp__") or not _OWN_TOOL.fullmatch(tool_base_name(call.tool))
    text = line or ("" if is_foreign else " ".join(paths))
    if is_foreign or _DOCUMENT.search(text):
        return call.result_text, is_foreign or _FOREIGN_DOCUMENT.search(text) is not None
    documents = [match[0] for match in _FROM_DOCUMENT.finditer(call.result_text)]
    return "\n".join(documents), any(map(_FOREIGN_DOCUMENT.search, documents))


def _fold(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
