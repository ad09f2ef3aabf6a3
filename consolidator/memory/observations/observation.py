"""Turns what a model says that a session found out into candidates, each with a quote of the line that shows it.

An observation says how things are, never what to do. Of a failure or a command the program says what happened, and the
model only why. What was told to the agent, what excuses a failure or loosens a check is held for a person.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.shell import parse_commands
from consolidator.memory.facts.call_lines import MAX_COMMANDS
from consolidator.memory.facts.candidates import FactExtractor, Proposals
from consolidator.memory.facts.transcript import TranscriptChunk, TranscriptLine
from consolidator.memory.lessons.harm import quote_reason
from consolidator.memory.lessons.history import code
from consolidator.memory.lessons.segments import purpose_of
from consolidator.memory.observations.doubts import (
    CODE,
    NEVER_RUN,
    NO_MOMENT,
    NOT_IN_QUOTE,
    PASSING,
    TOLD,
    UNKNOWN,
    file_name,
    name_parts,
    names_in,
    objection,
    rejection,
    unknown_program,
)
from consolidator.memory.observations.origins import BACKGROUND_EVENTS, is_repeated, is_told, projects_calls
from consolidator.memory.text.invisible import strip_invisible
from consolidator.memory.text.similarity import content_words, is_negated

OBSERVATION = "observation"  # the kind of a candidate and of a fact
HELD = "held"  # of a line that a program made of calls: a model is not asked for it
HELD_ALREADY, MOST_WORDS = "a program holds it already", 0.8  # of its words
MAX_OBSERVATIONS, MAX_HEADLINE, MAX_SUBJECT = 5, 100, 80
COMMON_WORDS = "shares only words that most sessions have"
CHANGED = "(its file was changed and committed: is it so again, or ended?)"
COMMON_SHARE, MIN_COMMON = 0.15, 3  # of a project's sessions, at which a word that they share proves nothing
REASON = "An agent's reason:"
_BY_PROGRAM = ("failure", "command")  # what happened is known without the model
_EDITS, _ALL_WORKED = re.compile(r"(?:Edit|Write|MultiEdit|apply_patch)\b|sed -i"), re.compile(r": (\d+) of \1 worked$")
_RUNS_HOOKS = re.compile(r"git (?:commit|push|merge)\b")


@dataclass(frozen=True, slots=True)
class KnownObservation:
    """A sentence that a question shows as known: another session may show it anew, or show that it is over."""

    subject: str
    predicate: str
    value: str
    sentence: str
    kind: str = OBSERVATION  # or of a fact, or HELD by a program
    session_id: str = ""  # which showed it last

    @property
    def is_observation(self) -> bool:
        """Whether it is what an agent found out."""
        return self.kind == OBSERVATION

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


def is_changed(item: KnownObservation, committed: Sequence[tuple[TranscriptLine, str]]) -> TranscriptLine | None:
    """Return the commit of a file that a known sentence names, after the file was edited; None where there is none.

    An edit elsewhere in the file, whose words are none of the sentence's other names, changes nothing of it.
    """
    names = [name for name in names_in(item.sentence) if name.strip("./")]
    for line, words in reversed(committed):
        others = [name for name in names if not f"/{line.detail}".endswith(f"/{name.strip('./')}")]
        is_of_file = any("." in name or "/" in name for name in set(names) - set(others))
        if is_of_file and (not words or not others or any(name.casefold() in words for name in others)):
            return line
    return None


def works_without(item: KnownObservation, chunk: TranscriptChunk) -> TranscriptLine | None:
    """Return the call that a known sentence says failed, where it only worked and nothing of its mending ran.

    A check that passes, or a change of code that mends what that code broke, says nothing of other code.
    """
    commands = [line for line in chunk.lines if line.kind == "C"]
    if item.predicate != "observed_failure" or len(commands) >= MAX_COMMANDS:  # or others are not shown
        return None
    if purpose_of(item.subject) is not None or _RUNS_HOOKS.match(item.subject):
        return None
    failure, _, mending = item.sentence.partition(f" {REASON} ")[0].partition("; after ")
    steps = [span.strip("`") for span in CODE.findall(mending)]
    if not failure or any(not parse_commands(step) or _EDITS.match(step) for step in steps):
        return None
    ran = "".join(f"{line.detail}\n{line.text}\n" for line in commands)
    is_failed = any(line.kind == "F" and line.detail == item.subject for line in chunk.lines)
    if is_failed or any(step in ran for step in steps):
        return None
    same = (line for line in commands if line.text[:MAX_SUBJECT] == item.subject[:MAX_SUBJECT])
    return next((line for line in same if _ALL_WORKED.search(line.detail or "")), None)


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
    by_name = {item.name: item for item in known if item.is_observation}
    held = [(content_words(item.sentence), is_negated(item.sentence)) for item in known if item.kind == HELD]
    reader = _Reader(chunk, source, proposals, chunk.origins.vouched | project_words.typed)
    for stated in answer.get("observations", [])[:MAX_OBSERVATIONS]:
        reason = strip_invisible(" ".join(str(stated["sentence"]).split()))
        proofs = [lines[name] for name in map(str, stated.get("proof", ())) if name in lines and name[0] in "FC"]
        line = lines.get(str(stated["line"]))
        if stated["kind"] in _BY_PROGRAM and not proofs and line is not None and line.kind in ("F", "C"):
            proofs = [line]
        names = names_in(reason)
        subject, value, sentence = names[0] if names else project, reason, reason
        if stated["kind"] in _BY_PROGRAM and proofs:
            subject, value, happened = _describe(proofs[0])
            sentence = f"{happened} {REASON} {reason}"
        item = KnownObservation(subject, f"observed_{stated['kind']}", value, sentence)
        words = content_words(reason)
        if any(no >= is_negated(reason) and len(words & line) >= MOST_WORDS * len(words) for line, no in held):
            reader.reject(item, line, HELD_ALREADY)
        elif reader.add(item, stated, line, proofs, reason=reason):
            by_name.pop(item.name, None)  # said again in the same words: no doubt is left
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
        shown = is_changed(item, chunk.origins.committed)
        if shown is None and item.session_id != source.session.session_id:
            shown = works_without(item, chunk)
        if shown is not None:
            reader.propose(item, shown, shown.text, is_end=True)
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
        rejected = rejected or rejection(item.sentence, reason, quotes, line, is_end=is_end)
        if line is None or rejected:
            self.reject(item, line, rejected or "")
            return False
        shown = " ".join(f"{each.detail} {each.text} {each.outcome}" for each in (line, *proofs)).casefold()
        held = None
        if not line.is_persons:  # a person's word, which ends one
            held = self._objection(item, reason, quotes[0], line, proofs, is_end=is_end)
        # One session's results prove a failure that was mended, or a command, and what a hook printed.
        kind, is_hooks = cited.get("kind"), line.kind == "F" and _RUNS_HOOKS.match(line.detail or "") is not None
        is_shown = any(proof.is_proof for proof in proofs) if kind in _BY_PROGRAM else kind == "convention" and is_hooks
        is_proved = held is None and not is_end and is_shown
        # A result proves no made-up command or name: each in code marks stands in what shows it.
        is_proved = is_proved and all(span.strip("`").casefold() in shown for span in CODE.findall(reason or ""))
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
        if is_end:
            return TOLD if is_told(quote, (), self.chunk.origins, line.seq) else None
        names = names_in(item.sentence if reason is None else reason)
        if is_told(quote, names, self.chunk.origins, line.seq):
            return TOLD
        held = objection(reason or "", quote, line, self.source.session.project or "")
        if reason is None:  # who says it again without having edited its files speaks of no work in hand
            return None if held == PASSING and not self._has_edited(names, line.seq) else held
        if held is not None:
            return held
        edited = [each for each in self.chunk.lines if each.kind == "E"]
        results = [each for each in (line, *proofs) if each.kind in ("F", "C")]  # with the call that they are of
        shown = name_parts(" ".join(f"{each.detail} {each.text} {each.outcome}" for each in (line, *results, *edited)))
        if names and not any(f" {name_parts(file_name(name))} " in f" {shown} " for name in names):
            return NOT_IN_QUOTE
        if not projects_calls(*CODE.findall(reason)) <= self.chunk.origins.ran:
            return NEVER_RUN
        return UNKNOWN if unknown_program(reason, self.vouched) is not None else None

    def _has_edited(self, names: Sequence[str], before: int) -> bool:
        """Tell whether the session edited a file of these names before an event, wherever a night's window begins."""
        edits = self.chunk.origins.edits
        paths = (path for seq, path in edits if before - BACKGROUND_EVENTS <= seq < before)
        changed = f" {name_parts(' '.join(paths))} "
        return any(f" {name_parts(file_name(name))} " in changed for name in names)

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
        is_doubt = is_end and (line.kind == "E" or (line.kind == "C" and quote == line.text))
        is_tools = is_doubt or (line.kind in ("A", "S") and not is_end and is_repeated(quote, read))
        self.proposals.candidates.append(
            source.propose(
                line,
                *(str(source.revision), item.predicate, item.value, str(is_end)),
                level="project",
                subject=item.subject[:MAX_SUBJECT],
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
