"""Sums that are kept from night to night equal sums that are rebuilt, whatever happens to sessions in between."""

from __future__ import annotations

import json
import zlib
from datetime import datetime
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, strategies

from consolidator.database import Connection, Database
from consolidator.jobs.merging import scope_sums
from consolidator.jobs.merging.scope_sums import ALL_PROJECTS, update_sums
from consolidator.memory.procedures.digest import DIGEST_VERSION
from consolidator.models.digest import DigestRow
from consolidator.store.log import sessions
from consolidator.store.memory import digests
from tests.integration.conftest import OpenDatabase
from tests.support import FULL

PROPERTY = settings(
    max_examples=100 if FULL else 12,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
PROJECTS = {"s0": "shop", "s1": "shop", "s2": "shop", "s3": "zoo", "s4": "zoo", "s5": None}
PEERS = {"s3": "ada", "s4": "ada", "s5": "bob"}  # the others have none
SESSION = strategies.sampled_from(sorted(PROJECTS))
Counts = dict[int, int]
COUNTS = strategies.dictionaries(strategies.integers(1, 9), strategies.integers(1, 3), max_size=6)
STEPS = strategies.one_of(
    strategies.tuples(strategies.just("save"), SESSION, COUNTS),  # adds to what it counted before
    strategies.tuples(strategies.just("save"), SESSION, COUNTS),
    strategies.tuples(strategies.just("replace"), SESSION, COUNTS),
    strategies.tuples(strategies.just("erase"), SESSION, strategies.none()),
    strategies.tuples(strategies.just("root"), SESSION, SESSION),
    strategies.tuples(strategies.just("simulate"), SESSION, strategies.booleans()),
    strategies.tuples(strategies.just("merge"), strategies.none(), strategies.none()),
)


def digest_row(session: str, counts: Counts, now: datetime) -> DigestRow:
    """Return a digest with these counts; its sequence is made of the same numbers."""
    keys = sorted(counts)
    terms = {str(key): f'["arg", "tool", "a{key}"]' for key in keys if key != 9}  # the last has no text
    packed_keys = pack_ints(keys)
    return DigestRow(
        session_id=session,
        agent="coder",
        project=PROJECTS[session],
        last_at=now,
        calls=len(keys),
        sequence=packed_keys,
        seqs=packed_keys,
        keys=packed_keys,
        counts=pack_ints([counts[key] for key in keys]),
        terms=zlib.compress(json.dumps(terms).encode()),
        quotes=b"",
        state=b"",
        error_state=b"",
        summary={},
        version=DIGEST_VERSION,
    )


def pack_ints(values: list[int]) -> bytes:
    return np.asarray(values, np.int64).tobytes()


async def save_digest(database: Database, conn: Connection, session: str, counts: Counts) -> None:
    now = database.clock.now()
    columns = {"id": session, "agent": "coder", "project": PROJECTS[session], "peer": PEERS.get(session)}
    await sessions.open_session(conn, columns, now=now)
    await digests.save(conn, [digest_row(session, counts, now)])


async def updated_sums(conn: Connection) -> tuple[Any, dict[int, str | None], Any]:
    """Update the sums; return those of every scope, the texts of recurring keys, and where each session counts."""
    result = await update_sums(conn, "coder")
    scopes = set(result.by_project) - {ALL_PROJECTS} | ({ALL_PROJECTS} if result.has_shared_scope else set())
    sums = {scope: (await result.load(conn, scope)).to_dict() for scope in sorted(scopes)}
    texts = {key: result.texts.text(key) for totals in sums.values() for key, (_, roots) in totals.items() if roots > 1}
    placement = {
        digest.session_id: (digest.root_id, digest.project, digest.outcome)
        for arrays in result.by_project.values()
        for digest in arrays
    }
    return sums, texts, placement


async def scope_sum_rows(conn: Connection) -> Any:
    query = "select agent, project, audience, keys, totals, roots from scope_sum order by 1, 2, 3"
    cursor = await conn.execute(query)
    return [
        (agent, project, counted, *map(bytes, packed)) for agent, project, counted, *packed in await cursor.fetchall()
    ]


@PROPERTY
@given(steps=strategies.lists(STEPS, max_size=25))
async def test_kept_sums_equal_rebuilt_sums(fresh: OpenDatabase, steps: list[tuple[str, Any, Any]]) -> None:
    counted: dict[str, Counts] = {}
    async with fresh() as database, database.transaction() as conn:
        for step, session, more in steps:
            if step in ("save", "replace"):
                before = counted.get(session, {}) if step == "save" else {}
                counted[session] = {key: before.get(key, 0) + more.get(key, 0) for key in before | more}
                await save_digest(database, conn, session, counted[session])
            elif step == "erase":
                counted.pop(session, None)
                await conn.execute("delete from digest where session_id = %s", [session])
            elif step == "root":
                await conn.execute("update session set root_id = %s where id = %s", [more, session])
            elif step == "simulate":
                await conn.execute("update session set simulated = %s where id = %s", [more, session])
            else:
                await updated_sums(conn)
        kept, kept_rows = await updated_sums(conn), await scope_sum_rows(conn)
        assert await updated_sums(conn) == kept  # nothing is added twice
        await conn.execute("delete from agent_sums")
        assert (await updated_sums(conn), await scope_sum_rows(conn)) == (kept, kept_rows)


async def test_a_night_that_only_adds_reads_only_what_is_new(database: Database) -> None:
    async with database.transaction() as conn:
        await save_digest(database, conn, "s0", {1: 1, 2: 1})
        await save_digest(database, conn, "s3", {2: 1})
        await updated_sums(conn)
    with mock.patch.object(scope_sums, "_rebuild", side_effect=AssertionError("rebuilt")):
        async with database.transaction() as conn:
            await save_digest(database, conn, "s1", {1: 1, 9: 2})
            await save_digest(database, conn, "s3", {2: 2, 3: 1})
        async with database.transaction() as conn:
            sums, texts, _ = await updated_sums(conn)
    assert sums[ALL_PROJECTS] == {1: (2, 2), 2: (3, 2), 3: (1, 1), 9: (2, 1)}
    assert texts == {1: '["arg", "tool", "a1"]', 2: '["arg", "tool", "a2"]'}


async def test_texts_stay_few_parts_however_many_nights_add_to_them(database: Database) -> None:
    with mock.patch.object(scope_sums, "MAX_TEXT_PARTS", 3):
        for key in range(1, 9):
            async with database.transaction() as conn:
                for session in ("s0", "s3"):
                    await save_digest(database, conn, session, dict.fromkeys(range(1, key + 1), 1))
                _, texts, _ = await updated_sums(conn)
            assert len(texts) == key
    async with database.connection() as conn:
        assert (await (await conn.execute("select count(*) <= 3 from sum_text")).fetchone()) == (True,)
