"""Recall: what memory knows about a query, ranked, cited, and within a budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Literal

import numpy as np

from consolidator.database import Connection, Database
from consolidator.database.jsonb import loads
from consolidator.llm import static_vectors
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.harm_in_text import mask_commands
from consolidator.memory.lessons.lesson import WORKED_CALL, WorkedCall, read_calls
from consolidator.memory.recall import ranking
from consolidator.memory.recall.block import (
    NOTE,
    RECORD_OF,
    Channel,
    RecallItem,
    Section,
    call_item,
    describe_miss,
    fact_item,
    lesson_item,
    procedure_item,
    render_block,
    reworded,
    solution_item,
    turn_item,
)
from consolidator.memory.recall.fusion import find_hidden_events, fuse_channels, scale_to_best, scale_to_range
from consolidator.memory.recall.postings import FACT, TURN
from consolidator.memory.recall.query import looks_like_error, looks_like_question, query_coverage
from consolidator.memory.recall.relevance import (
    MIN_DOCUMENTS,
    PromptWords,
    drop_narration,
    has_answer,
    is_stated,
    subject_words,
)
from consolidator.memory.text.similarity import word_overlap
from consolidator.memory.text.words import query_words, split_words, word_key
from consolidator.models import PEOPLE_ONLY
from consolidator.models.digest import RecalledFact, TurnRow
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import MemoryScope, SolutionFilter
from consolidator.models.procedure import MIN_SUCCESS
from consolidator.models.session import SessionRow
from consolidator.models.solution import SolutionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.encoding import mark_invisible
from consolidator.service.memory.lessons import MIN_SHARED_WITH_CALL, load_lessons
from consolidator.service.memory.telling.withheld import find_withheld_facts
from consolidator.service.scope import find_project, narrow_scope
from consolidator.settings import Settings
from consolidator.store.facts.visibility import find_reached_facts, find_reached_sessions, load_person
from consolidator.store.memory import lookup
from consolidator.store.search import index, scope_sizes
from consolidator.store.sessions import sessions

DEFAULT_TOKEN_BUDGET = 1500  # tokens
DEFAULT_LIMIT = 100  # items of a block, which its budget of tokens ends before
DEFAULT_RANKED = 20  # documents
MAX_VECTOR_TEXT = 2000  # characters of a query of which a vector is made
MAX_QUERY_WORDS = 24  # distinct words of a query that are searched for
CANDIDATES_PER_CHANNEL = 100  # documents
FACTS_WITH_TURNS = 40  # of the best facts the turns that prove them are read, too
WORDS_WEIGHT, NEIGHBOURHOOD_WEIGHT, FACT_WEIGHT, VECTOR_WEIGHT = 1.0, 2.0, 0.5, 1.0  # of the channels
MAX_SOLUTION_QUERY_LENGTH = 1000  # characters of a query that the search for solutions reads
MAX_LEADING_LESSONS, MIN_LESSON_COVERAGE = 3, 0.6  # with so much of a question's words, by how much they tell
MIN_ERROR_COVERAGE = 0.75  # of the words of an error's text, by another that is mended alike
MAX_LEADING_ITEMS = 2  # solutions that a block begins with, and as many procedures
MAX_EXCERPT = 400  # characters of a turn
MAX_FEW_FACTS = 20  # of a project, which are told rather than nothing
MUCH_THE_SAME = 0.4  # of the words of two turns
MAX_NEAREST, MAX_NEAR_CHARS = 24, 300  # facts and short words of persons, of many, where there are vectors
DOCUMENTS_FIRST = 3  # of an answer, before procedures and fixes that worked once
ANSWERING_COVERAGE = 2 / 3  # of a question's words, in a turn: it needs no fact in other words beside it
MIN_NEARER = 0.05  # of a cosine: so much nearer than any turn is a fact that has none of a question's words
MIN_COSINE = 0.5  # of the nearest document: what is said in other words may be an answer, too
STATIC_WEIGHT, STATIC_MIN_COSINE = 0.5, 0.6  # of vectors of a table of words, which are near to each other by topic
SAID_WEIGHT = 3.0  # of persons' turns, as often as vectors of all count: agents say most, and much of it alike
FACT_VECTORS, TURN_VECTORS, SAID_VECTORS = "vectors of a fact", "vectors", "vectors of persons' words"  # of channels
NOTHING_KNOWN = "nothing known"
ACCEPTED_PLAN = re.compile(r"Plan: .* -> accepted")
Occasion = Literal["question", "message", "page"]  # somebody asks, it is told with a message, or a page shows it


@dataclass(frozen=True, slots=True)
class Ranked:
    """Facts and turns, the best first, whether they may answer the query, and what that rests on."""

    items: list[RecallItem]
    has_answer: bool
    turns: Sequence[TurnRow] = ()
    facts: Sequence[RecalledFact] = ()
    channels: Sequence[Channel] = ()
    question: PromptWords = field(default_factory=lambda: PromptWords({}, 1.0))
    words: Sequence[str] = ()  # of the query


@dataclass(frozen=True, slots=True)
class RecallResult:
    """What memory knows about a query: a block for a prompt, the same as items, and what these were chosen from."""

    block: str
    items: list[RecallItem]
    left_out: list[RecallItem] = field(repr=False, compare=False, metadata={PEOPLE_ONLY: True})  # by the budget
    ranked: Ranked = field(repr=False, compare=False, metadata={PEOPLE_ONLY: True})
    unmatched_facts: int = 0  # facts known in the project, where nothing matches; one more than MAX_FEW_FACTS: or more

    @property
    def miss(self) -> str:
        """What is said where there is no block."""
        return describe_miss(self.unmatched_facts, MAX_FEW_FACTS) if self.unmatched_facts else NOTHING_KNOWN

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"block": self.block, "items": [item.as_json() for item in self.items]}


async def recall(
    database: Database,
    query: str,
    scope: MemoryScope = MemoryScope(),
    *,
    token_budget: int = DEFAULT_TOKEN_BUDGET,
    limit: int = DEFAULT_LIMIT,
    settings: Settings | None = None,
    viewer: Viewer = OWNER,
    occasion: Occasion = "question",
) -> RecallResult:
    """Return what memory knows about a query: known errors first, then facts and turns by rank, with procedures.

    Where the best of these facts and turns have too few of the query's words to be about it, all facts of a project
    that has few, unless it is for a message, which need not ask anything; else nothing.
    For a peer, only what comes from that person's own sessions, and what enough people share; for a viewer of one
    project, only what rests on that project's sessions alone; without either, everything.

    Searches by words, and also by vectors if `settings` name an embedding model or `consolidator[vectors]` is there.
    Its facts are counted as recalled, but on a page, which no agent reads.
    """
    query, is_asked = redact(query), occasion != "message"
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, scope)
    ranked = await _rank_documents(database, query, scope, limit=limit, settings=settings)
    is_error, is_question = looks_like_error(query), looks_like_question(query)
    relevant = drop_narration(ranked.question, ranked.items, is_question=is_question) if ranked.has_answer else []
    lessons = await _find_lessons(database, ranked.question, scope) if is_asked else []
    calls = await _find_calls(database, ranked.question, scope) if is_asked else []
    related = [item for item in relevant if item.kind != "fact" or _is_related(item, ranked)]
    relevant = related if related or calls else relevant
    has_match, unmatched = bool(relevant or lessons or calls), 0
    if not has_match and is_asked and scope.project:
        few, unmatched = await _list_few_facts(database, scope)
        nearest = {item.citation: item for item in _nearest_items(ranked)}
        relevant = [*nearest.values(), *(item for item in few if item.citation not in nearest)]
    documents = await _without_hostile_commands(database, [_excerpt(item, ranked) for item in relevant[:limit]])
    solutions = await _find_solutions(database, query, scope, viewer)
    sure = [row for row in solutions if is_error or row.confirmed]
    leading = [solution_item(row) for row in sure]
    hints = [solution_item(row) for row in solutions if row not in sure]
    hints += await _find_procedures(database, query, scope, ranked.question if has_match else None)
    first = DOCUMENTS_FIRST if is_question else 0  # what was said answers a question, how it was done a request
    stated = [item for item in documents if is_stated(item, ranked.question)]
    documents = [*stated, *calls, *(item for item in documents if item not in stated)]
    ordered = [*leading, *lessons, *documents[:first], *hints, *documents[first:]][:limit]
    note = NOTE if has_match or leading or hints else f"{describe_miss(unmatched, MAX_FEW_FACTS)}. {NOTE}"
    block = render_block(note, [Section("", ordered)], token_budget)
    text, items = (block.text, list(block.items)) if block else ("", [])
    shown = {item.citation for item in items}
    if occasion != "page" and database.access != "reader":
        async with database.transaction(flushed=False) as conn:
            recalled = [item.data["id"] for item in items if item.kind == "fact"]
            await index.count_recalls(conn, recalled, database.clock.now())
    return RecallResult(text, items, [item for item in ordered if item.citation not in shown], ranked, unmatched)


async def answer_in_words(database: Database, settings: Settings, query: str, directory: PurePath) -> str:
    """Return what `recall` prints for a plain question in a directory; "" where a model would have to be asked."""
    if static_vectors.embedding_name(settings) not in (None, static_vectors.NAME):
        return ""
    place = await find_project(database, directory)
    result = await recall(database, query, MemoryScope(None, place), settings=settings)
    return mark_invisible(result.block or describe_nothing(result, place)) + "\n"


def describe_nothing(result: RecallResult, place: str | None) -> str:
    """Return what is said where nothing is known or matches, in a project or anywhere."""
    hint = f"\nin the project {place}; `--everywhere` asks all of them" if place else ""
    return f"{result.miss}{hint}"


def _is_related(item: RecallItem, ranked: Ranked) -> bool:
    """Tell whether a fact shares a telling word with the question, or may answer it in other words.

    That is where none of its words are the question's, and no turn says most of these, or it is clearly nearer.
    """
    question = ranked.question
    shared = question.coverage_of(item.searched)
    if shared:
        return question.shares_telling_word(item.searched)
    turns_cover = (question.coverage_of(each.searched) for each in ranked.items if each.kind == "episode")
    if max(turns_cover, default=0.0) < ANSWERING_COVERAGE:
        return True
    by_name = {channel.name: channel for channel in ranked.channels}
    facts, turns = by_name.get(FACT_VECTORS), by_name.get(TURN_VECTORS)
    if facts is None or turns is None or facts.cosine < turns.cosine + MIN_NEARER:
        return False
    return any(fact.id == item.data["id"] and facts.scores.get(fact.number) == 1.0 for fact in ranked.facts)


def _excerpt(item: RecallItem, ranked: Ranked) -> RecallItem:
    """Return what a turn of many sentences says about the query."""
    text = str(item.data["text"])
    excerpt = ranked.question.excerpt(text, MAX_EXCERPT) if item.kind == "episode" else text
    return item if excerpt == text else reworded(item, excerpt)


async def _find_lessons(database: Database, question: PromptWords, scope: MemoryScope) -> list[RecallItem]:
    """Return the lessons of a project that say most of a question's words, or whose error does, the best first."""
    if not scope.project or not question.words:
        return []
    lessons = await load_lessons(database, scope)
    texts = {id: f"{lesson.line} {lesson.match.get('headline', '')}" for id, lesson in lessons.items()}
    covered = {id: round(question.coverage_by(text, lessons[id].purpose), 1) for id, text in texts.items()}
    best = sorted((id for id in lessons if covered[id] >= MIN_LESSON_COVERAGE), key=lambda id: -covered[id])
    return [lesson_item(id, lessons[id].line, covered[id]) for id in best[:MAX_LEADING_LESSONS]]


async def _find_calls(database: Database, question: PromptWords, scope: MemoryScope) -> list[RecallItem]:
    """Return the calls that worked in a project and are about most of a question; one of each operation."""
    if not scope.project or not question.words:
        return []
    least = min(MIN_SHARED_WITH_CALL, len(question.words))
    best: list[tuple[float, WorkedCall, str]] = []
    for id, lesson in (await load_lessons(database, scope, (WORKED_CALL,))).items():
        scored = []
        for call in read_calls(lesson):
            shared = question.words & _split_call(f"{lesson.purpose or ''} {call.searched}")
            if len(shared) >= least and (coverage := question.coverage(shared)) >= MIN_LESSON_COVERAGE:
                scored.append((round(coverage, 1), call, id))
        best += sorted(scored, key=lambda entry: (-entry[0], -entry[1].worked))[:1]
    best.sort(key=lambda entry: (-entry[0], -entry[1].worked))
    return [call_item(id, call.line, coverage) for coverage, call, id in best[:MAX_LEADING_LESSONS]]


@lru_cache(maxsize=8192)
def _split_call(text: str) -> frozenset[str]:
    """Return the words of a call: a project has up to some thousand, and each question looks at all."""
    return frozenset(split_words(text))


async def _list_few_facts(database: Database, scope: MemoryScope) -> tuple[list[RecallItem], int]:
    """Return the facts of a project that has few, those that most sessions support first, and how many it has."""
    project = scope.project if scope.project_alone else None
    async with database.connection() as conn:
        rows = await lookup.list_facts_of_project(conn, scope, now=database.clock.now(), limit=MAX_FEW_FACTS + 1)
        seen = await find_reached_facts(conn, [row.id for row in rows], peer=scope.peer, project=project)
    reached = [row for row in rows if row.id in seen]
    return [listed_fact_item(row) for row in reached] if len(rows) <= MAX_FEW_FACTS else [], len(reached)


def _nearest_items(ranked: Ranked) -> list[RecallItem]:
    """Return the facts, and what persons said in few words, whose vectors are nearest to a question.

    Of requests in much the same words only the nearest is among them: they say the same of a question.
    """
    scores = {name: channel.scores for channel in ranked.channels for name in [channel.name]}
    of_facts, of_turns = scores.get(FACT_VECTORS, {}), scores.get(SAID_VECTORS, {})
    facts = [fact for fact in ranked.facts if fact.number in of_facts]
    proofs = {event for fact in facts for event in fact.events}
    turns = [
        turn for turn in ranked.turns if turn.number in of_turns and _is_short_word(turn) and turn.event not in proofs
    ]
    best = max(of_facts.values(), default=1.0)  # of facts the nearest stands beside the nearest turn
    items = [fact_item(fact, of_facts[fact.number] / best) for fact in facts]
    items += [turn_item(turn, of_turns[turn.number]) for turn in turns]
    nearest: list[RecallItem] = []
    for item in sorted(items, key=lambda item: -item.score):
        nearer_texts = [other.searched for other in nearest if other.kind == item.kind == "episode"]
        if not any(word_overlap(item.searched, text) >= MUCH_THE_SAME for text in nearer_texts):
            nearest.append(item)
    return nearest[:MAX_NEAREST]


def _is_short_word(turn: TurnRow) -> bool:
    """Tell whether a person said a turn, in few words that ask nothing and name no plan that was accepted."""
    is_own = not (str(turn.speaker or "").startswith(RECORD_OF) or ACCEPTED_PLAN.fullmatch(turn.text))
    return is_own and len(turn.text) <= MAX_NEAR_CHARS and not looks_like_question(turn.text)


def listed_fact_item(row: FactRow) -> RecallItem:
    """Return the line of a fact that no search found."""
    said = (row.kind, row.confidence, row.trust)
    return fact_item(RecalledFact(0, row.id, row.sentence, *said, row.valid_from, row.valid_to, row.sessions), 0.0)


async def _without_hostile_commands(database: Database, items: Sequence[RecallItem]) -> list[RecallItem]:
    """Return facts and turns in which hostile commands are replaced: a block is also shown to agents unasked."""
    facts = {str(item.data["id"]): str(item.data["text"]) for item in items if item.kind == "fact"}
    async with database.connection() as conn:
        withheld = await find_withheld_facts(conn, facts)
    masked = []
    for item in items:
        text = str(item.data["text"])
        is_told = item.kind == "fact" and item.data["id"] not in withheld
        masked.append(item if is_told or (masked_text := mask_commands(text)) == text else reworded(item, masked_text))
    return masked


async def _find_solutions(database: Database, query: str, scope: MemoryScope, viewer: Viewer) -> list[SolutionRow]:
    """Return the solutions of a query that reads like a known error; for any other, those with most of its words.

    An error that is not known has that of one with nearly all of its words; with many of them it is another error.
    """
    is_pasted = looks_like_error(query) and not looks_like_question(query)
    if looks_like_error(query):
        from consolidator.service.memory.solutions import find_solutions  # loads what reads errors

        filters = SolutionFilter(scope.agent, scope.project, scope.peer, limit=MAX_LEADING_ITEMS)
        solutions = await find_solutions(database, query, filters, viewer=viewer)
        if solutions:
            return solutions
    words = split_words(query)
    async with database.connection() as conn:
        solutions = await lookup.find_solutions_for_request(conn, scope, query[:MAX_SOLUTION_QUERY_LENGTH])
    # One shared word alone does not identify an error.
    least, min_shared = (MIN_ERROR_COVERAGE, 3) if is_pasted else (0.0, 2)
    scored = [(query_coverage(words, [row.search], min_shared=min_shared), row) for row in solutions]
    scored.sort(key=lambda pair: -pair[0])  # stable: equals stay in the order of the store
    best = [row for score, row in scored[:MAX_LEADING_ITEMS] if score > least]
    if not best:
        return []
    from consolidator.service.memory.solutions import answer_error

    return [answer_error(row, query) for row in best]


async def _find_procedures(
    database: Database, query: str, scope: MemoryScope, answered: PromptWords | None
) -> list[RecallItem]:
    """Return the procedures whose sessions' titles or tools fit a request: what mostly fails last.

    Beside what answers a question (`answered`) only those that are as much about it.
    """
    words = split_words(query)
    async with database.connection() as conn:
        procedures = await lookup.find_procedures_for_request(conn, scope, query)
        ids = list({session for row in procedures for session in row.sessions})
        first = {message.session_id: message.first_words for message in await sessions.list_first_messages(conn, ids)}
    requests = {row.id: [first[session] for session in row.sessions if session in first] for row in procedures}
    scored = [
        # Of one request: those of many sessions together have words of any.
        (
            max(
                query_coverage(words, texts) if answered is None or answered.may_be_answered_by(texts) else 0.0
                for request in requests[row.id] or [""]
                for texts in [[row.title, *row.goals, request]]
            ),
            row,
        )
        for row in procedures
    ]
    scored.sort(key=lambda pair: (pair[1].success < MIN_SUCCESS, -pair[0], -pair[1].worth, pair[1].id))
    return [procedure_item(row.id, row.title, score) for score, row in scored[:MAX_LEADING_ITEMS] if score]


async def recall_for_message(
    database: Database, settings: Settings, session: SessionRow, message: str, *, viewer: Viewer = OWNER
) -> str | None:
    """Return the block to show the model with a message of a session; None if memory knows nothing about it."""
    async with database.connection() as conn:
        person = await load_person(conn, session.id)
    scope = MemoryScope(session.agent, session.project, person)
    result = await recall(database, message, scope, settings=settings, viewer=viewer, occasion="message")
    return result.block or None


async def rank_documents(
    database: Database,
    query: str,
    scope: MemoryScope = MemoryScope(),
    *,
    limit: int = DEFAULT_RANKED,
    settings: Settings | None = None,
) -> list[RecallItem]:
    """Return the facts and turns that fit a query, in one ranking."""
    async with database.connection() as conn:
        scope = await narrow_scope(conn, OWNER, scope)
    return (await _rank_documents(database, query, scope, limit=limit, settings=settings)).items


async def _rank_documents(
    database: Database, query: str, scope: MemoryScope, *, limit: int, settings: Settings | None
) -> Ranked:
    model = None if settings is None else static_vectors.embedding_name(settings)
    vector = None
    if settings is not None and model == static_vectors.NAME:
        vector = static_vectors.embed([query[:MAX_VECTOR_TEXT]])[0] or None
    elif settings is not None and model is not None:
        from consolidator.jobs.indexing.embeddings import embed_query  # it loads what asks models

        vector = await embed_query(settings, model, query)
    words = query_words(query)[:MAX_QUERY_WORDS]
    async with database.connection() as conn:
        sums = await scope_sizes.load_corpus(conn, scope)
        if not sums.scopes:
            return Ranked([], has_answer=False)
        channels, counts = await _search_words(conn, words, sums)
        if vector is not None and model is not None:
            channels += await search_vectors(conn, model, vector, sums)
        turns, facts = await load_documents(conn, channels, scope.peer, scope.project if scope.project_alone else None)
    items = fuse_channels(turns, facts, channels, limit=limit, query_words=words)
    weighed = PromptWords.weigh(subject_words(words), counts, max(sums.turns + sums.facts, MIN_DOCUMENTS))
    least = STATIC_MIN_COSINE if model == static_vectors.NAME else MIN_COSINE
    is_near = any(channel.cosine >= least for channel in channels)
    return Ranked(items, is_near or has_answer(weighed, items), turns, facts, channels, weighed, words)


async def _search_words(
    conn: Connection, words: Sequence[str], sums: scope_sizes.CorpusSums
) -> tuple[list[Channel], dict[str, int]]:
    """Return the documents that fit a query's words (turns, turns read with their neighbours, facts).

    Also in how many documents each word is.
    """
    keys = {kind: [word_key(kind, word) for word in words] for kind in (TURN, FACT)}
    if sums.turn_scopes == sums.scopes:
        hits = await index.search_words(conn, keys[TURN] + keys[FACT], sums.scopes, sums.documents)
    else:
        hits = []
        for kind, scopes in ((TURN, sums.turn_scopes), (FACT, sums.scopes)):
            if scopes:
                hits += await index.search_words(conn, keys[kind], scopes, sums.documents)
    turns = _rank_hits(hits, keys[TURN], ranking.CorpusStatistics(sums.turns, sums.turn_words))
    facts = _rank_hits(hits, keys[FACT], ranking.CorpusStatistics(sums.facts, sums.fact_words))
    channels: list[Channel] = []
    if turns is not None:
        channels.append(_scaled_channel(TURN, turns.score_documents(CANDIDATES_PER_CHANNEL), WORDS_WEIGHT, "words"))
        neighbourhoods = turns.score_neighbourhoods(CANDIDATES_PER_CHANNEL)
        channels.append(_scaled_channel(TURN, neighbourhoods, NEIGHBOURHOOD_WEIGHT, "words around it"))
    if facts is not None:
        fact_scores = facts.score_documents(CANDIDATES_PER_CHANNEL)
        channels.append(_scaled_channel(FACT, fact_scores, FACT_WEIGHT, "words of a fact"))
    word_of = {key: word for kind in (TURN, FACT) for key, word in zip(keys[kind], words, strict=True)}
    counts: dict[str, int] = {}
    for key, _, count in hits:
        counts[word_of[key]] = counts.get(word_of[key], 0) + count
    return channels, counts


def _scaled_channel(kind: str, scored: ranking.Scored, weight: float, name: str) -> Channel:
    numbers, scores = scored
    return Channel(kind, scale_to_best(numbers.tolist(), scores.tolist()), weight, name)


async def search_vectors(
    conn: Connection, model: str, vector: list[float], sums: scope_sizes.CorpusSums
) -> list[Channel]:
    """Return the documents nearest to a query's vector; small scopes are searched exactly."""
    from consolidator.store.search import vectors

    exact = sums.turns + sums.facts <= vectors.EXACT_LIMIT
    nearest: dict[str, list[tuple[int, float]]] = {}
    for kinds, count, scopes in (
        ([TURN, vectors.SAID], sums.turns, sums.turn_scopes),
        ([FACT], sums.facts, sums.scopes),
    ):
        if count:
            nearest |= await vectors.find_nearest(
                conn, kinds, model, vector, scopes, exact=exact, limit=CANDIDATES_PER_CHANNEL
            )
    said, turns = ({number for number, _ in nearest.get(kind, ())} for kind in (vectors.SAID, TURN))
    share_of_agents = len(turns - said) / (len(turns) or 1)  # where persons alone speak, it is the same search
    weight = STATIC_WEIGHT if model == static_vectors.NAME else VECTOR_WEIGHT
    weights = {TURN: weight, vectors.SAID: weight * SAID_WEIGHT * share_of_agents, FACT: weight * FACT_WEIGHT}
    names = {TURN: TURN_VECTORS, vectors.SAID: SAID_VECTORS, FACT: FACT_VECTORS}
    return [
        Channel(
            FACT if kind == FACT else TURN,
            scale_to_range(documents, nearest.get(TURN, ()) if kind == FACT else ()),
            weights[kind],
            names[kind],
            cosine=max(cosine for _, cosine in documents),
        )
        for kind, documents in nearest.items()
        if documents
    ]


def _rank_hits(
    hits: Sequence[tuple[int, bytes, int]], keys: Sequence[int], corpus: ranking.CorpusStatistics
) -> ranking.Hits | None:
    """Return the documents that hold some of the words, over all scopes; None if there are none."""
    refs: dict[int, list[bytes]] = {}
    documents: dict[int, int] = {}
    word_keys = set(keys)
    for word, packed, count in hits:
        if word in word_keys:
            refs.setdefault(word, []).append(packed)
            documents[word] = documents.get(word, 0) + count
    terms = [
        ranking.TermPostings(word, documents[word], np.frombuffer(b"".join(packed), dtype=">i8").astype(np.int64))
        for word, packed in refs.items()
    ]
    return ranking.Hits.from_terms(terms, corpus)


async def load_documents(
    conn: Connection, channels: Sequence[Channel], peer: str | None = None, project: str | None = None
) -> tuple[list[TurnRow], list[RecalledFact]]:
    """Return the documents of some channels that still exist, and the turns that prove the best facts among them.

    For a peer only those that this person may see, for a project only those of its sessions alone, whatever the
    channels found.
    """
    numbers: dict[str, set[int]] = {TURN: set(), FACT: set()}
    for channel in channels:
        numbers[channel.kind].update(channel.scores)
    facts = await index.load_facts(conn, sorted(numbers[FACT])) if numbers[FACT] else []
    turns = await index.load_turns(conn, sorted(numbers[TURN])) if numbers[TURN] else []
    is_cut = peer is not None or project is not None
    if is_cut and facts:
        visible = await find_reached_facts(conn, [fact.id for fact in facts], peer=peer, project=project)
        facts = [fact for fact in facts if fact.id in visible]
    proofs = loads(f"[{','.join(fact.proofs for fact in facts)}]")  # each by itself takes three times as long
    facts = [replace(fact, events=_list_events(proven)) for fact, proven in zip(facts, proofs, strict=True)]
    if hidden := find_hidden_events(turns, facts, channels, FACTS_WITH_TURNS):
        turns += await index.load_turns_of_events(conn, hidden)
    if is_cut:
        own = {turn.session_id for turn in turns} | {session for fact in facts for session, _ in fact.events}
        own = await find_reached_sessions(conn, own, peer=peer, project=project)
        turns = [turn for turn in turns if turn.session_id in own]
        facts = [replace(fact, events=tuple(event for event in fact.events if event[0] in own)) for fact in facts]
    return turns, facts


def _list_events(proofs: Sequence[tuple[str, int, list[int]]]) -> tuple[tuple[str, int], ...]:
    """Return the events of the candidates that prove a fact, each once."""
    return tuple({(session, seq): None for session, first, further in proofs for seq in (first, *further)})
