"""A night through the provider's batches: handed in, awaited over restarts, collected once, or asked the normal way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.model.batches import ModelBatches
from consolidator.jobs.nightly import JobRunner
from consolidator.llm.prices import calculate_cost
from consolidator.settings import Settings
from consolidator.store.queries import rows
from consolidator.testing import ModelServer, ScriptedReply
from tests.oracle import configured, oracle
from tests.support import assert_invariants, log_events, run_job, user_message

HOUR = timedelta(hours=1)


async def talked(database: Database, clock: FrozenClock) -> None:
    for number in range(3):
        await log_events(database, f"s{number}", [user_message(f"Tea{number} is my fuel.")], peer=f"peer{number}")
    clock.advance(HOUR)


async def facts(database: Database) -> list[str]:
    async with database.connection() as conn:
        return [one["value"] for one in await rows(conn, "select value from fact order by value")]


async def test_a_batch_is_awaited_collected_once_and_costs_half(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock)
    async with ModelServer(oracle, hold_batches=True) as server:
        told = configured(settings, server, batch=True)
        done = await run_job(database, told)
        assert done["model"]["awaited"] == 3
        assert done["deferred"] == 3
        assert len(server.batches) == 1
        assert await JobRunner(database, told).collect_batches() is None  # as after a restart: it is still out
        done = await run_job(database, told)  # another night asks nothing twice
        assert done["deferred"] == 3
        assert len(server.batches) == 1
        assert not server.requests
        server.hold_batches = False
        collected = await JobRunner(database, told).collect_batches()
        assert collected is not None
        assert collected["learned"] == 3
        assert len(server.requests) == 3
    assert await facts(database) == ["Tea0", "Tea1", "Tea2"]
    async with database.connection() as conn:
        paid = await rows(conn, "select cost, input_tokens, output_tokens from model_call")
    assert len(paid) == 3
    for one in paid:
        full = calculate_cost("gpt-4o-mini", input_tokens=one["input_tokens"], output_tokens=one["output_tokens"])
        assert full is not None
        assert one["cost"] == full / 2
    await assert_invariants(database)


async def test_what_does_not_come_back_in_time_goes_the_normal_way(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock)
    async with ModelServer(oracle, hold_batches=True) as server:
        told = configured(settings, server, batch=True)
        first = await run_job(database, told)
        clock.advance(timedelta(hours=25))
        done = await run_job(database, told)
        assert [batch["status"] for batch in server.batches.values()] == ["cancelling"]
        assert await paid_in_full(database, first["run"]) == 3
        assert done["deferred"] == 0
        assert len(server.requests) == 3
    assert await facts(database) == ["Tea0", "Tea1", "Tea2"]


async def test_a_bad_line_of_a_batch_is_asked_again_the_normal_way(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock)

    async with ModelServer([ScriptedReply.failed(500), ScriptedReply.truncated(), ScriptedReply.refused()]) as server:
        told = configured(settings, server, batch=True)
        await run_job(database, told)
        await JobRunner(database, told).collect_batches()
        server.answers = oracle
        await run_job(database, told)
    assert await facts(database) == ["Tea0", "Tea1", "Tea2"]


async def test_a_provider_without_batches_is_asked_the_normal_way(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock)
    async with ModelServer(oracle) as server:
        server.without_batches = True
        told = configured(settings, server, batch=True)
        assert (await run_job(database, told))["deferred"] == 3
        clock.advance(HOUR)
        assert (await run_job(database, told))["deferred"] == 0
    assert await facts(database) == ["Tea0", "Tea1", "Tea2"]


async def test_a_batch_that_is_out_is_collected_though_batches_are_switched_off(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock)
    async with ModelServer(oracle, hold_batches=True) as server:
        await run_job(database, configured(settings, server, batch=True))
        server.hold_batches = False
        clock.advance(HOUR)
        assert (await run_job(database, configured(settings, server)))["deferred"] == 0
        assert len(server.requests) == 3  # those of the batch
    assert await facts(database) == ["Tea0", "Tea1", "Tea2"]


async def paid_in_full(database: Database, run: str) -> int:
    """Return how many calls of a run have cost what was reserved for them; assert that none of it was given back."""
    async with database.connection() as conn:
        found = await rows(conn, "select * from model_call where run_id = %(run)s", {"run": run})
    assert all(one["settled_at"] and one["outcome"].startswith("failed") for one in found)
    assert all((one["input_tokens"], one["cost"]) == (one["reserved_tokens"], one["reserved_cost"]) for one in found)
    return len(found)


async def test_i12_a_batch_that_the_provider_took_without_an_answer_has_cost_its_reserve(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock)
    async with ModelServer(oracle) as server:
        server.mute_batches = True
        done = await run_job(database, configured(settings, server, batch=True, model_timeout_seconds=1))
        assert len(server.batches) == 1
    assert await paid_in_full(database, done["run"]) == 3


async def test_i12_a_batch_whose_process_died_while_it_was_handed_in_has_cost_its_reserve(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """Where a process ends, nothing else happens."""

    async def killed(*_: Any) -> Any:
        raise Killed

    await talked(database, clock)
    async with ModelServer(oracle) as server:
        told = configured(settings, server, batch=True)
        with monkeypatch.context() as patch:
            patch.setattr(ModelBatches, "_upload", killed)
            with pytest.raises(Killed):
                await run_job(database, told)
        clock.advance(HOUR)
        assert await JobRunner(database, told).collect_batches() is None
    async with database.connection() as conn:
        (run,) = await rows(conn, "select id from run")
    assert await paid_in_full(database, run["id"]) == 3


async def test_i12_answers_that_nobody_can_read_have_cost_their_reserve_and_refused_ones_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock)
    async with ModelServer(lambda _: ScriptedReply(body={"odd": 1})) as server:
        told = configured(settings, server, batch=True)
        done = await run_job(database, told)
        assert await JobRunner(database, told).collect_batches() is None
        assert await paid_in_full(database, done["run"]) == 3
        server.batches.clear()
    await log_events(database, "s9", [user_message("Milk is my fuel.")], peer="peer9")
    clock.advance(HOUR)
    async with ModelServer(oracle) as server:
        server.without_batches = True
        done = await run_job(database, configured(settings, server, batch=True))
    async with database.connection() as conn:
        found = await rows(conn, "select cost from model_call where session_id = 's9'")
    assert [one["cost"] for one in found] == [0]


async def test_i12_a_batch_that_its_provider_does_not_know_has_cost_its_reserve(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await talked(database, clock)
    async with ModelServer(oracle, hold_batches=True) as server:
        told = configured(settings, server, batch=True)
        done = await run_job(database, told)
        server.batches.clear()
        assert await JobRunner(database, told).collect_batches() is None
    assert await paid_in_full(database, done["run"]) == 3
