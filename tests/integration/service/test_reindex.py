"""Rebuilding recall's index: the result is the same, whatever had happened to it and whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Connection, Database
from consolidator.errors import Interrupted
from consolidator.jobs.indexing import indexer
from consolidator.jobs.indexing.reindex import Reindexing
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.recall import recall
from consolidator.settings import Settings
from consolidator.store.search import index
from consolidator.store.search import vectors as stored_vectors
from consolidator.testing import ModelServer
from tests.integration.locks import wait_for_lock
from tests.nights import query_number, query_rows, run_next_night
from tests.support import log_events, user_message

SAYINGS = {
    "one": ["From now on, always use tabs for indentation.", "The heron nests at the mill.", "!?"],
    "two": ["My favourite editor is Helix.", "Our bakery opens at six.", "パン屋は六時に開きます。"],
    "three": ["The violin needs new strings.", "Call me Ada, please."],
}
SUMS = (
    "select scope, agent, project, peer, sum(turns)::int as turns, sum(turn_words)::int as turn_words, "
    "sum(facts)::int as facts, sum(fact_words)::int as fact_words from corpus "
    "group by scope, agent, project, peer having sum(turns) + sum(facts) > 0 order by scope"
)


async def load_index(database: Database) -> tuple[list[Any], list[Any]]:
    """Return everything that is in the index."""
    return await query_rows(database, "select * from posting order by word, scope, ref"), await query_rows(
        database, SUMS
    )


async def log_sayings(database: Database, *names: str) -> None:
    for name in names:
        await log_events(database, name, [user_message(text) for text in SAYINGS[name]], project="shop", peer="ada")


def create_reindexing(database: Database, settings: Settings, *, vectors: bool = False, **more: Any) -> Reindexing:
    alone = settings.model_copy(update={"workers": 1})
    return Reindexing(database, alone, vectors=vectors, **more)


async def test_an_index_in_ruins_becomes_what_it_was(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_sayings(database, *SAYINGS)
    await run_next_night(database, clock, settings)
    before = await load_index(database)
    await query_rows(database, "delete from posting where word % 3 = 0 returning word")
    await query_rows(database, "insert into posting values (1, 2, 3), (4, 5, 6) returning word")
    await query_rows(database, "update corpus set turns = turns + 7, facts = 0 returning id")
    seen: list[str] = []
    report = await create_reindexing(
        database, settings, started=lambda units: seen.append(f"{units} units"), progress=seen.append
    ).run()
    assert seen[0] == f"{len(seen) - 1} units"
    assert await load_index(database) == before
    assert (report["status"], report["turns"]) == ("done", 7)
    assert report["facts"] == await query_number(database, "select count(*) from fact where superseded_at is null")
    assert (await recall(database, "heron", settings=settings)).items[0].citation == "[one:2]"


async def test_the_night_after_an_upgrade_rebuilds_what_was_indexed_by_other_words(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_sayings(database, *SAYINGS)
    await run_next_night(database, clock, settings)
    assert await query_number(database, "select count(*) from run where job = 'reindex'") == 0
    before = await load_index(database)
    await query_rows(database, "update posting set word = word + 1 returning word")  # as other stems would be
    await query_rows(database, "update indexed_fact set text = 'as it was' returning id")
    await query_rows(database, "delete from setting where name = 'index_version' returning name")
    assert not (await recall(database, "heron", settings=settings)).items
    await run_next_night(database, clock, settings)
    assert (await load_index(database))[1] == before[1]
    assert (await recall(database, "heron", settings=settings)).items[0].citation == "[one:2]"
    assert [item.kind for item in (await recall(database, "indentation tabs", settings=settings)).items[:2]]
    await run_next_night(database, clock, settings)
    assert await query_number(database, "select count(*) from run where job = 'reindex'") == 1


async def test_what_was_cut_short_goes_on_from_there(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_sayings(database, *SAYINGS)
    await run_next_night(database, clock, settings)
    before, stop = await load_index(database), asyncio.Event()
    before_stop: list[str] = []
    after_stop: list[str] = []

    def stop_after_one(name: str) -> None:
        before_stop.append(name)
        if name == "turn_index one":
            stop.set()

    with pytest.raises(Interrupted):
        await create_reindexing(database, settings, stop=stop, progress=stop_after_one).run()
    assert await load_index(database) != before
    await create_reindexing(database, settings, progress=after_stop.append).run()
    assert set(before_stop) & set(after_stop) == set()
    assert await load_index(database) == before
    assert [row["status"] for row in await query_rows(database, "select status from run where job = 'reindex'")] == [
        "done"
    ]


async def test_what_comes_and_goes_meanwhile_is_counted_once(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_sayings(database, "one", "two")
    await run_next_night(database, clock, settings)
    stop = asyncio.Event()

    def until_facts(_name: str) -> None:
        stop.set()

    with pytest.raises(Interrupted):  # the turns of both are missing, the facts are back
        await create_reindexing(database, settings, stop=stop, progress=until_facts).run()
    await log_sayings(database, "three")
    await log_events(database, "two", [user_message("The bakery closes at noon.")], project="shop", peer="ada")
    await run_next_night(database, clock, settings)
    await erase_sessions(database, settings, await plan_erasure(database, session="one"), reason="asked to")
    await create_reindexing(database, settings).run()
    after = await load_index(database)
    assert sum(scope["turns"] for scope in after[1]) == 6
    await create_reindexing(database, settings).run()
    assert await load_index(database) == after


async def test_another_start_from_the_beginning_gives_up_what_was_cut_short(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_sayings(database, "one")
    await run_next_night(database, clock, settings)
    stop = asyncio.Event()
    stop.set()
    with pytest.raises(Interrupted):
        await create_reindexing(database, settings, stop=stop).run()
    await create_reindexing(database, settings, vectors=True).run()
    result = await query_rows(database, "select status, error from run where job = 'reindex' order by status")
    assert [row["status"] for row in result] == ["done", "failed"]
    assert result[1]["error"].startswith("replaced by run ")


async def test_turns_that_belong_to_another_scope_now_are_found_there(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_sayings(database, "one")
    await run_next_night(database, clock, settings)
    await query_rows(database, "update session set peer = 'ben' returning id")
    assert not (await recall(database, "heron", MemoryScope(peer="ben"), settings=settings)).items
    await create_reindexing(database, settings).run()
    assert (await recall(database, "heron", MemoryScope(peer="ben"), settings=settings)).items
    await erase_sessions(database, settings, await plan_erasure(database, session="one"), reason="asked to")
    assert await query_number(database, "select count(*) from posting") == 0


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as result:
        yield result


@pytest.mark.usefixtures("pgvector")
async def test_vectors_are_kept_unless_they_are_to_be_made_anew(
    database: Database, clock: FrozenClock, settings: Settings, server: ModelServer
) -> None:
    vectored = settings.model_copy(update={"embed_model": "small-vectors", "openai_base_url": server.url})
    await log_sayings(database, "one")
    await run_next_night(database, clock, vectored)
    count = sum(map(len, server.embedded_texts))
    await query_rows(
        database, "insert into embedding values ('turn', 12345, 1, 'small-vectors', '{1}') returning number"
    )
    assert (await create_reindexing(database, vectored).run())["vectors"] == "0 made"
    assert await query_number(database, "select count(*) from embedding") == count
    assert (await create_reindexing(database, vectored, vectors=True).run())["vectors"] == f"{count} made"
    assert sum(map(len, server.embedded_texts)) == 2 * count
    assert await query_number(database, "select count(*) from model_call where purpose = 'embed'") >= 2


@pytest.mark.usefixtures("pgvector")
async def test_who_is_stopped_over_the_vectors_alone_does_not_keep_the_nights_from_deciding(
    database: Database, clock: FrozenClock, settings: Settings, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectored = settings.model_copy(update={"embed_model": "small-vectors", "openai_base_url": server.url})
    await log_sayings(database, "one")
    await run_next_night(database, clock, settings)
    stop, save_vectors = asyncio.Event(), stored_vectors.save_vectors

    async def save_and_stop(*arguments: Any) -> None:
        await save_vectors(*arguments)
        stop.set()

    async def is_rebuilding() -> bool:
        async with database.connection() as conn:
            return await index.is_rebuilding(conn)

    async def check_and_restore(*arguments: Any) -> None:
        assert await is_rebuilding()
        await restore_turns(*arguments)

    restore_turns = indexer.restore_turns
    monkeypatch.setattr("consolidator.jobs.indexing.reindex.restore_turns", check_and_restore)
    monkeypatch.setattr(stored_vectors, "save_vectors", save_and_stop)
    with pytest.raises(Interrupted, match="all words are indexed again"):
        await create_reindexing(database, vectored, stop=stop).run()
    assert not await is_rebuilding()


async def test_long_sessions_are_put_back_in_batches(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_sayings(database, *SAYINGS)
    await run_next_night(database, clock, settings)
    before = await load_index(database)
    monkeypatch.setattr(indexer, "BATCH_SIZE", 1)
    await create_reindexing(database, settings).run()
    assert await load_index(database) == before


async def test_a_night_between_its_turns_and_their_words_is_not_lost(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_sayings(database, "one")
    await run_next_night(database, clock, settings)
    stored, resume, add_postings = asyncio.Event(), asyncio.Event(), index.add_postings

    async def wait_and_add(conn: Connection, added: Any) -> None:
        stored.set()
        await resume.wait()
        await add_postings(conn, added)

    await log_events(database, "late", [user_message("The lighthouse is red.")], project="shop", peer="ada")
    monkeypatch.setattr(index, "add_postings", wait_and_add)
    night = asyncio.create_task(run_next_night(database, clock, settings))
    await stored.wait()
    rebuilding = asyncio.create_task(create_reindexing(database, settings).run())
    await wait_for_lock(database)  # the night has the agent
    resume.set()
    await night
    await rebuilding
    after = await load_index(database)
    assert (await recall(database, "lighthouse", settings=settings)).items
    await create_reindexing(database, settings).run()
    assert await load_index(database) == after


async def test_who_writes_the_index_is_waited_for(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_sayings(database, "one", "two")
    await run_next_night(database, clock, settings)
    before = await load_index(database)
    async with database.transaction() as conn:
        while await indexer.forget_turns(conn, "coder", "two"):
            pass
        rebuilding = asyncio.create_task(create_reindexing(database, settings).run())
        await wait_for_lock(database)
    await rebuilding
    assert sum(scope["turns"] for scope in before[1]) - sum(s["turns"] for s in (await load_index(database))[1]) == 3
    assert not (await recall(database, "bakery", settings=settings)).items


async def test_who_takes_turns_out_waits_until_they_are_back(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_sayings(database, "one")
    await run_next_night(database, clock, settings)
    async with database.transaction() as conn:
        await index.clear(conn, vectors=False)
    async with database.transaction() as conn:
        await indexer.restore_turns(conn, "one")
        erasing = asyncio.create_task(
            erase_sessions(database, settings, await plan_erasure(database, session="one"), reason="asked to")
        )
        await wait_for_lock(database)
    await erasing
    assert await load_index(database) == ([], [])
