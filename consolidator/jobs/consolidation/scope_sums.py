"""Keeps the sums of an agent's digests from night to night: only what has news is read, added and taken away.

Whatever they were summed of that is not as it was then (erased, re-rooted, taken back) makes them be summed anew.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from psycopg import Rollback

from consolidator.database import Connection
from consolidator.memory.procedures.digest import unpack_terms
from consolidator.memory.procedures.key_counts import Ints
from consolidator.memory.procedures.key_sums import NOTHING, Sums, joined, lineage
from consolidator.memory.procedures.key_texts import Names
from consolidator.memory.procedures.patterns import DigestArrays, outcome_of
from consolidator.store.memory import digests, sums
from consolidator.store.queries import Row

VERSION = "kept-1"  # of how sums and names are kept; those of another version are made anew
EVERYTHING = ""  # the scope of all that an agent does
MOST_PARTS = 64  # of an agent's names, before they are stored as one
_AT_ONCE = 500  # sessions whose names are read at once


@dataclass(slots=True)
class Summed:
    """All of an agent's digests, their sums by project, and the names of what is summed."""

    agent: str
    by_project: dict[str, list[DigestArrays]]
    names: Names
    _sums: dict[str, Sums] = field(default_factory=dict)

    @property
    def shared(self) -> bool:
        """Whether something of the agent as a whole is published: it has several projects, or calls outside of any."""
        return several(self.by_project)

    async def sums(self, conn: Connection, project: str) -> Sums:
        """Return the sums of a project, or of everything."""
        if project not in self._sums:
            stored = await sums.sums(conn, self.agent, project)
            self._sums[project] = Sums.unpack(**stored) if stored else NOTHING
        return self._sums[project]


def several(projects: Iterable[str]) -> bool:
    """Whether an agent with these projects shares anything among them, or works outside of any."""
    found = set(projects)
    return len(found) > 1 or EVERYTHING in found or not found


@dataclass(frozen=True, slots=True)
class _Counted:
    """What one session counts, or counted."""

    root_id: str
    project: str
    keys: Ints
    counts: Ints


async def summed(conn: Connection, agent: str) -> Summed:
    """Bring an agent's sums up to date, in the caller's transaction that holds the agent's lock."""
    found: Summed | None = None
    async with conn.transaction() as attempt:
        found = await _grown(conn, agent)
        if found is None:  # lets go of what was locked, since all is locked in order
            raise Rollback(attempt)
    return found or await _anew(conn, agent)


def _place(one: Row) -> tuple[str, str, str, str]:
    return one["session_id"], one["root_id"], one["project"], str(one["size"])


async def _grown(conn: Connection, agent: str) -> Summed | None:
    """Add what has news to the sums that are kept; None where they are not of what was summed, or would shrink."""
    news = await sums.news(conn, agent)
    placed = await sums.placed(conn, agent)
    kept = await sums.ledger(conn, agent)
    known = lineage(map(_place, (one for one in placed if one["size"] is not None)))
    if kept is None or (kept["version"], kept["lineage"]) != (VERSION, known):
        return None
    outcomes = {one["session_id"]: outcome_of(_ints(one["keys"])) for one in news}
    by_project: dict[str, list[DigestArrays]] = defaultdict(list)
    for one in placed:
        told = outcomes[one["session_id"]] if one["session_id"] in outcomes else one["outcome"]
        by_project[one["project"]].append(_arrays(one, told))
    before = {one["project"] for one in placed if one["size"] is not None}
    if several(by_project) != several(before):
        return None
    found = Summed(agent, dict(by_project), Names.unpack(await sums.names(conn, agent)))
    if not news:
        return found
    changes = await _changes(conn, news, placed, shared=found.shared)
    if any(change.shrinks for change in changes.values()):
        return None
    for project, change in changes.items():
        found._sums[project] = (await found.sums(conn, project)).plus(change)
        await sums.save_sums(conn, agent, project, found._sums[project].packed())
    await _learn_names(conn, found, news)
    # Of what has news as it was summed: a root may have moved in between, which the next night must see.
    added = {one["session_id"]: {**one, "size": len(one["keys"])} for one in news}
    places = [added.get(one["session_id"], one) for one in placed]
    await _save_ledger(conn, agent, [one for one in places if one["size"] is not None])
    await sums.mark(conn, outcomes)
    return found


async def _changes(conn: Connection, news: Sequence[Row], placed: Sequence[Row], *, shared: bool) -> dict[str, Sums]:
    """Return what news changes in the sums of each project, and of everything: by roots, since roots are counted."""
    fresh = {one["session_id"] for one in news}
    roots = {one["root_id"] for one in news}
    kin = {one["session_id"]: one for one in placed if one["root_id"] in roots and one["session_id"] not in fresh}
    stay = []
    for one in await sums.counted(conn, [name for name, place in kin.items() if place["size"] is not None]):
        place = kin[one["session_id"]]
        stay.append(_Counted(place["root_id"], place["project"], _ints(one["keys"]), _ints(one["counts"])))
    new, old = list(stay), list(stay)
    for one in news:
        new.append(_Counted(one["root_id"], one["project"], _ints(one["keys"]), _ints(one["counts"])))
        if one["was_keys"] is not None:
            old.append(_Counted(one["root_id"], one["project"], _ints(one["was_keys"]), _ints(one["was_counts"])))
    return await asyncio.to_thread(_by_scope, new, old, shared)


def _by_scope(new: Sequence[_Counted], old: Sequence[_Counted], shared: bool) -> dict[str, Sums]:
    changes = {EVERYTHING: Sums.of(new).minus(Sums.of(old))} if shared else {}
    for project in sorted({one.project for one in new} - {EVERYTHING}):
        of_project = [[one for one in some if one.project == project] for some in (new, old)]
        changes[project] = Sums.of(of_project[0]).minus(Sums.of(of_project[1]))
    return changes


async def _anew(conn: Connection, agent: str) -> Summed:
    """Sum all of an agent's digests."""
    await sums.forget(conn, agent)
    rows = await sums.news(conn, agent, every=True)
    by_project: dict[str, list[DigestArrays]] = defaultdict(list)
    for one in rows:
        keys, counts = _ints(one["keys"]), _ints(one["counts"])
        by_project[one["project"]].append(_arrays(one, outcome_of(keys), keys, counts))
    found = Summed(agent, dict(by_project), Names.of({}))
    scopes = {project: digests for project, digests in by_project.items() if project}
    if found.shared:
        scopes[EVERYTHING] = [digest for arrays in by_project.values() for digest in arrays]
    for project, arrays in scopes.items():
        found._sums[project] = await asyncio.to_thread(Sums.of, arrays)
        await sums.save_sums(conn, agent, project, found._sums[project].packed())
    await _learn_names(conn, found, rows)
    await _save_ledger(conn, agent, [{**one, "size": len(one["keys"])} for one in rows])
    await sums.mark(conn, {one.session_id: one.outcome for digests in by_project.values() for one in digests})
    return found


async def _learn_names(conn: Connection, found: Summed, news: Sequence[Row]) -> None:
    """Name what recurs now and did not before, and new symbols, by the terms of the sessions that have them."""
    widest = EVERYTHING if found.shared else next(iter(found.by_project))
    recurring = (await found.sums(conn, widest)).recurring().keys
    symbols = joined([_ints(one["sequence"]) for one in news])
    missing = await asyncio.to_thread(found.names.missing, np.concatenate([recurring, symbols]))
    if not len(missing):
        return
    terms = dict.fromkeys(missing.tolist(), "")  # "": it has no name, and is not asked for again
    sessions = await asyncio.to_thread(_witnesses, news, missing)
    for first in range(0, len(sessions), _AT_ONCE):
        packed = await digests.terms(conn, sessions[first : first + _AT_ONCE])
        await asyncio.to_thread(_take, terms, packed.values())
    parts = await sums.names(conn, found.agent) if len(found.names) else []
    new = await asyncio.to_thread(Names.of, terms)
    found.names = found.names.plus(new)
    whole = not parts or len(parts) >= MOST_PARTS
    part = 0 if whole else parts[-1]["part"] + 1
    await sums.save_names(conn, found.agent, part, (found.names if whole else new).packed())


def _witnesses(news: Sequence[Row], missing: Ints) -> list[str]:
    """Return sessions, each the first to have something of what is missing, that have all of it together."""
    unseen = np.ones(len(missing), np.bool_)
    found = []
    for one in news:
        held = np.concatenate([_ints(one["keys"]), _ints(one["sequence"])])
        at = np.minimum(np.searchsorted(missing, held), len(missing) - 1)
        at = at[(missing[at] == held) & unseen[at]]
        if len(at):
            unseen[at] = False
            found.append(one["session_id"])
    return found


def _take(terms: dict[int, str], packed: Iterable[bytes]) -> None:
    for one in packed:
        for key, text in unpack_terms(one).items():
            if terms.get(key) == "":
                terms[key] = text


async def _save_ledger(conn: Connection, agent: str, places: Iterable[Row]) -> None:
    await sums.save_ledger(conn, agent, version=VERSION, lineage=lineage(map(_place, places)))


def _arrays(one: Row, outcome: int, keys: Ints = NOTHING.keys, counts: Ints = NOTHING.totals) -> DigestArrays:
    """Return a digest as patterns are found in it."""
    sequence, seqs = _ints(one["sequence"]), _ints(one["seqs"])
    place = one["session_id"], one["root_id"], sequence, seqs, keys, counts
    return DigestArrays(*place, last_at=one["last_at"], project=one["project"], outcome=outcome)


def _ints(packed: bytes) -> Ints:
    return np.frombuffer(packed, np.int64)
