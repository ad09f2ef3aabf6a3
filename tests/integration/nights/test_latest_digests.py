"""A scope is learned from its latest digests: however it came about, the same digests teach the same."""

from __future__ import annotations

import json
import zlib
from datetime import timedelta
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies

from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.jobs.merging import procedure_merge
from consolidator.jobs.merging.agent_merge import merge_agent
from consolidator.memory.procedures.digest import DIGEST_VERSION
from consolidator.memory.procedures.key_counts import hash_key, hash_text
from consolidator.models.digest import DigestRow
from consolidator.settings import Settings
from consolidator.store.calls import digests, scopes
from consolidator.store.sessions import sessions
from tests.integration.conftest import OpenDatabase
from tests.nights import query_rows
from tests.support import FULL

pytestmark = pytest.mark.usefixtures("agents_apart")

PROPERTY = settings(
    max_examples=100 if FULL else 10,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
PROJECTS = {"s0": "shop", "s1": "shop", "s2": "shop", "s3": "zoo", "s4": "zoo", "s5": None, "s6": "zoo", "s7": "shop"}
PEERS = {"s3": "ada", "s4": "ada", "s5": "bob", "s6": "ada"}  # the others have none
TOOLS = ("look", "book", "pay", "mail")
SESSION = strategies.sampled_from(sorted(PROJECTS))
CALLS = strategies.lists(strategies.sampled_from(TOOLS), min_size=2, max_size=6)
STEPS = strategies.one_of(
    strategies.tuples(strategies.just("save"), SESSION, CALLS),  # adds to what it did before
    strategies.tuples(strategies.just("save"), SESSION, CALLS),
    strategies.tuples(strategies.just("replace"), SESSION, CALLS),
    strategies.tuples(strategies.just("erase"), SESSION, strategies.none()),
    strategies.tuples(strategies.just("root"), SESSION, SESSION),
    strategies.tuples(strategies.just("merge"), strategies.none(), strategies.none()),
)


def digest_row(session: str, calls: list[str], project: str | None, number: int, database: Database) -> DigestRow:
    """Return the digest of a session with these calls, in which each tool gets its own argument."""
    texts = {hash_text(tool): tool for tool in calls}
    counts: dict[int, int] = {}
    for tool in calls:
        for key in (("tool", tool, tool), ("step", tool), ("arg", tool, "id"), ("const", tool, "id", f"of {tool}")):
            hashed = hash_key(key)
            texts[hashed] = json.dumps(key)
            counts[hashed] = counts.get(hashed, 0) + 1
    keys = sorted(counts)
    return DigestRow(
        session_id=session,
        agent="coder",
        project=project,
        last_at=database.clock.now() + timedelta(minutes=number),
        calls=len(calls),
        sequence=pack_ints([hash_text(tool) for tool in calls]),
        seqs=pack_ints(list(range(1, len(calls) + 1))),
        keys=pack_ints(keys),
        counts=pack_ints([counts[key] for key in keys]),
        terms=zlib.compress(json.dumps({str(key): text for key, text in texts.items()}).encode()),
        quotes=zlib.compress(json.dumps(calls).encode()),
        state=b"",
        error_state=b"",
        summary={},
        version=DIGEST_VERSION,
    )


def pack_ints(values: list[int]) -> bytes:
    return np.asarray(values, np.int64).tobytes()


async def save_digest(
    database: Database, conn: Connection, session: str, calls: list[str], number: int = 0, peer: str | None = None
) -> None:
    """Store a digest as a night does, whose last event happened `number` minutes from now."""
    project = PROJECTS.get(session, "shop")
    columns = {"id": session, "agent": "coder", "project": project, "peer": PEERS.get(session, peer)}
    await sessions.open_session(conn, columns, now=database.clock.now())
    await digests.save(conn, [digest_row(session, calls, project, number, database)])
    await scopes.touch(conn, await scopes.list_of_sessions(conn, [session]))


async def merge(database: Database, conn: Connection, settings: Settings) -> None:
    await merge_agent(conn, "coder", run_id="night", now=database.clock.now(), settings=settings)


async def published(conn: Connection) -> Any:
    procedures = await conn.execute(
        "select id, project, audience, support, body from procedure where retired_at is null order by id"
    )
    profiles = await conn.execute("select project, audience, tool, body from tool_profile order by 1, 2, 3")
    withheld = await conn.execute("select id, project, audience, support, body from withheld_procedure order by id")
    return await procedures.fetchall(), await profiles.fetchall(), await withheld.fetchall()


@PROPERTY
@given(steps=strategies.lists(STEPS, max_size=30), size=strategies.sampled_from([2, 3, 5, 2000]))
async def test_what_nights_publish_equals_what_is_published_anew(
    fresh: OpenDatabase, tmp_path_factory: Any, steps: list[tuple[str, Any, Any]], size: int
) -> None:
    night_settings = Settings(home=tmp_path_factory.getbasetemp(), min_support=2)
    done: dict[str, list[str]] = {}
    with mock.patch.object(digests, "MAX_SESSIONS", size):
        async with fresh() as database, database.transaction() as conn:
            for number, (step, session, more) in enumerate(steps):
                if step in ("save", "replace"):
                    done[session] = [*(done.get(session, []) if step == "save" else []), *more]
                    await save_digest(database, conn, session, done[session], number)
                elif step == "merge":
                    await merge(database, conn, night_settings)
                elif session in done:
                    before = await scopes.list_of_sessions(conn, [session])
                    if step == "erase":
                        del done[session]
                        await conn.execute("delete from digest where session_id = %s", [session])
                    elif more in done:
                        await conn.execute("update session set root_id = %s where id = %s", [more, session])
                        await save_digest(database, conn, session, done[session], number)
                    await scopes.touch(conn, before)
            await merge(database, conn, night_settings)
            nightly = await published(conn)
            for table in ("procedure", "withheld_procedure", "tool_profile", "scope_state", "merged_agent"):
                await conn.execute(f"delete from {table}")
            await conn.execute("update scope set merged = 0")
            await merge(database, conn, night_settings)
            assert await published(conn) == nightly


async def test_only_the_latest_sessions_of_a_scope_teach(database: Database, settings: Settings) -> None:
    with mock.patch.object(digests, "MAX_SESSIONS", 4):
        async with database.transaction() as conn:
            for number in range(4):
                await save_digest(database, conn, f"old{number}", ["look", "book"], number)
            await merge(database, conn, settings)
            assert await list_support(conn) == {("look", "book"): 4}
            for number in range(4, 7):
                await save_digest(database, conn, f"new{number}", ["pay", "mail"], number)
            await merge(database, conn, settings)
            assert await list_support(conn) == {("pay", "mail"): 3}
            await conn.execute("delete from digest where session_id in ('new4', 'new5')")
            await scopes.touch(conn, await scopes.list_of_sessions(conn, ["new4", "new5"]))
            await merge(database, conn, settings)
            assert await list_support(conn) == {("look", "book"): 3}  # the older ones are among the latest again


async def list_support(conn: Connection) -> dict[tuple[str, ...], int]:
    cursor = await conn.execute("select body, support from procedure where retired_at is null")
    return {tuple(step["symbol"] for step in body["steps"]): support for body, support in await cursor.fetchall()}


async def test_sessions_are_read_until_they_have_calls_enough(database: Database) -> None:
    async with database.transaction() as conn:
        for number, calls in enumerate((3, 3, 100, 3)):
            await save_digest(database, conn, f"x{number}", ["look", "book"] * calls, number)
        read = []
        for most in (1, 6, 7, 206, 207):
            with mock.patch.object(digests, "MAX_CALLS", most):
                latest = await digests.list_latest(conn, "coder", None, None)
                read.append([digest.session_id for digest in latest])
    assert read == [["x3"], ["x3"], ["x3", "x2"], ["x3", "x2"], ["x3", "x2", "x1"]]


async def test_a_person_is_learned_from_however_busy_others_are(database: Database, settings: Settings) -> None:
    with mock.patch.object(digests, "MAX_SESSIONS", 4):
        async with database.transaction() as conn:
            for number in range(3):
                await save_digest(database, conn, f"a{number}", ["look", "book"], number, "ada")
            for number in range(3, 9):
                await save_digest(database, conn, f"b{number}", ["pay", "mail"], number, "bob")
            await merge(database, conn, settings)
            cursor = await conn.execute("select distinct audience, support from procedure order by 1")
            assert await cursor.fetchall() == [("all", 4), ("own:ada", 3), ("own:bob", 4)]


async def test_what_is_kept_of_a_scope_does_not_grow_with_its_history(database: Database, settings: Settings) -> None:
    sizes = []
    with mock.patch.object(digests, "MAX_SESSIONS", 3):
        for night in range(4):
            async with database.transaction() as conn:
                for number in range(3):
                    tools = [f"look{night}", f"book{night}"]
                    await save_digest(database, conn, f"n{night}{number}", tools, 10 * night + number)
                await merge(database, conn, settings)
                cursor = await conn.execute("select length(keys) from scope_state where project = 'shop'")
                sizes.append((await cursor.fetchone() or [0])[0])
    assert sizes[0] > 0
    assert set(sizes) == {sizes[0]}


async def test_two_projects_share_a_procedure_and_part_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """What is shared is not published for each project, too, though only one of them has news."""

    async def add(session: str, project: str, calls: list[str], number: int) -> None:
        with mock.patch.dict(PROJECTS, {session: project}):
            await save_digest(database, conn, session, calls, number)

    with mock.patch.object(digests, "MAX_SESSIONS", 6):
        async with database.transaction() as conn:
            for number in range(3):
                await add(f"a{number}", "shop", ["look", "book"], number)
            await add("b0", "zoo", ["pay", "mail"], 3)
            await merge(database, conn, settings)
            assert await list_places(conn) == ["shop"]
            await add("b1", "zoo", ["look", "book"], 4)
            learned = await merge_counting(database, conn, settings)
            assert learned == ["", "zoo"]  # what the shop has in common with the zoo is withheld as it was learned
            assert await list_places(conn) == [None]
            for number in range(6):
                await add(f"c{number}", "lab", ["mail", "look"], 5 + number)
            learned = await merge_counting(database, conn, settings)
            assert learned == ["", "lab"]
            assert await list_places(conn) == ["lab", "shop"]
    assert await query_rows(database, "select 1 from scope where version > merged") == []


async def merge_counting(database: Database, conn: Connection, settings: Settings) -> list[str]:
    """Merge, and return the projects that were learned, "" for all together."""
    with mock.patch.object(procedure_merge, "learn_scope", wraps=procedure_merge.learn_scope) as learn:
        await merge(database, conn, settings)
    return [call.args[2] for call in learn.call_args_list]


async def list_places(conn: Connection) -> list[str | None]:
    cursor = await conn.execute("select distinct project from procedure where retired_at is null order by 1")
    return [project for (project,) in await cursor.fetchall()]
