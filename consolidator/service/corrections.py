"""What a person tells memory: forget this, it is rather so, this may be believed. Nothing is deleted by it."""

from __future__ import annotations

from typing import Any

from consolidator.database import Connection, Database
from consolidator.database.jsonb import escape
from consolidator.errors import NotFound, UsageError
from consolidator.jobs.consolidation.changes import Changes
from consolidator.jobs.consolidation.reconciling import reconcile_agent
from consolidator.jobs.indexing.indexer import index_facts
from consolidator.llm.redaction.redact import redact
from consolidator.memory.facts.corrections import FORGOTTEN, correction_id
from consolidator.memory.facts.reconcile import normal
from consolidator.store.memory import digests, facts, lookup
from consolidator.store.queries import Row

LONGEST = 400  # characters of a correction


async def forget(database: Database, identity: str) -> Row:
    """End the belief in a fact for good: what says the same again is not believed; its history stays."""
    async with database.transaction() as conn:
        fact = await _fact(conn, identity)
        await _buried(conn, database, fact, by=FORGOTTEN)
        await index_facts(conn, fact["agent"], [identity])
        return await _fact(conn, identity)


async def correct(database: Database, identity: str, text: str) -> Row:
    """Put a person's sentence in place of a fact; no other evidence outranks it. Returns the new fact."""
    said = redact(" ".join(text.split()))
    if not said or len(said) > LONGEST:
        raise UsageError(f"a correction is a sentence of at most {LONGEST} characters")
    async with database.transaction() as conn:
        fact = await _fact(conn, identity)
        new = correction_id(fact, said)
        if new == identity or said == fact["sentence"]:
            return fact
        await _buried(conn, database, fact, by=new)
        await facts.state(conn, {**fact, "new": new, "sentence": escape(said), "now": database.clock.now()})
        await index_facts(conn, fact["agent"], [identity, new])
        return await _fact(conn, new)


async def review(database: Database, identity: str, *, accept: bool) -> Row:
    """Let a candidate in quarantine be believed, or reject it for good; raise NotFound where none has that id."""
    waits_not = NotFound(f"nothing in quarantine is called {identity!r}; `consolidator facts review` lists it")
    async with database.transaction() as conn:
        found = await facts.quarantined_one(conn, identity)
        if found is None:
            raise waits_not
        await digests.lock_agent(conn, found["agent"])
        if not await facts.settle_quarantine(conn, identity, rejected=None if accept else "rejected by a person"):
            raise waits_not
        stamp: dict[str, Any] = {"run_id": "review", "now": database.clock.now()}
        await reconcile_agent(conn, found["agent"], stamp, Changes())
    return found


async def _fact(conn: Connection, identity: str) -> Row:
    """Lock a fact's agent and return the fact, which may have changed or gone while we waited."""
    await digests.lock_agent(conn, (await _found(conn, identity))["agent"])
    return await _found(conn, identity)


async def _found(conn: Connection, identity: str) -> Row:
    found = await lookup.explained(conn, identity)
    if found is None or found[0] != "fact":
        raise NotFound(f"no fact is called {identity!r}; `consolidator facts` lists them")
    return found[1]


async def _buried(conn: Connection, database: Database, fact: Row, *, by: str) -> None:
    """Believe a fact no longer, nor what says the same later."""
    values = {**fact, "value": normal(fact["value"]), "predicate": normal(fact["predicate"]), "by": by}
    await facts.bury(conn, {**values, "now": database.clock.now()})
