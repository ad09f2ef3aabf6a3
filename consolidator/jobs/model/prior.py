"""What is known where a session's facts belong, which a question shows: nobody is asked for what memory holds."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest

from consolidator.database import Database
from consolidator.llm.tokens import count_tokens
from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.facts.candidates import SessionContext
from consolidator.memory.facts.questions.extraction_prompt import KINDS, known_hint
from consolidator.memory.facts.questions.model_extraction import is_relation
from consolidator.memory.facts.questions.transcript import TranscriptChunk
from consolidator.memory.observations.doubts import CODE
from consolidator.memory.observations.observation import CHANGED, HELD, KnownObservation, ProjectWords, is_changed
from consolidator.memory.text.similarity import content_words
from consolidator.models.audience import OWNER
from consolidator.store.facts.visibility import find_facts_of_others
from consolidator.store.memory import injections, lessons

MAX_KNOWN = 10  # lines that a question shows for a session
MAX_HELD = 4  # of them of what programs hold
MAX_HELD_CHARS = 110  # of a line of a program
MAX_KNOWN_TOKENS = 500  # of what is known that a question shows for a session; for several at most three times that
KNOWN_SHARE = 4  # of a small window, which part of the question what is known may take
_MAX_READ = 100  # lessons, solutions and facts that are looked at, of each
_COUNTS = re.compile(r" \((?:worked )?(?:in )?\d+ of \d+[^)]*\)")


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known where a session's facts belong."""

    relations: str
    known: tuple[KnownObservation, ...]  # observations, facts, and what programs hold
    words: ProjectWords

    def hint(self, chunks: Sequence[TranscriptChunk], budget: int) -> str:
        """Return what is said above a question: relation names, and what is known that its chunks may show anew.

        `budget`: the tokens of its sessions, a quarter of which what is known may take beside them.
        Of each chunk first observations whose files it committed: a model is asked again whether they are so. Then what
        shares most of the words that a project has few of with it: other words prove nothing. Last what a program knows
        of the calls that it made.
        """
        words_of = {item: content_words(item.sentence) for item in self.known}
        is_rare = cache(self.words.is_rare)
        ranked: list[list[tuple[str, str]]] = []
        for chunk in chunks:
            words = content_words(chunk.render())
            calls = "".join(f" {line.detail} \n {line.text} \n" for line in chunk.lines if line.kind in ("F", "C"))
            near: list[tuple[int, float, str, str]] = []
            held: list[tuple[int, float, str, str]] = []
            for item in self.known:
                shared = sum(map(is_rare, words & words_of[item]))
                if item.kind == HELD:
                    if position := _find_call(item, calls):
                        held.append((3, position, item.name, item.sentence))
                elif item.is_observation and is_changed(item, chunk.origins.committed) is not None:
                    near.append((0, 0, item.name, f"{item.sentence} {CHANGED}"))
                elif shared:
                    likeness = shared / math.sqrt(len(words_of[item]))
                    near.append((1 + item.is_by_program, -likeness, item.name, item.sentence))
            held = sorted(held)[:MAX_HELD]
            best = [*sorted(near)[: MAX_KNOWN - len(held)], *held]
            ranked.append([(name, sentence) for _, _, name, sentence in best])
        shown: dict[str, str] = {}
        room = min(min(len(chunks), 3) * MAX_KNOWN_TOKENS, budget // KNOWN_SHARE) - count_tokens(self.relations)
        relations = self.relations if room > 0 else ""
        for name, sentence in (each for best in zip_longest(*ranked) for each in best if each is not None):
            if name not in shown and (length := count_tokens(known_hint({name: sentence}))) <= room:
                shown[name] = sentence
                room -= length
        known = known_hint(shown)
        return "\n\n".join(part for part in (relations, known) if part)


def _find_call(item: KnownObservation, calls: str) -> int:
    """Return where a session made a call that a program's line is about, from 1; 0 where it made none."""
    spans = (span.strip("` …") for span in CODE.findall(item.sentence))
    return min((place for span in spans if span and (place := calls.find(f" {span} ") + 1)), default=0)


async def load_held(database: Database, session: SessionContext) -> list[KnownObservation]:
    """Return what programs hold of an owner's project, and what its persons said that stands; of peers nothing.

    Nothing hostile is among it. A fact is said again only by a name that an answer can give it.
    """
    if session.project is None or session.peer is not None:
        return []
    now, project = database.clock.now(), session.project
    alone = None if database.share_between_agents else session.agent
    async with database.connection() as conn:
        rows = await lessons.list_lessons(conn, OWNER, project, limit=_MAX_READ, agent_alone=alone)
        errors = await injections.list_met_errors(conn, session.agent, project, limit=_MAX_READ)
        facts = await injections.list_standing_facts(conn, session.agent, project, KINDS, now=now, limit=_MAX_READ)
        others = await find_facts_of_others(conn, [fact.id for fact in facts])
    lines = [row.line for row in rows if row.harm is None and row.withheld is None]
    lines += [str(row.body["line"]) for row in errors if row.confirmed]
    held = [KnownObservation("", "", line, line, HELD) for line in dict.fromkeys(map(_shorten, lines))]
    held += [
        KnownObservation(fact.subject, fact.predicate, fact.value, fact.sentence, fact.kind)
        for fact in facts
        if fact.project == project and fact.id not in others and is_relation(fact.predicate)
    ]
    return [item for item in held if text_harm(item.sentence) is None]


def _shorten(line: str) -> str:
    """Return a program's line without its counts, cut between two words."""
    plain = _COUNTS.sub("", line)
    return plain if len(plain) <= MAX_HELD_CHARS else f"{plain[:MAX_HELD_CHARS].rpartition(' ')[0]} …"
