"""Recall: what memory has on a query, ranked, cited, and within a budget. Every front end calls this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from consolidator.database import Connection, Database
from consolidator.jobs.indexing.embeddings import vector_of
from consolidator.llm.redaction.redact import redact
from consolidator.memory.recall import ranking
from consolidator.memory.recall.fusion import (
    RecalledFact,
    RecalledTurn,
    RecallItem,
    block,
    data_item,
    fit,
    fused,
    looks_like_error,
)
from consolidator.memory.recall.postings import FACT, TURN
from consolidator.memory.text.words import key, words
from consolidator.service.explain import solve
from consolidator.settings import Settings
from consolidator.store.memory import lookup as stored
from consolidator.store.queries import Row
from consolidator.store.search import index, vectors

BUDGET = 1500  # tokens
LIMIT = 20
ASKED = 24  # different words of a query that are looked for
CANDIDATES = 100  # documents of each channel
FIXES = 1000  # characters of a query that solutions are searched for
FEW = 2  # solutions, and procedures, that a block begins with
Channel = tuple[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Recalled:
    """What memory has on a query: a block for a prompt, and the same as items."""

    block: str
    items: list[RecallItem]

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"block": self.block, "items": [item.as_json() for item in self.items]}


async def recall(
    database: Database,
    query: str,
    *,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    token_budget: int = BUDGET,
    limit: int = LIMIT,
    settings: Settings | None = None,
) -> Recalled:
    """Return what memory has on a query, the best first: known errors, procedures, then facts and turns together.

    Words alone are searched; vectors, too, where `settings` name a model for them.
    """
    asked = redact(query)
    found = await ranked(database, asked, agent=agent, project=project, peer=peer, limit=limit, settings=settings)
    first: list[RecallItem] = []
    known = await _fixes(database, asked, agent=agent, project=project)
    first += [data_item("solution", one["id"], f"{one['headline']}: {one['body']['line']}") for one in known]
    first += await _ways(database, asked, agent=agent, project=project)
    text, items = block([*first, *found][:limit], token_budget)
    async with database.transaction(flushed=False) as conn:
        await index.use(conn, [item.data["id"] for item in items if item.kind == "fact"], database.clock.now())
    return Recalled(text, items)


async def _fixes(database: Database, query: str, *, agent: str | None, project: str | None) -> list[Row]:
    """Return the solutions of what reads like a known error; of anything else those that have most of its words."""
    if looks_like_error(query) and (known := await solve(database, query, agent=agent, project=project, limit=FEW)):
        return known
    asked = words(query)
    async with database.connection() as conn:
        known = await stored.mended(conn, query[:FIXES], agent=agent, project=project)
    fits = [(fit(asked, [one["search"]], least=2), one) for one in known]  # one word alone tells of no error
    fits.sort(key=lambda told: -told[0])  # the surest first among equals, as they came
    return [one for score, one in fits[:FEW] if score]


async def _ways(database: Database, query: str, *, agent: str | None, project: str | None) -> list[RecallItem]:
    """Return the procedures that fit a request by their goals or tools."""
    asked = words(query)
    async with database.connection() as conn:
        known = await stored.ways(conn, query, agent=agent, project=project)
    fits = [(fit(asked, [one["title"], *one["goals"]]), one) for one in known]
    fits.sort(key=lambda told: (-told[0], -told[1]["rank"], told[1]["id"]))
    return [data_item("procedure", one["id"], one["title"], score) for score, one in fits[:FEW] if score]


async def ranked(
    database: Database,
    query: str,
    *,
    agent: str | None = None,
    project: str | None = None,
    peer: str | None = None,
    limit: int = LIMIT,
    settings: Settings | None = None,
) -> list[RecallItem]:
    """Return facts and turns in one ranking."""
    vector = await vector_of(settings, query)
    async with database.connection() as conn:
        sums = await index.sums(conn, agent=agent, project=project, peer=peer)
        if not sums.scopes:
            return []
        channels = await _by_words(conn, query, sums)
        if vector is not None and settings is not None and settings.embed_model is not None:
            channels += await by_vector(conn, settings.embed_model, vector, sums)
        turns, facts = await documents(conn, channels)
    return fused(turns, facts, channels, most=limit)


async def _by_words(conn: Connection, query: str, sums: index.CorpusSums) -> list[Channel]:
    """Return the documents that fit a query's words: turns, turns with their neighbours, facts."""
    asked = list(dict.fromkeys(words(query)))[:ASKED]
    keys = {kind: [key(kind, word) for word in asked] for kind in (TURN, FACT)}
    hits = await index.search(conn, keys[TURN] + keys[FACT], sums.scopes)
    turns = _hits(hits, keys[TURN], ranking.CorpusStatistics(sums.turns, sums.turn_words))
    facts = _hits(hits, keys[FACT], ranking.CorpusStatistics(sums.facts, sums.fact_words))
    channels: list[Channel] = []
    if turns is not None:
        channels.append((TURN, turns.best(CANDIDATES).tolist()))
        channels.append((TURN, turns.best_with_neighbours(CANDIDATES).tolist()))
    if facts is not None:
        channels.append((FACT, facts.best(CANDIDATES).tolist()))
    return channels


async def by_vector(conn: Connection, model: str, vector: list[float], sums: index.CorpusSums) -> list[Channel]:
    """Return the documents nearest to a query's vector; in small scopes all are compared."""
    exact = sums.turns + sums.facts <= vectors.EXACT
    kinds = [kind for kind, held in ((TURN, sums.turns), (FACT, sums.facts)) if held]
    found = await vectors.nearest(conn, kinds, model, vector, sums.scopes, exact=exact, limit=CANDIDATES)
    return list(found.items())


def _hits(
    hits: Sequence[tuple[int, bytes, int]], keys: Sequence[int], corpus: ranking.CorpusStatistics
) -> ranking.Hits | None:
    """Return where words stand, those of several scopes together."""
    refs: dict[int, list[bytes]] = {}
    documents: dict[int, int] = {}
    wanted = set(keys)
    for word, packed, count in hits:
        if word in wanted:
            refs.setdefault(word, []).append(packed)
            documents[word] = documents.get(word, 0) + count
    found = [
        ranking.Found(word, documents[word], np.frombuffer(b"".join(packed), dtype=">i8").astype(np.int64))
        for word, packed in refs.items()
    ]
    return ranking.Hits.of(found, corpus)


async def documents(conn: Connection, channels: Sequence[Channel]) -> tuple[list[RecalledTurn], list[RecalledFact]]:
    """Return the documents that channels name, as far as they are still there."""
    wanted = {kind: sorted({n for of, numbers in channels for n in numbers if of == kind}) for kind in (TURN, FACT)}
    turns = await index.turns(conn, wanted[TURN]) if wanted[TURN] else []
    facts = await index.facts(conn, wanted[FACT]) if wanted[FACT] else []
    return [_turn(one) for one in turns], [_fact(one) for one in facts]


def _turn(told: Row) -> RecalledTurn:
    place = (told["session_id"], told["seq"])
    return RecalledTurn(told["id"], place, told["role"], told["speaker"], told["text"], told["occurred_at"])


def _fact(told: Row) -> RecalledFact:
    places = tuple((session, seq) for session, seq in told["proofs"])
    at, trust = told["valid_from"], told["trust"]
    return RecalledFact(
        told["number"], told["id"], told["sentence"], trust, at, places, told["recalled"], told["valid_to"]
    )
