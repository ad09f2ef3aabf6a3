"""The index that recall searches: turns, facts and the words of both, written by the night and read in two queries."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from consolidator.database.partitions import Connection
from consolidator.store.queries import Row, execute, load, rows

MOST = 2000  # documents of one word in one scope that are looked at, the weightiest
COUNTED = 20_000  # documents up to which it is counted in how many a word stands
DOCUMENT = (1 << 46) - 1  # the bits of a posting that are its document's number (memory/postings.py)
WIDE = 64  # scopes beyond which a query does not ask each one
_SQL = load("search/index")
_COPY = np.dtype(
    [("n", ">i2"), ("a", ">i4"), ("word", ">i8"), ("b", ">i4"), ("scope", ">i8"), ("c", ">i4"), ("ref", ">i8")]
)
_HEAD, _TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Whom documents belong to: an agent, in a project or of a peer where they are not its own."""

    agent: str
    project: str | None = None
    peer: str | None = None

    @property
    def number(self) -> int:
        """The number by which the index knows it; made of its names, so that nobody has to hand it out."""
        name = "\x1f".join("\x00" if part is None else part for part in (self.agent, self.project, self.peer))
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


@dataclass(slots=True)
class Share:
    """What documents add to their scope, or take from it."""

    turns: int = 0
    turn_words: int = 0
    facts: int = 0
    fact_words: int = 0


@dataclass(frozen=True, slots=True)
class CorpusSums:
    """What the scopes that a query reads have."""

    scopes: list[int]
    turns: int
    turn_words: int
    facts: int
    fact_words: int


Posted = tuple[int, int, int]  # word, scope, ref


async def heads(conn: Connection, sessions: Sequence[str]) -> dict[str, Row]:
    """Return the last number and seq of sessions' turns, and a block of numbers that each may begin."""
    found = await rows(conn, _SQL["heads"], {"sessions": list(sessions)})
    return {one["session"]: one for one in found}


async def save_episodes(conn: Connection, episodes: Sequence[Mapping[str, Any]]) -> None:
    """Store turns."""
    names = {"ids": "id", "sessions": "session_id", "seqs": "seq", "scopes": "scope", "roles": "role"}
    names |= {"speakers": "speaker", "texts": "text", "times": "occurred_at"}
    values = {plural: [episode[name] for episode in episodes] for plural, name in names.items()}
    await execute(conn, _SQL["save_episodes"], values)


async def post(conn: Connection, posted: Iterable[Posted]) -> None:
    """Add words of documents, in the order of the index."""
    found = np.array(sorted(posted), dtype=np.int64)
    if not len(found):
        return
    told = np.zeros(len(found), dtype=_COPY)
    told["n"], told["a"], told["b"], told["c"] = 3, 8, 8, 8
    told["word"], told["scope"], told["ref"] = found[:, 0], found[:, 1], found[:, 2]
    async with conn.cursor() as cursor, cursor.copy(_SQL["copy_postings"]) as copy:
        await copy.write(_HEAD + told.tobytes() + _TAIL)


async def unpost(conn: Connection, posted: Iterable[Posted]) -> set[int]:
    """Take words of documents away; return the numbers of those that had any there."""
    return await _documents(conn, "drop_postings", posted)


async def repost(conn: Connection, posted: Iterable[Posted]) -> set[int]:
    """Add words of documents where they are not there; return the numbers of those that had none."""
    return await _documents(conn, "add_postings", posted)


async def _documents(conn: Connection, name: str, posted: Iterable[Posted]) -> set[int]:
    found = sorted(posted)
    if not found:
        return set()
    words, scopes, refs = zip(*found, strict=True)
    values = {"words": list(words), "scopes": list(scopes), "refs": list(refs), "document": DOCUMENT}
    return {one["number"] for one in await rows(conn, _SQL[name], values)}


async def share(conn: Connection, shares: Mapping[SearchScope, Share]) -> None:
    """Say by how much scopes grew or shrank; nobody waits, since it adds rows only."""
    if not shares:
        return
    values: dict[str, list[Any]] = {
        "scopes": [scope.number for scope in shares],
        "agents": [scope.agent for scope in shares],
        "projects": [scope.project for scope in shares],
        "peers": [scope.peer for scope in shares],
    }
    for name in Share.__dataclass_fields__:
        values[name] = [getattr(one, name) for one in shares.values()]
    await execute(conn, _SQL["add_corpus"], values)


async def shrink(conn: Connection, agent: str, shares: Mapping[int, Share]) -> None:
    """Say by how much an agent's scopes, named by their numbers, shrank."""
    values: dict[str, Any] = {"agent": agent, "scopes": list(shares)}
    for name in Share.__dataclass_fields__:
        values[name] = [-getattr(one, name) for one in shares.values()]
    await execute(conn, _SQL["shrink_corpus"], values)


async def sum_up(conn: Connection, agent: str) -> None:
    """Sum up how much an agent's scopes have; under the agent's lock."""
    await execute(conn, _SQL["sum_corpus"], {"agent": agent})


async def sums(conn: Connection, *, agent: str | None, project: str | None, peer: str | None) -> CorpusSums:
    """Return the scopes that a query may read, and how much they have."""
    found = await rows(conn, _SQL["scopes"], {"agent": agent or None, "project": project or None, "peer": peer or None})
    total = {name: sum(one[name] for one in found) for name in Share.__dataclass_fields__}
    return CorpusSums([one["scope"] for one in found], **total)


async def search(conn: Connection, words: Sequence[int], scopes: Sequence[int]) -> list[tuple[int, bytes, int]]:
    """Return (word, refs as big-endian 64-bit numbers, documents that have it) for each word and scope."""
    name = "search" if len(scopes) <= WIDE else "search_wide"
    most = max(MOST // max(len(scopes), 1), 200) if name == "search" else 2 * MOST
    values = {"words": list(words), "scopes": list(scopes), "most": most, "counted": COUNTED}
    async with conn.cursor(binary=True) as cursor:
        await cursor.execute(_SQL[name], values)
        return await cursor.fetchall()


async def extent(conn: Connection, agent: str, scopes: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return how many facts, and how many words of facts, each of an agent's scopes has."""
    found = await rows(conn, _SQL["extent"], {"agent": agent, "scopes": list(scopes)})
    return {one["scope"]: (one["facts"], one["fact_words"]) for one in found}


async def facts_called(conn: Connection, numbers: Sequence[int]) -> dict[int, str]:
    """Return the ids of facts by their numbers in the index."""
    return {one["number"]: one["id"] for one in await rows(conn, _SQL["facts_called"], {"numbers": list(numbers)})}


async def is_rebuilding(conn: Connection) -> bool:
    """Tell whether the index is being built anew, so that it does not know of everything."""
    (found,) = await rows(conn, _SQL["rebuilding"])
    return bool(found["rebuilding"])


async def turns(conn: Connection, numbers: Sequence[int]) -> list[Row]:
    """Return turns by their numbers."""
    return await rows(conn, _SQL["turns"], {"numbers": list(numbers)})


async def facts(conn: Connection, numbers: Sequence[int]) -> list[Row]:
    """Return facts by their numbers in the index, each with the turns that prove it, if they are still believed."""
    return await rows(conn, _SQL["facts"], {"numbers": list(numbers)})


async def gone_facts(conn: Connection, agent: str, ids: Sequence[str] | None, limit: int) -> list[Row]:
    """Return what the index has of an agent's facts, or of those named, and should not, or has in other words."""
    if ids is None:
        return await rows(conn, _SQL["gone_facts"], {"agent": agent, "limit": limit})
    return await rows(conn, _SQL["gone_of"], {"ids": list(ids), "limit": limit})


async def new_facts(conn: Connection, agent: str, ids: Sequence[str] | None, limit: int) -> list[Row]:
    """Return an agent's facts, or those named, that the index should have and has not."""
    if ids is None:
        return await rows(conn, _SQL["new_facts"], {"agent": agent, "limit": limit})
    return await rows(conn, _SQL["new_of"], {"ids": list(ids), "limit": limit})


async def drop_facts(conn: Connection, ids: Sequence[str]) -> None:
    """Forget that these facts are indexed."""
    await execute(conn, _SQL["drop_facts"], {"ids": list(ids)})


async def save_facts(conn: Connection, found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Say that facts are indexed; return the number of each."""
    values: dict[str, Any] = {plural: [one[name] for one in found] for plural, name in
              {"ids": "id", "agents": "agent", "scopes": "scope", "sentences": "sentence"}.items()}  # fmt: skip
    return {one["id"]: one["number"] for one in await rows(conn, _SQL["save_facts"], values)}


async def use(conn: Connection, facts_used: Sequence[str], now: datetime) -> None:
    """Count that facts were recalled; a row that somebody has locked is passed over."""
    await execute(conn, _SQL["use"], {"ids": list(facts_used), "now": now})


async def take_turns(
    conn: Connection, session: str, limit: int, *, upto: int | None = None, before: datetime | None = None
) -> list[Row]:
    """Take at most so many turns of a session out of the index, up to a seq and before a time where told."""
    return await rows(conn, _SQL["take_turns"], {"session": session, "upto": upto, "before": before, "limit": limit})


async def clear(conn: Connection, *, vectors: bool) -> None:
    """Empty the index, all but the turns and facts that it is made of; with `vectors`, forget these, too."""
    await execute(conn, _SQL["clear"])
    await execute(conn, _SQL["clear_vectors" if vectors else "drop_orphans"])


async def agents(conn: Connection) -> list[str]:
    """Return whose facts are or should be indexed."""
    return [one["agent"] for one in await rows(conn, _SQL["agents"])]


async def sessions(conn: Connection) -> list[str]:
    """Return the sessions that have turns."""
    return [one["id"] for one in await rows(conn, _SQL["sessions"])]


async def kept_turns(conn: Connection, session: str, *, after: int, limit: int) -> list[Row]:
    """Return turns of a session behind a seq, locked so that nobody takes them out."""
    return await rows(conn, _SQL["kept_turns"], {"session": session, "after": after, "limit": limit})


async def kept_facts(conn: Connection, agent: str, *, after: int, limit: int) -> list[Row]:
    """Return an agent's indexed facts behind a number."""
    return await rows(conn, _SQL["kept_facts"], {"agent": agent, "after": after, "limit": limit})


async def move(conn: Connection, kind: str, scopes: Mapping[int, int]) -> None:
    """Say that documents belong to other scopes than they did."""
    if scopes:
        await execute(conn, _SQL[f"move_{kind}s"], {"numbers": list(scopes), "scopes": list(scopes.values())})


async def total(conn: Connection) -> Row:
    """Return how many turns and facts are indexed."""
    (found,) = await rows(conn, _SQL["total"])
    return found
