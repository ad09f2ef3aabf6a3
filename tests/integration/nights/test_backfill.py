"""Consolidation by hand: some sessions, what is new or all again; resumable, and a rehearsal writes nothing."""

from __future__ import annotations

import asyncio
import json
import signal
from datetime import timedelta
from typing import Any

import pytest

from consolidator.cli import main
from consolidator.cli.common import moment
from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import Interrupted, NotFound, UsageError
from consolidator.jobs.consolidation import revisions
from consolidator.jobs.consolidation.backfill import Backfill
from consolidator.jobs.consolidation.dead_letters import retry
from consolidator.jobs.consolidation.manual_run import Choice
from consolidator.jobs.consolidation.merging import merge_agent
from consolidator.jobs.retention import prune
from consolidator.settings import Settings
from consolidator.store.memory import digests
from consolidator.store.nights import runs
from tests.integration.conftest import SALT, Fresh
from tests.nights import (
    all_learned,
    ask,
    balance,
    contents,
    count,
    held,
    replica,
    started,
    stuck,
    tonight,
    workday,
    worked,
)
from tests.support import PATIENCE, command, in_thread, later, logged, memory_of, said, unbroken

LENGTH = len(workday(0))
CANDIDATES = "lock table candidate in exclusive mode"
DIGESTS = "lock table digest in access exclusive mode"
HOUR = timedelta(hours=1)
STAMPS = "select session_id, seq, consolidated_at from event order by 1, 2"


async def backfilled(database: Database, settings: Settings, **chosen: Any) -> dict[str, Any]:
    """Run a backfill."""
    return await Backfill(database, settings, Choice(**chosen), asyncio.Event()).run()


async def rehearsed(database: Database, settings: Settings, **chosen: Any) -> dict[str, Any]:
    """Rehearse a backfill."""
    return await Backfill(database, settings, Choice(**chosen), asyncio.Event()).rehearse()


async def learned(database: Database) -> list[str]:
    """Return the sessions that were learned from."""
    found = await ask(database, "select id from session where consolidated_to > 0 order by id")
    return [one["id"] for one in found]


async def test_a_backfill_learns_as_a_night_does(
    database: Database, clock: FrozenClock, settings: Settings, fresh: Fresh
) -> None:
    async with fresh() as other:
        for each in (database, other):
            await worked(each, 4)
        assert isinstance(other.clock, FrozenClock)
        await tonight(other, other.clock, settings)
        expected = await memory_of(other)
    async with database.connection() as conn:
        await conn.execute("insert into setting (name, value) values ('salt', %s)", [SALT])
    clock.advance(HOUR)
    done = await backfilled(database, settings)
    assert (done["job"], done["status"], done["seen"]) == ("backfill", "done", 4 * LENGTH)
    assert await memory_of(database) == expected
    assert await all_learned(database)
    await balance(database)
    await unbroken(database)
    assert (await tonight(database, clock, settings))["seen"] == 0


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"agent": "bob"}, ["bob-00", "bob-01"]),
        ({"session": "ann-00"}, ["ann-00"]),
        ({"since": "2026-03-04"}, ["bob-01"]),
        ({"until": "2026-03-04"}, ["ann-00", "bob-00"]),
        ({"agent": "bob", "until": "2026-03-04"}, ["bob-00"]),
        ({"since": "5h"}, ["bob-01"]),
    ],
)
async def test_filters_choose_sessions(
    database: Database, clock: FrozenClock, settings: Settings, chosen: dict[str, str], expected: list[str]
) -> None:
    await worked(database, 1, agent="ann")
    await worked(database, 1, agent="bob")
    clock.advance(timedelta(days=3))
    await worked(database, 1, agent="bob", begin=1)
    clock.advance(HOUR)
    choice: dict[str, Any] = {
        name: moment(told, clock.now()) if name in ("since", "until") else told for name, told in chosen.items()
    }
    assert (await rehearsed(database, settings, **choice))["sessions"] == len(expected)
    assert await learned(database) == []
    done = await backfilled(database, settings, **choice)
    assert await learned(database) == expected
    assert done["units"] == len(expected)


async def test_a_rehearsal_shows_what_would_be_learned_and_writes_nothing(
    database: Database, clock: FrozenClock, environment: dict[str, str]
) -> None:
    await worked(database, 3)
    before = await contents(database)
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=1).isoformat()
    told = (await in_thread(command, "backfill", "--dry-run", environment=environment)).stdout
    assert f"would read {3 * LENGTH} events of 3 sessions; nothing was written" in told
    assert "tabs for indentation" in told
    assert "get_user" in told
    assert "pytets" in told
    assert await contents(database) == before


async def test_a_rehearsal_keeps_no_agent_waiting(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await worked(database, 2)
    await tonight(database, clock, settings)
    async with replica(database) as other:
        with held(database.dsn, CANDIDATES):
            rehearsing = asyncio.create_task(rehearsed(other, settings, reprocess=True))
            await stuck(database.dsn)
            await asyncio.wait_for(logged(database, "coder-00", [said("go on")]), PATIENCE)
            assert not rehearsing.done()
        await rehearsing


async def test_an_interrupted_rehearsal_has_written_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await worked(database, 2)
    before = await contents(database)
    stop = asyncio.Event()
    job = Backfill(database, settings, Choice(), stop, progress=lambda _: stop.set())
    with pytest.raises(Interrupted):
        await job.rehearse()
    assert await contents(database) == before


async def _killed(database: Database, environment: dict[str, str], *words: str, lock: str) -> str:
    """Kill a backfill that has done two sessions and holds a third; return its run."""
    with (
        held(database.dsn, "select from session where id = 'coder-02' for update") as third,
        started("backfill", *words, environment=environment) as process,
    ):
        await stuck(database.dsn)  # two are done
        with held(database.dsn, lock):
            third.rollback()
            await stuck(database.dsn)
            process.kill()
            await asyncio.to_thread(process.wait)
    assert process.returncode == -signal.SIGKILL
    (run,) = await ask(database, "select id, status from run where job = 'backfill'")
    assert run["status"] == "running"
    assert await count(database, "select count(*) from claim where run_id = %s and status = 'done'", run["id"]) == 2
    return str(run["id"])


@pytest.mark.parametrize("since", [(), ("--since", "7d")], ids=["all", "since a span ago"])
async def test_a_killed_backfill_goes_on_where_it_was(
    database: Database, clock: FrozenClock, environment: dict[str, str], settings: Settings, fresh: Fresh,
    since: tuple[str, ...],
) -> None:  # fmt: skip
    async with fresh() as other:
        await worked(other, 5)
        assert isinstance(other.clock, FrozenClock)
        await tonight(other, other.clock, settings)
        expected = await memory_of(other)
    async with database.connection() as conn:
        await conn.execute("insert into setting (name, value) values ('salt', %s)", [SALT])
    await worked(database, 5)
    environment |= {"CONSOLIDATOR_WORKERS": "1", "CONSOLIDATOR_LEASE_SECONDS": "60"}
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=1).isoformat()
    run = await _killed(database, environment, *since, lock=CANDIDATES)
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=2).isoformat()
    done = json.loads((await in_thread(command, "backfill", *since, "--json", environment=environment)).stdout)
    assert (done["run"], done["status"], done["seen"]) == (run, "done", 5 * LENGTH)
    assert await memory_of(database) == expected
    assert await all_learned(database)
    await balance(database)
    await unbroken(database)


async def test_a_killed_replacement_goes_on_and_leaves_memory_as_it_was(
    database: Database, clock: FrozenClock, environment: dict[str, str], settings: Settings
) -> None:
    await worked(database, 5)
    await tonight(database, clock, settings)
    expected, stamps = await memory_of(database), await ask(database, STAMPS)
    environment |= {"CONSOLIDATOR_WORKERS": "1", "CONSOLIDATOR_LEASE_SECONDS": "60"}
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=1).isoformat()
    words = ("--reprocess", "--replace")
    run = await _killed(database, environment, *words, lock=DIGESTS)
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=2).isoformat()
    done = json.loads((await in_thread(command, "backfill", *words, "--json", environment=environment)).stdout)
    assert (done["run"], done["status"]) == (run, "done")
    assert await memory_of(database) == expected
    assert await ask(database, STAMPS) == stamps
    await unbroken(database)


@pytest.mark.parametrize(
    "chosen", [{"reprocess": True}, *({"only": one} for one in ("facts", "procedures", "solutions"))]
)
async def test_deriving_again_moves_no_stamp_and_changes_nothing_of_what_is_right(
    database: Database, clock: FrozenClock, settings: Settings, chosen: dict[str, Any]
) -> None:
    await worked(database, 3)
    await logged(database, "later", workday(7), project="shop")
    await tonight(database, clock, settings)
    await logged(database, "later", [said("We use pnpm.")])  # not learned from yet, and not now
    before, whole = await memory_of(database), await contents(database)
    shown = await rehearsed(database, settings, **chosen)
    assert not any(any(changes.values()) for changes in shown["memory"].values())
    assert await contents(database) == whole
    stamps = await ask(database, STAMPS)
    clock.advance(HOUR)
    done = await backfilled(database, settings, **chosen)
    assert done["status"] == "done"
    assert await memory_of(database) == before
    assert await ask(database, STAMPS) == stamps
    assert await count(database, "select head - consolidated_to from session where id = 'later'") == 1
    await unbroken(database)


async def test_what_differs_is_shown_and_replaced_only_when_told(
    database: Database, clock: FrozenClock, settings: Settings, environment: dict[str, str]
) -> None:
    await worked(database, 3)
    await tonight(database, clock, settings)
    right = await memory_of(database)
    async with database.connection() as conn:  # as an older version might have learned it
        await conn.execute("update fact set sentence = 'The user likes spaces.'")
        await conn.execute("update error_record set record = jsonb_set(record, '{headline}', '\"once upon a time\"')")
        await conn.execute("update candidate set sentence = 'The user likes spaces.' where predicate = 'rule'")
        await conn.execute("update procedure set title = 'an old title', support = 1, rank = 0")
    wrong = await contents(database)
    environment["CONSOLIDATOR_CLOCK"] = later(clock.now(), hours=1).isoformat()
    shown = (await in_thread(command, "backfill", "--reprocess", environment=environment)).stdout
    assert "--replace puts it in place" in shown
    assert "tabs for indentation" in shown
    assert await contents(database) == wrong
    clock.advance(HOUR)
    await backfilled(database, settings, only="facts")
    assert (await memory_of(database))["fact"] == right["fact"]
    assert (await memory_of(database))["procedure"] != right["procedure"]
    clock.advance(HOUR)
    await backfilled(database, settings, reprocess=True)
    assert await memory_of(database) == right
    await unbroken(database)


async def test_what_was_pruned_is_kept_when_the_rest_is_derived_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await worked(database, 3)
    await tonight(database, clock, settings)
    clock.advance(timedelta(days=40))
    await logged(database, "coder-00", [said("My name is Ada."), *workday(0)[1:]], project="shop")
    await tonight(database, clock, settings)
    await prune(database, older_than=timedelta(days=30))
    assert await count(database, "select count(*) from session where pruned_to > 0") > 0
    before = await memory_of(database)
    clock.advance(HOUR)
    done = await backfilled(database, settings, reprocess=True)
    assert done["status"] == "done"
    assert await memory_of(database) == before
    await unbroken(database)


async def test_a_session_that_a_night_learns_from_meanwhile_loses_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await worked(database, 3)
    await tonight(database, clock, settings)
    await logged(database, "coder-00", [said("We use pnpm."), *workday(9)[1:]], project="shop")
    clock.advance(HOUR)
    async with replica(database) as other:
        with held(database.dsn, CANDIDATES):
            deriving = asyncio.create_task(backfilled(database, settings, session="coder-00", reprocess=True))
            await stuck(database.dsn)
            learning = asyncio.create_task(tonight(other, clock, settings))
            await stuck(database.dsn, 2)
        await asyncio.gather(deriving, learning)
    memory = await memory_of(database)
    assert any("pnpm" in sentence for _, sentence, *_ in memory["fact"])
    clock.advance(HOUR)
    await backfilled(database, settings, reprocess=True)
    assert await memory_of(database) == memory
    await unbroken(database)


@pytest.mark.parametrize("words", [("--replace",), ("--only", "everything")])
def test_words_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setattr("sys.argv", ["consolidator", "backfill", *words])
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == UsageError.exit_code


async def test_a_session_with_nothing_to_read_begins_no_run(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await worked(database, 1)
    await tonight(database, clock, settings)
    with pytest.raises(NotFound, match="--reprocess"):
        await backfilled(database, settings, session="coder-00")
    assert await count(database, "select count(*) from run where job = 'backfill'") == 0


@pytest.mark.parametrize("job", ["backfill", "retry", "promotion"])
async def test_what_dies_of_a_bug_is_not_left_running(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    await worked(database, 1)
    done = await tonight(database, clock, settings)
    async with database.connection() as conn:
        await runs.add_dead_letter(
            conn, done["run"], session="coder-00", seq=1, extractor="facts", error="a bug", now=clock.now()
        )
    await worked(database, 1, begin=1)
    clock.advance(HOUR)

    async def dying(*_: Any, **__: Any) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr("consolidator.jobs.consolidation.backfill.consolidate", dying)
    monkeypatch.setattr("consolidator.jobs.consolidation.dead_letters._settle", dying)
    monkeypatch.setattr("consolidator.jobs.consolidation.revisions.merge_news", dying)
    work = {
        "backfill": backfilled(database, settings),
        "retry": retry(database, settings),
        "promotion": revisions._merged(database, settings, asyncio.Event(), {"promoted": 2}),
    }
    asked = work.pop(job)
    for other in work.values():
        other.close()
    with pytest.raises(KeyError):
        await asked
    (left,) = await ask(database, "select status, error from run where job <> 'consolidation'")
    assert (left["status"], left["error"]) == ("failed", "KeyError: 'a bug'")


async def test_a_rehearsal_and_a_merge_wait_for_each_other_in_no_circle(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await worked(database, 2)
    await tonight(database, clock, settings)
    async with database.connection() as conn:
        await conn.execute("update digest set summed = false")
        await digests.touch_scopes(conn, [("coder", "shop")])
    memory_before = await memory_of(database)

    async def merged(other: Database) -> None:
        async with other.transaction() as conn:
            await merge_agent(conn, "coder", run_id="test", now=clock.now(), settings=settings)

    async with replica(database) as other:
        with held(database.dsn, CANDIDATES):
            rehearsing = asyncio.create_task(rehearsed(database, settings, reprocess=True))
            await stuck(database.dsn)  # it has taken the first session's digest
            merging = asyncio.create_task(merged(other))
            await stuck(database.dsn, 2)
        await asyncio.gather(rehearsing, merging)
    assert await memory_of(database) == memory_before
    await unbroken(database)


async def test_a_rehearsal_and_a_night_wait_for_each_other_in_no_circle_and_no_append_waits(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await worked(database, 1, begin=2)
    await tonight(database, clock, settings)
    await worked(database, 2)
    clock.advance(HOUR)
    async with replica(database) as other:
        with held(database.dsn, CANDIDATES):
            rehearsing = asyncio.create_task(rehearsed(database, settings))
            await stuck(database.dsn)  # it has told the scope of what the first session taught
            learning = asyncio.create_task(backfilled(other, settings, session="coder-01"))
            await stuck(database.dsn, 2)  # it has learned from the second one
            with held(database.dsn, "set lock_timeout = '1s'; update session set head = head where id = 'coder-01'"):
                pass  # whoever appends to it need not wait
        assert (await rehearsing)["sessions"] == 2
        assert (await learning)["status"] == "done"
    assert await count(database, "select max(attempts) from claim where unit = 'coder-01'") == 1
    assert await learned(database) == ["coder-01", "coder-02"]
    await unbroken(database)
