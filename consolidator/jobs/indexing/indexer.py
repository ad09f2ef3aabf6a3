"""Keeps recall's index beside what it indexes, in the caller's transaction.

Turns come in as nights read them, facts as they change, and both go out when they go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from consolidator.database import Connection
from consolidator.database.jsonb import escape
from consolidator.memory.recall.episodes import Episode, searched
from consolidator.memory.recall.postings import BLOCK, FACT, TURN, packed
from consolidator.memory.text.words import counted
from consolidator.store.queries import Row
from consolidator.store.search import index
from consolidator.store.search.index import Posted, SearchScope, Share

BATCH = 500  # documents put in or taken out at once


async def save_episodes(conn: Connection, told: Sequence[tuple[Row, Sequence[Episode]]]) -> None:
    """Store what was said in sessions, and index it; what is there already stays as it is."""
    told = [(session, episodes) for session, episodes in told if episodes and not session["simulated"]]
    if not told:
        return
    heads = await index.heads(conn, [session["id"] for session, _ in told])
    stored: list[dict[str, Any]] = []
    posted: list[Posted] = []
    shares: defaultdict[SearchScope, Share] = defaultdict(Share)
    for session, episodes in told:
        scope, head = SearchScope(session["agent"], session["project"], session["peer"]), heads[session["id"]]
        number = head["block"] * BLOCK if head["last"] is None else head["last"] + 1
        for episode in episodes:
            if head["seq"] is not None and episode.seq <= head["seq"]:
                continue
            if number % BLOCK == 0:  # a session's first turn, or the first after a full block
                number = head["block"] * BLOCK
            text = escape(episode.text)
            stored.append(_episode_row(session["id"], scope, number, episode, text))
            _post(TURN, number, scope.number, searched(stored[-1]["speaker"], text), posted, shares[scope])
            number += 1
    await index.save_episodes(conn, stored)
    await index.post(conn, posted)
    await index.share(conn, shares)


def _episode_row(session: str, scope: SearchScope, number: int, episode: Episode, text: str) -> dict[str, Any]:
    return {
        "id": number,
        "session_id": session,
        "seq": episode.seq,
        "scope": scope.number,
        "role": episode.role,
        "speaker": None if episode.speaker is None else escape(episode.speaker),
        "text": text,
        "occurred_at": episode.occurred_at,
    }


def _post(kind: str, number: int, scope: int, text: str, posted: list[Posted], share: Share) -> None:
    """Note a document's words, and that it is one more in its scope; one without words is none."""
    words = counted(text)
    posted.extend((word, scope, ref) for word, ref in packed(kind, number, words))
    if words:
        _add(kind, sum(words.values()), share)


def _add(kind: str, words: int, share: Share) -> None:
    if kind == TURN:
        share.turns += 1
        share.turn_words += words
    else:
        share.facts += 1
        share.fact_words += words


async def index_facts(conn: Connection, agent: str, ids: Sequence[str] | None = None) -> None:
    """Bring the index to what is believed of an agent now; under the agent's lock, after its facts have changed.

    Who knows which facts may have changed names them: all of an agent's are compared otherwise.
    """
    while gone := await index.gone_facts(conn, agent, ids, BATCH):
        await _take_out(conn, agent, FACT, [(one["number"], one["scope"], one["sentence"]) for one in gone])
        await index.drop_facts(conn, [one["id"] for one in gone])
    while new := await index.new_facts(conn, agent, ids, BATCH):
        await _take_in(conn, new)
    await index.sum_up(conn, agent)


async def _take_in(conn: Connection, new: Sequence[Row]) -> None:
    posted: list[Posted] = []
    shares: defaultdict[SearchScope, Share] = defaultdict(Share)
    numbers = await index.save_facts(conn, [{**fact, "scope": _scope_of(fact).number} for fact in new])
    for fact in new:
        scope = _scope_of(fact)
        _post(FACT, numbers[fact["id"]], scope.number, fact["sentence"], posted, shares[scope])
    await index.post(conn, posted)
    await index.share(conn, shares)


def _scope_of(fact: Row) -> SearchScope:
    """Return whom a fact belongs to: what was learned in a project holds for all peers there."""
    if fact["level"] == "project":
        return SearchScope(fact["agent"], project=fact["project"])
    return SearchScope(fact["agent"], peer=fact["peer"] if fact["level"] == "peer" else None)


async def forget_turns(
    conn: Connection, agent: str, session: str, upto: int | None = None, before: datetime | None = None
) -> int:
    """Take turns of a session out of the index, up to a seq and before a time where told; return how many, bounded."""
    gone = await index.take_turns(conn, session, BATCH, upto=upto, before=before)
    if gone:
        await _take_out(conn, agent, TURN, [(t["id"], t["scope"], searched(t["speaker"], t["text"])) for t in gone])
    return len(gone)


async def _take_out(conn: Connection, agent: str, kind: str, documents: Sequence[tuple[int, int, str]]) -> None:
    """Take the words of documents out of the index: they are made of the stored texts as they were when they came."""
    posted: list[Posted] = []
    alone: dict[int, tuple[int, Share]] = {}
    for number, scope, text in documents:
        alone[number] = (scope, Share())
        _post(kind, number, scope, text, posted, alone[number][1])
    gone = await index.unpost(conn, posted)
    shares: defaultdict[int, Share] = defaultdict(Share)
    for number in gone:  # a document whose words are not there, as while the index is built anew, counts nowhere
        scope, share = alone[number]
        _sum(share, shares[scope])
    await index.shrink(conn, agent, shares)


def _sum(one: Share, share: Share) -> None:
    for name in Share.__dataclass_fields__:
        setattr(share, name, getattr(share, name) + getattr(one, name))


@dataclass(frozen=True, slots=True)
class Document:
    """A turn or a fact that is to be put back."""

    number: int
    was: int  # the scope it had
    scope: SearchScope
    text: str


async def restore_turns(conn: Connection, session: str) -> None:
    """Put back the words of a session's turns where they are missing; whoever takes turns out waits for us."""
    after = 0
    while found := await index.kept_turns(conn, session, after=after, limit=BATCH):
        after = found[-1]["seq"]
        told = [
            Document(
                turn["number"], turn["scope"], SearchScope(turn["agent"], turn["project"], turn["peer"]),
                searched(turn["speaker"], turn["text"]),
            )
            for turn in found
        ]  # fmt: skip
        await _restore(conn, TURN, told)


async def restore_facts(conn: Connection, agent: str) -> None:
    """Put back the words of an agent's facts where they are missing; under the agent's lock."""
    after = 0
    while found := await index.kept_facts(conn, agent, after=after, limit=BATCH):
        after = found[-1]["number"]
        told = [Document(fact["number"], fact["scope"], _scope_of(fact), fact["sentence"]) for fact in found]
        await _restore(conn, FACT, told)
    await index_facts(conn, agent)


async def _restore(conn: Connection, kind: str, documents: Sequence[Document]) -> None:
    posted: list[Posted] = []
    alone: dict[int, tuple[SearchScope, Share]] = {}
    for one in documents:
        alone[one.number] = (one.scope, Share())
        _post(kind, one.number, one.scope.number, one.text, posted, alone[one.number][1])
    await index.move(conn, kind, {one.number: one.scope.number for one in documents if one.was != one.scope.number})
    shares: defaultdict[SearchScope, Share] = defaultdict(Share)
    for number in await index.repost(conn, posted):
        scope, share = alone[number]
        _sum(share, shares[scope])
    await index.share(conn, shares)
