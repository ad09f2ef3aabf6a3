"""Candidates and the facts made of them: saying, reconciling, publishing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from consolidator.database.jsonb import escape
from consolidator.database.partitions import Driver
from consolidator.store.memory import jsonb
from consolidator.store.queries import Row, load, row, rows, run, run_each

_SQL = load("facts")
_UNTOLD = dict.fromkeys(("rejected", "quarantined", "valid_from", "valid_to")) | {"generation": 0}


async def save_candidates(conn: Driver, candidates: Sequence[Mapping[str, Any]], *, run_id: str) -> None:
    """Store candidates; one with a `rejected` reason may not become a fact. Those that are there stay as they are."""
    values = [
        {
            **_UNTOLD,
            **{key: escape(value) if isinstance(value, str) else value for key, value in candidate.items()},
            "evidence": jsonb(candidate.get("evidence", [])),
            "run_id": run_id,
        }
        for candidate in candidates
    ]
    await run_each(conn, _SQL["save_candidate"], values)


def refused(session: Row, rejected: Any) -> dict[str, Any]:
    """Return what looked like a fact and may not become one as a candidate with the reason, to be looked up."""
    name = f"{rejected.session_id}\x1f{rejected.seq}\x1f{rejected.predicate}\x1f{rejected.reason}\x1f{rejected.quote}"
    return {
        "id": hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
        "agent": session["agent"],
        "project": session["project"],
        "peer": session["peer"],
        "level": "agent",
        "subject": "",
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


async def news_of_candidates(conn: Driver, agent: str) -> list[Row]:
    """Return every candidate of the subjects and predicates that have news, in order of time."""
    return await rows(conn, _SQL["news_of_candidates"], {"agent": agent})


async def mark_reconciled(conn: Driver, agent: str, ids: Sequence[str]) -> None:
    """Say that facts know these candidates, and that rejected ones are settled."""
    await run(conn, _SQL["reconciled"], {"agent": agent, "ids": list(ids)})
    await run(conn, _SQL["reject_rest"], {"agent": agent})


async def save_fact(conn: Driver, values: dict[str, Any]) -> str | None:
    """Publish one fact; return "added", "changed", or None where nothing is different."""
    found = await row(conn, _SQL["save_fact"], values)
    if found is None:
        return None
    return "added" if found["added"] else "changed"


async def drop_stale(conn: Driver, values: dict[str, Any]) -> int:
    """Drop the facts of the reconciled subjects and predicates that nothing supports any more; return how many."""
    return await run(conn, _SQL["stale_facts"], values)


async def words(conn: Driver, agent: str) -> list[Row]:
    """Return what people told of an agent's memory."""
    return await rows(conn, _SQL["words"], {"agent": agent})


async def bury(conn: Driver, values: Mapping[str, Any]) -> None:
    """End the belief in a fact, and remember not to believe the same again."""
    await run(conn, _SQL["bury"], values)
    await run(conn, _SQL["end_belief"], values)


async def state(conn: Driver, values: Mapping[str, Any]) -> None:
    """Believe what a person says in place of a fact."""
    await run(conn, _SQL["state"], values)


async def quarantined(conn: Driver, *, agent: str | None = None, limit: int = 50) -> list[Row]:
    """Return the candidates that a person has to look at, the latest first."""
    return await rows(conn, _SQL["quarantined"], {"agent": agent, "limit": limit})


async def quarantined_one(conn: Driver, identity: str) -> Row | None:
    """Return a candidate that a person has to look at."""
    return await row(conn, _SQL["quarantined_one"], {"id": identity})


async def settle(conn: Driver, identity: str, *, rejected: str | None) -> None:
    """Let a candidate out of quarantine, or reject it."""
    await run(conn, _SQL["settle"], {"id": identity, "rejected": rejected})
