"""Keeps recall's index in step with episodes and facts, in the transaction that changes them.

Episodes are indexed as the nights read them, facts as they change; both are removed from the index with what they show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from consolidator.database import Connection
from consolidator.database.jsonb import escape
from consolidator.memory.recall.block import searchable_text
from consolidator.memory.recall.episodes import Episode
from consolidator.memory.recall.postings import FACT, NUMBERS_PER_BLOCK, TURN, pack_postings
from consolidator.memory.text.words import count_words
from consolidator.models.digest import IndexedTurn
from consolidator.models.session import SessionRow
from consolidator.store.search import index, scope_sizes
from consolidator.store.search.index import Posting, ScopedFactRow, UnindexedFactRow
from consolidator.store.search.scope_sizes import ScopeCounts, SearchScope

ScopeT = TypeVar("ScopeT", SearchScope, int)
BATCH_SIZE = 500  # documents indexed or removed at once


@dataclass(slots=True)
class DocumentWords(Generic[ScopeT]):
    """The postings of some documents, and the scope and the counts of each document by its number."""

    postings: list[Posting] = field(default_factory=list)
    documents: dict[int, tuple[ScopeT, ScopeCounts]] = field(default_factory=dict)

    def add(self, kind: str, number: int, scope: ScopeT, text: str) -> None:
        """Add a document; one without words counts as no document."""
        words, scope_number = count_words(text), scope if isinstance(scope, int) else scope.number
        self.postings.extend((word, scope_number, ref) for word, ref in pack_postings(kind, number, words))
        count, total = int(bool(words)), sum(words.values())
        counts = ScopeCounts(count, total) if kind == TURN else ScopeCounts(facts=count, fact_words=total)
        self.documents[number] = (scope, counts)

    def sum_by_scope(self, numbers: Iterable[int] | None = None) -> dict[ScopeT, ScopeCounts]:
        """Return the counts summed by scope, of some documents or of all."""
        sums: defaultdict[ScopeT, ScopeCounts] = defaultdict(ScopeCounts)
        for number in self.documents if numbers is None else numbers:
            scope, counts = self.documents[number]
            sums[scope].add(counts)
        return sums


# Of a document whose postings may be missing: number, scope that the index has for it, scope that it belongs to, text.
IndexedDocument = tuple[int, int, SearchScope, str]


async def save_episodes(conn: Connection, read: Sequence[tuple[SessionRow, Sequence[Episode]]]) -> None:
    """Store and index the episodes of sessions; episodes that are stored already stay as they are."""
    read = [(session, episodes) for session, episodes in read if episodes and not session.simulated]
    if not read:
        return

    heads = await index.load_episode_heads(conn, [session.id for session, _ in read])
    rows: list[IndexedTurn] = []
    documents = DocumentWords[SearchScope]()

    for session, episodes in read:
        scope, head = SearchScope(session.memory, session.project, session.peer), heads[session.id]
        number = head.block * NUMBERS_PER_BLOCK if head.last_id is None else head.last_id + 1
        for episode in episodes:
            if head.last_seq is not None and episode.seq <= head.last_seq:
                continue
            if number % NUMBERS_PER_BLOCK == 0:  # a session's first episode, or the first after a full block
                number = head.block * NUMBERS_PER_BLOCK
            row = IndexedTurn(
                number=number,
                session_id=session.id,
                seq=episode.seq,
                scope=scope.number,
                role=episode.role,
                speaker=None if episode.speaker is None else escape(episode.speaker),
                text=escape(episode.text),
                occurred_at=episode.occurred_at,
                announces=episode.announces,
            )
            rows.append(row)
            documents.add(TURN, number, scope, searchable_text(row.speaker, row.text))
            number += 1

    await index.save_episodes(conn, rows)
    await index.add_postings(conn, documents.postings)
    await scope_sizes.add_counts(conn, documents.sum_by_scope())


async def index_facts(conn: Connection, agent: str, ids: Sequence[str] | None = None) -> None:
    """Bring the index in step with an agent's facts; the caller holds the agent's lock.

    `ids` are the facts that may have changed; without them all of the agent's facts are compared.
    """
    while outdated := (
        await index.load_outdated_facts(conn, agent, BATCH_SIZE)
        if ids is None
        else await index.load_outdated_among(conn, ids, BATCH_SIZE)
    ):
        await _remove(conn, agent, FACT, [(fact.number, fact.scope, fact.text) for fact in outdated])
        await index.delete_facts(conn, [fact.id for fact in outdated])
    while unindexed := (
        await index.load_unindexed_facts(conn, agent, BATCH_SIZE)
        if ids is None
        else await index.load_unindexed_among(conn, ids, BATCH_SIZE)
    ):
        documents = DocumentWords[SearchScope]()
        numbers = await index.save_facts(conn, [(fact, _fact_scope(fact).number) for fact in unindexed])
        for fact in unindexed:
            documents.add(FACT, numbers[fact.id], _fact_scope(fact), fact.text)
        await index.add_postings(conn, documents.postings)
        await scope_sizes.add_counts(conn, documents.sum_by_scope())
    await scope_sizes.compact_counts(conn, agent)


def _fact_scope(fact: UnindexedFactRow | ScopedFactRow) -> SearchScope:
    """Return whom a fact belongs to; what was learned in a project holds for all peers there."""
    if fact.level == "project":
        return SearchScope(fact.agent, project=fact.project)
    return SearchScope(fact.agent, peer=fact.peer if fact.level == "peer" else None)


async def forget_turns(
    conn: Connection, agent: str, session: str, upto: int | None = None, before: datetime | None = None
) -> int:
    """Remove a batch of a session's episodes, if given only those up to a seq and before a time; return how many."""
    removed = await index.remove_turns(conn, session, BATCH_SIZE, upto=upto, before=before)
    if removed:
        await _remove(
            conn, agent, TURN, [(turn.id, turn.scope, searchable_text(turn.speaker, turn.text)) for turn in removed]
        )
    return len(removed)


async def _remove(conn: Connection, agent: str, kind: str, removed: Sequence[tuple[int, int, str]]) -> None:
    """Remove the postings of documents (number, scope, text); the text is the one that was indexed."""
    documents = DocumentWords[int]()
    for number, scope, text in removed:
        documents.add(kind, number, scope, text)
    # A document without postings, as while the index is being rebuilt, is counted in no scope.
    indexed = await index.remove_postings(conn, documents.postings)
    await scope_sizes.subtract_counts(conn, agent, documents.sum_by_scope(indexed))


async def restore_turns(conn: Connection, session: str) -> None:
    """Add the missing postings of a session's episodes; nobody can remove these episodes meanwhile."""
    after = 0
    while turns := await index.lock_turns(conn, session, after, BATCH_SIZE):
        after = turns[-1].seq
        documents = [
            (
                turn.number,
                turn.scope,
                SearchScope(turn.agent, turn.project, turn.peer),
                searchable_text(turn.speaker, turn.text),
            )
            for turn in turns
        ]
        await _restore(conn, TURN, documents)


async def restore_facts(conn: Connection, agent: str) -> None:
    """Add the missing postings of an agent's facts; the caller holds the agent's lock."""
    after = 0
    while facts := await index.load_indexed_facts(conn, agent, after, BATCH_SIZE):
        after = facts[-1].number
        documents = [(fact.number, fact.scope, _fact_scope(fact), fact.text) for fact in facts]
        await _restore(conn, FACT, documents)
    await index_facts(conn, agent)


async def _restore(conn: Connection, kind: str, restored: Sequence[IndexedDocument]) -> None:
    documents = DocumentWords[SearchScope]()
    for number, _, scope, text in restored:
        documents.add(kind, number, scope, text)
    moved = {number: scope.number for number, indexed, scope, _ in restored if indexed != scope.number}
    await index.move_documents(conn, kind, moved)
    added = await index.add_missing_postings(conn, documents.postings)
    await scope_sizes.add_counts(conn, documents.sum_by_scope(added))
