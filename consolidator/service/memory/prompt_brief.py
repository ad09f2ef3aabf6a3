"""What is told with a prompt: what people said about it, lessons about it, and fixes of an error that stands in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from consolidator.database import Database
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.harm_in_text import text_harm
from consolidator.memory.calls.symbols import tool_symbol
from consolidator.memory.recall.block import RecallItem, quoted_item, turn_excerpt
from consolidator.memory.recall.episodes import RECORD_OF
from consolidator.memory.recall.lasting_words import lasting_sentences, tells_more, without_directories
from consolidator.memory.recall.postings import FACT, TURN
from consolidator.memory.recall.query import looks_like_error
from consolidator.memory.recall.relevance import MIN_DOCUMENTS_OF_PROMPT, PromptWords
from consolidator.memory.solutions.fingerprint import fingerprint, signature
from consolidator.memory.text.words import query_words, word_key
from consolidator.models.memory_filter import MemoryScope, SolutionFilter
from consolidator.models.solution import SolutionRow
from consolidator.service.memory.recall import MAX_QUERY_WORDS, rank_documents
from consolidator.service.memory.solutions import DEFAULT_LIMIT, find_solutions
from consolidator.service.memory.withheld import find_withheld_facts
from consolidator.store.facts.visibility import find_reached_sessions
from consolidator.store.search import postings, scope_sizes

MAX_PROMPT_ITEMS, MAX_PROMPT_LESSONS = 4, 2
MIN_PROMPT_WORDS = 2


async def items_for_prompt(
    database: Database,
    scope: MemoryScope,
    text: str,
    lessons: Sequence[RecallItem],
    *,
    session_id: str,
    shown: Collection[str],
) -> list[RecallItem]:
    """Return what is known about a prompt and was not shown yet; `lessons` are the lines that may be told."""
    prompt = redact(text)
    words = query_words(prompt)[:MAX_QUERY_WORDS]
    if len(words) < MIN_PROMPT_WORDS or prompt.startswith("/"):
        return []
    fixes = await find_known_fixes(database, scope, prompt) if looks_like_error(prompt) else []
    items = [quoted_item("solution", row.id, str(row.body["line"])) for row in fixes]
    ranked = await rank_documents(database, prompt, scope)
    persons = [item for item in ranked if _is_persons_word(item) and session_id not in _sessions_of(item)]
    if persons or lessons:
        weighed = await _weigh_words(
            database, scope, query_words(without_directories(prompt))[:MAX_QUERY_WORDS], lessons
        )
        relevant = [about for item in persons if (about := _about_prompt(item, weighed)) is not None]
        items += await _tellable(database, scope, relevant)
        items += [item for item in lessons if weighed.covers(str(item.data["text"]))][:MAX_PROMPT_LESSONS]
    said = {str(item.data["text"]): item for item in reversed(items)}  # the best of those that say the same
    unseen = [item for item in items if said[str(item.data["text"])] is item and item.citation.strip("[]") not in shown]
    return unseen[:MAX_PROMPT_ITEMS]


async def find_known_fixes(
    database: Database, scope: MemoryScope, error: str, call: tuple[str, Any] | None = None
) -> list[SolutionRow]:
    """Return the confirmed solutions of exactly this error, bound to it and to the failed call."""
    filters = SolutionFilter(scope.agent, scope.project, scope.peer, limit=DEFAULT_LIMIT)
    rows = await find_solutions(database, error, filters, call=call)
    text = redact(error)
    if call is None:  # which tool failed is not said: the error alone has to be the same
        return [row for row in rows if row.confirmed and row.fingerprint.endswith(f"|{signature(text)}")]
    exact = fingerprint(tool_symbol(*call), text)
    return [row for row in rows if row.confirmed and row.fingerprint == exact]


async def _weigh_words(
    database: Database, scope: MemoryScope, words: Sequence[str], lessons: Sequence[RecallItem]
) -> PromptWords:
    """Weigh a prompt's words by how many documents and lessons have them."""
    keys = {word_key(kind, word): word for word in words for kind in (TURN, FACT)}
    async with database.connection() as conn:
        sums = await scope_sizes.load_corpus(conn, scope)
        hits = await postings.search_words(conn, list(keys), sums.scopes, sums.documents)
    counts = Counter(word for item in lessons for word in set(query_words(str(item.data["text"]))) & set(words))
    for key, _, count in hits:
        counts[keys[key]] += count
    documents = sums.turns + sums.facts + len(lessons)
    return PromptWords.weigh(words, counts, max(documents, MIN_DOCUMENTS_OF_PROMPT))


async def _tellable(database: Database, scope: MemoryScope, items: Sequence[RecallItem]) -> list[RecallItem]:
    """Return the facts without a hostile command, and the turns that are of the project's own sessions."""
    facts = {str(item.data["id"]): str(item.data["text"]) for item in items if item.kind == "fact"}
    async with database.connection() as conn:
        sessions = {session for item in items if item.kind == "episode" for session in _sessions_of(item)}
        own = await find_reached_sessions(conn, sessions, project=scope.project) if sessions else set()
        withheld = await find_withheld_facts(conn, facts)
    return [
        item
        for item in items
        if (item.data["id"] not in withheld if item.kind == "fact" else own.issuperset(_sessions_of(item)))
    ]


def _is_persons_word(item: RecallItem) -> bool:
    """Whether a person said it, by the structure of its log."""
    if item.kind == "fact":
        return item.data["trust"] in ("person", "user")
    is_recorded = str(item.data["speaker"] or "").startswith(RECORD_OF)
    return item.data["role"] == "user" and not is_recorded


def _about_prompt(item: RecallItem, prompt: PromptWords) -> RecallItem | None:
    """Return what an item says about a prompt: a fact as it is, of a turn its statements; None for nothing."""
    text = str(item.data["text"])
    if item.kind == "fact":
        return item if prompt.covers(text) else None
    sentences = [
        sentence
        for sentence in lasting_sentences(text)
        if prompt.covers(without_directories(sentence))
        and tells_more(sentence, prompt.words)
        and not text_harm(sentence)
    ]
    return turn_excerpt(item, " … ".join(sentences)) if sentences else None


def _sessions_of(item: RecallItem) -> set[str]:
    return {session for session, _ in item.events} if item.kind == "episode" else set()
