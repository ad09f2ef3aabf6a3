"""Sums that are kept from night to night are those of summing anew, whatever becomes of the sessions in between."""

from __future__ import annotations

import json
import zlib
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, strategies

from consolidator.database import Connection, Database
from consolidator.jobs.consolidation import scope_sums
from consolidator.jobs.consolidation.scope_sums import EVERYTHING, summed
from consolidator.memory.procedures.digest import VERSION
from consolidator.store.log import sessions
from consolidator.store.memory import digests
from consolidator.store.queries import Row
from tests.integration.conftest import Fresh
from tests.support import FULL

PROPERTY = settings(
    max_examples=100 if FULL else 12,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
PROJECTS = {"s0": "shop", "s1": "shop", "s2": "shop", "s3": "zoo", "s4": "zoo", "s5": None}
SESSION = strategies.sampled_from(sorted(PROJECTS))
Counts = dict[int, int]
COUNTS = strategies.dictionaries(strategies.integers(1, 9), strategies.integers(1, 3), max_size=6)
STEPS = strategies.one_of(
    strategies.tuples(strategies.just("save"), SESSION, COUNTS),  # what it counted before stays
    strategies.tuples(strategies.just("save"), SESSION, COUNTS),
    strategies.tuples(strategies.just("replace"), SESSION, COUNTS),
    strategies.tuples(strategies.just("erase"), SESSION, strategies.none()),
    strategies.tuples(strategies.just("root"), SESSION, SESSION),
    strategies.tuples(strategies.just("simulate"), SESSION, strategies.booleans()),
    strategies.tuples(strategies.just("merge"), strategies.none(), strategies.none()),
)


def digest(session: str, counts: Counts) -> Row:
    """Return a digest row with these counts; its sequence is made of the same numbers."""
    keys = sorted(counts)
    arrays = {"keys": keys, "counts": [counts[key] for key in keys], "sequence": keys, "seqs": keys}
    terms = {str(key): f'["arg", "tool", "a{key}"]' for key in keys if key != 9}  # nobody can name the last
    return {
        **{name: np.asarray(values, np.int64).tobytes() for name, values in arrays.items()},
        "terms": zlib.compress(json.dumps(terms).encode()),
        **dict.fromkeys(("quotes", "state", "folds"), b""),
        "session": session,
        "agent": "coder",
        "project": PROJECTS[session],
        "calls": len(keys),
        "version": VERSION,
        "summary": {},
    }


async def save(database: Database, conn: Connection, session: str, counts: Counts) -> None:
    now = database.clock.now()
    columns = {"id": session, "agent": "coder", "project": PROJECTS[session]}
    await sessions.open_session(conn, columns, now=now)
    await digests.save_digests(conn, [{**digest(session, counts), "last_at": now}])


async def state(conn: Connection) -> Any:
    """Return the sums of every scope, and the names of what recurs."""
    found = await summed(conn, "coder")
    scopes = set(found.by_project) - {EVERYTHING} | ({EVERYTHING} if found.shared else set())
    told = {scope: (await found.sums(conn, scope)).told() for scope in sorted(scopes)}
    names = {key: found.names.text(key) for sums in told.values() for key, (_, roots) in sums.items() if roots > 1}
    places = {
        one.session_id: (one.root_id, one.project, one.outcome) for some in found.by_project.values() for one in some
    }
    return told, names, places


async def stored(conn: Connection) -> Any:
    cursor = await conn.execute("select agent, project, keys, totals, roots from scope_sum order by 1, 2")
    return [(agent, project, *map(bytes, packed)) for agent, project, *packed in await cursor.fetchall()]


@PROPERTY
@given(steps=strategies.lists(STEPS, max_size=25))
async def test_kept_sums_are_those_of_summing_anew(fresh: Fresh, steps: list[tuple[str, Any, Any]]) -> None:
    counted: dict[str, Counts] = {}
    async with fresh() as database, database.transaction() as conn:
        for what, session, more in steps:
            if what in ("save", "replace"):
                before = counted.get(session, {}) if what == "save" else {}
                counted[session] = {key: before.get(key, 0) + more.get(key, 0) for key in before | more}
                await save(database, conn, session, counted[session])
            elif what == "erase":
                counted.pop(session, None)
                await conn.execute("delete from digest where session_id = %s", [session])
            elif what == "root":
                await conn.execute("update session set root_id = %s where id = %s", [more, session])
            elif what == "simulate":
                await conn.execute("update session set simulated = %s where id = %s", [more, session])
            else:
                await state(conn)
        kept, kept_rows = await state(conn), await stored(conn)
        assert await state(conn) == kept  # nothing is added twice
        await conn.execute("delete from summed")
        assert (await state(conn), await stored(conn)) == (kept, kept_rows)


async def test_a_night_that_only_adds_reads_only_what_is_new(database: Database) -> None:
    async with database.transaction() as conn:
        await save(database, conn, "s0", {1: 1, 2: 1})
        await save(database, conn, "s3", {2: 1})
        await state(conn)
    with mock.patch.object(scope_sums, "_anew", side_effect=AssertionError("summed anew")):
        async with database.transaction() as conn:
            await save(database, conn, "s1", {1: 1, 9: 2})
            await save(database, conn, "s3", {2: 2, 3: 1})
        async with database.transaction() as conn:
            told, names, _ = await state(conn)
    assert told[EVERYTHING] == {1: (2, 2), 2: (3, 2), 3: (1, 1), 9: (2, 1)}
    assert names == {1: '["arg", "tool", "a1"]', 2: '["arg", "tool", "a2"]'}


async def test_names_stay_few_parts_however_many_nights_add_to_them(database: Database) -> None:
    with mock.patch.object(scope_sums, "MOST_PARTS", 3):
        for key in range(1, 9):
            async with database.transaction() as conn:
                for session in ("s0", "s3"):
                    await save(database, conn, session, dict.fromkeys(range(1, key + 1), 1))
                _, names, _ = await state(conn)
            assert len(names) == key
    async with database.connection() as conn:
        assert (await (await conn.execute("select count(*) <= 3 from summed_name")).fetchone()) == (True,)
