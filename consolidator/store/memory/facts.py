"""Candidates and the facts made of them: saying, reconciling, publishing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Connection
from consolidator.store.memory.digests import jsonb
from consolidator.store.queries import Row, execute, execute_each, load, row, rows

_SQL = load("memory/facts")
Owner = tuple[str, str]  # level, and the project or peer that it names
Slot = tuple[str, str, str, str]  # level, project or peer, subject, predicate
_UNTOLD = dict.fromkeys(("rejected", "quarantined", "valid_from", "valid_to")) | {"generation": 0, "active": True}


async def save_candidates(
    conn: Connection, candidates: Sequence[Mapping[str, Any]], *, run_id: str, active: bool = True
) -> None:
    """Store candidates; one with a `rejected` reason may not become a fact. Those that are there stay as they are.

    The caller holds their sessions, so that none is being erased. Those of a draft are not `active`: no fact is made of
    them before it is promoted.
    """
    values = [
        {
            **_UNTOLD,
            **{key: escape(value) if isinstance(value, str) else value for key, value in candidate.items()},
            "evidence": jsonb(candidate.get("evidence", [])),
            "run_id": run_id,
            "active": active,
        }
        for candidate in candidates
    ]
    await execute_each(conn, _SQL["save_candidate"], values)


def refused(session: Row, rejected: Any) -> dict[str, Any]:
    """Return what looked like a fact and may not become one as a candidate with the reason, to be looked up."""
    name = f"{rejected.session_id}\x1f{rejected.seq}\x1f{rejected.predicate}\x1f{rejected.reason}\x1f{rejected.quote}"
    return {
        "id": hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        "agent": session["agent"],
        "project": session["project"],
        "peer": session["peer"],
        "level": "agent",
        "subject": rejected.subject,
        "predicate": rejected.predicate,
        "value": "",
        "sentence": rejected.quote,
        "kind": "rejected",
        "confidence": "explicit",
        "trust": "user",
        "session_id": rejected.session_id,
        "seq": rejected.seq,
        "occurred_at": session["last_occurred_at"],
        "quote": rejected.quote,
        "extractor": rejected.extractor,
        "single_valued": False,
        "rejected": rejected.reason,
    }


async def news(conn: Connection, agent: str) -> list[Row]:
    """Return and lock the candidates that facts do not know of yet, or know otherwise."""
    return await rows(conn, _SQL["news"], {"agent": agent})


async def candidates_of(conn: Connection, agent: str, slots: Sequence[Slot]) -> list[Row]:
    """Return every candidate that counts for some slots, in order of time."""
    return await rows(conn, _SQL["candidates_of"], {"agent": agent, **_columns(slots)})


def _columns(slots: Sequence[Slot]) -> dict[str, list[str]]:
    names = ("levels", "owners", "subjects", "predicates")
    return {name: [slot[place] for slot in slots] for place, name in enumerate(names)}


async def undecided(conn: Connection, agent: str, limit: int) -> list[Row]:
    """Return what a model read and nobody has compared with what is believed, the oldest first."""
    return await rows(conn, _SQL["undecided"], {"agent": agent, "limit": limit})


async def slotmates(conn: Connection, agent: str, asked: Mapping[str, Slot]) -> list[tuple[str, str]]:
    """Return (candidate, fact) for the facts of each candidate's own slot."""
    values = {"agent": agent, "ids": list(asked), **_columns(list(asked.values()))}
    return [(one["candidate"], one["fact"]) for one in await rows(conn, _SQL["slotmates"], values)]


async def forgotten(conn: Connection, agent: str, owners: Sequence[Owner]) -> dict[Owner, list[str]]:
    """Return the facts that a person does not want believed, by whose they are."""
    values = {"agent": agent, "levels": [level for level, _ in owners], "owners": [owner for _, owner in owners]}
    found: dict[Owner, list[str]] = {}
    for one in await rows(conn, _SQL["forgotten"], values):
        found.setdefault((one["level"], one["owner"]), []).append(one["fact"])
    return found


async def known(conn: Connection, ids: Sequence[str]) -> dict[str, Row]:
    """Return facts by id, as candidates are compared with them; without those that are being decided themselves."""
    return {one["id"]: one for one in await rows(conn, _SQL["known"], {"ids": list(ids)})}


async def published(conn: Connection, agent: str, slots: Sequence[Slot]) -> dict[str, Row]:
    """Return the facts of some slots by id."""
    return {one["id"]: one for one in await rows(conn, _SQL["published"], {"agent": agent, **_columns(slots)})}


async def decide(conn: Connection, decisions: Sequence[Mapping[str, Any]]) -> int:
    """Write down decisions; those whose candidate is decided, or whose target is gone meanwhile, change nothing."""
    return await execute_each(conn, _SQL["decide"], decisions)


async def mark_reconciled(conn: Connection, agent: str, ids: Sequence[str]) -> None:
    """Say that facts know these candidates."""
    await execute(conn, _SQL["reconciled"], {"agent": agent, "ids": list(ids)})


async def save_fact(conn: Connection, values: dict[str, Any]) -> str | None:
    """Publish one fact; return "added", "changed", or None where nothing is different."""
    found = await row(conn, _SQL["save_fact"], values)
    if found is None:
        return None
    return "added" if found["added"] else "changed"


async def drop_stale(conn: Connection, agent: str, slots: Sequence[Slot], kept: Sequence[str], now: datetime) -> int:
    """Drop the facts of the reconciled slots that nothing supports any more; return how many.

    Those whose evidence counts for another fact now keep their history.
    """
    values = {"agent": agent, "kept": list(kept), "now": now, **_columns(slots)}
    await execute(conn, _SQL["outdated_facts"], values)
    return await execute(conn, _SQL["stale_facts"], values)


async def words(conn: Connection, agent: str) -> list[Row]:
    """Return what people told of an agent's memory."""
    return await rows(conn, _SQL["words"], {"agent": agent})


async def bury(conn: Connection, values: Mapping[str, Any]) -> None:
    """End the belief in a fact, and remember not to believe the same again."""
    await execute(conn, _SQL["bury"], values)
    await execute(conn, _SQL["end_belief"], values)


async def state(conn: Connection, values: Mapping[str, Any]) -> None:
    """Believe what a person says in place of a fact."""
    await execute(conn, _SQL["state"], values)


async def quarantined(conn: Connection, *, agent: str | None = None, limit: int = 50) -> list[Row]:
    """Return the candidates that a person has to look at, the latest first."""
    return await rows(conn, _SQL["quarantined"], {"agent": agent, "limit": limit})


async def quarantined_one(conn: Connection, identity: str) -> Row | None:
    """Return a candidate that a person has to look at."""
    return await row(conn, _SQL["quarantined_one"], {"id": identity})


async def settle_quarantine(conn: Connection, identity: str, *, rejected: str | None) -> bool:
    """Let a candidate out of quarantine, or reject it; False where it does not wait for a person any more."""
    return bool(await execute(conn, _SQL["settle"], {"id": identity, "rejected": rejected}))
