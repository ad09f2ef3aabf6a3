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
from consolidator.testing import ModelServer, ScriptedReply
from tests.databases import fetch_dicts
from tests.oracle import oracle, with_model
from tests.support import SimulatedKill, assert_invariants, log_events, run_job, user_message

HOUR = timedelta(hours=1)


async def log_three_sessions(database: Database, clock: FrozenClock) -> None:
    for number in range(3):
        await log_events(database, f"s{number}", [user_message(f"Tea{number} is my fuel.")], peer=f"peer{number}")
    clock.advance(HOUR)


async def load_fact_values(database: Database) -> list[str]:
    async with database.connection() as conn:
        return [row["value"] for row in await fetch_dicts(conn, "select value from fact order by value")]


async def test_a_batch_is_awaited_collected_once_and_costs_half(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_three_sessions(database, clock)
    async with ModelServer(oracle, hold_batches=True) as server:
        model_settings = with_model(settings, server, batch=True)
        report = await run_job(database, model_settings)
        assert report["model"]["awaited"] == 3
        assert report["deferred"] == 3
        assert len(server.batches) == 1
        assert (
            await JobRunner(database, model_settings).collect_batches() is None
        )  # as after a restart: it is still out
        report = await run_job(database, model_settings)  # another night asks nothing twice
        assert report["deferred"] == 3
        assert len(server.batches) == 1
        assert not server.requests
        server.hold_batches = False
        collected = await JobRunner(database, model_settings).collect_batches()
        assert collected is not None
        assert collected["learned"] == 3
        assert len(server.requests) == 3
    assert await load_fact_values(database) == ["Tea0", "Tea1", "Tea2"]
    async with database.connection() as conn:
        calls = await fetch_dicts(conn, "select cost, input_tokens, output_tokens from model_call")
    assert len(calls) == 3
    for call in calls:
        full = calculate_cost("gpt-4o-mini", input_tokens=call["input_tokens"], output_tokens=call["output_tokens"])
        assert full is not None
        assert call["cost"] == full / 2
    await assert_invariants(database)


async def test_what_does_not_come_back_in_time_goes_the_normal_way(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_three_sessions(database, clock)
    async with ModelServer(oracle, hold_batches=True) as server:
        model_settings = with_model(settings, server, batch=True)
        first = await run_job(database, model_settings)
        clock.advance(timedelta(hours=25))
        report = await run_job(database, model_settings)
        assert [batch["status"] for batch in server.batches.values()] == ["cancelling"]
        assert await count_charged_in_full(database, first["run"]) == 3
        assert report["deferred"] == 0
        assert len(server.requests) == 3
    assert await load_fact_values(database) == ["Tea0", "Tea1", "Tea2"]


async def test_a_bad_line_of_a_batch_is_asked_again_the_normal_way(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_three_sessions(database, clock)

    async with ModelServer([ScriptedReply.failed(500), ScriptedReply.truncated(), ScriptedReply.refused()]) as server:
        model_settings = with_model(settings, server, batch=True)
        await run_job(database, model_settings)
        await JobRunner(database, model_settings).collect_batches()
        server.answers = oracle
        await run_job(database, model_settings)
    assert await load_fact_values(database) == ["Tea0", "Tea1", "Tea2"]


async def test_a_provider_without_batches_is_asked_the_normal_way(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_three_sessions(database, clock)
    async with ModelServer(oracle) as server:
        server.without_batches = True
        model_settings = with_model(settings, server, batch=True)
        assert (await run_job(database, model_settings))["deferred"] == 3
        clock.advance(HOUR)
        assert (await run_job(database, model_settings))["deferred"] == 0
    assert await load_fact_values(database) == ["Tea0", "Tea1", "Tea2"]


async def test_a_batch_that_is_out_is_collected_though_batches_are_switched_off(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_three_sessions(database, clock)
    async with ModelServer(oracle, hold_batches=True) as server:
        await run_job(database, with_model(settings, server, batch=True))
        server.hold_batches = False
        clock.advance(HOUR)
        assert (await run_job(database, with_model(settings, server)))["deferred"] == 0
        assert len(server.requests) == 3  # those of the batch
    assert await load_fact_values(database) == ["Tea0", "Tea1", "Tea2"]


async def count_charged_in_full(database: Database, run: str) -> int:
    """Return how many calls of a run have cost what was reserved for them; assert that none of it was given back."""
    async with database.connection() as conn:
        calls = await fetch_dicts(conn, "select * from model_call where run_id = %(run)s", {"run": run})
    assert all(call["settled_at"] and call["outcome"].startswith("failed") for call in calls)
    assert all(
        (call["input_tokens"], call["cost"]) == (call["reserved_tokens"], call["reserved_cost"]) for call in calls
    )
    return len(calls)


async def test_i12_a_batch_that_the_provider_took_without_an_answer_has_cost_its_reserve(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_three_sessions(database, clock)
    async with ModelServer(oracle) as server:
        server.mute_batches = True
        report = await run_job(database, with_model(settings, server, batch=True, model_timeout_seconds=1))
        assert len(server.batches) == 1
    assert await count_charged_in_full(database, report["run"]) == 3


async def test_i12_a_batch_whose_process_died_while_it_was_handed_in_has_cost_its_reserve(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: Any) -> Any:
        raise SimulatedKill

    await log_three_sessions(database, clock)
    async with ModelServer(oracle) as server:
        model_settings = with_model(settings, server, batch=True)
        with monkeypatch.context() as patch:
            patch.setattr(ModelBatches, "_upload", killed)
            with pytest.raises(SimulatedKill):
                await run_job(database, model_settings)
        clock.advance(HOUR)
        assert await JobRunner(database, model_settings).collect_batches() is None
    async with database.connection() as conn:
        (run,) = await fetch_dicts(conn, "select id from run")
    assert await count_charged_in_full(database, run["id"]) == 3


async def test_i12_answers_that_nobody_can_read_have_cost_their_reserve_and_refused_ones_nothing(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_three_sessions(database, clock)
    async with ModelServer(lambda _: ScriptedReply(body={"odd": 1})) as server:
        model_settings = with_model(settings, server, batch=True)
        report = await run_job(database, model_settings)
        assert await JobRunner(database, model_settings).collect_batches() is None
        assert await count_charged_in_full(database, report["run"]) == 3
        server.batches.clear()
    await log_events(database, "s9", [user_message("Milk is my fuel.")], peer="peer9")
    clock.advance(HOUR)
    async with ModelServer(oracle) as server:
        server.without_batches = True
        report = await run_job(database, with_model(settings, server, batch=True))
    async with database.connection() as conn:
        calls = await fetch_dicts(conn, "select cost from model_call where session_id = 's9'")
    assert [call["cost"] for call in calls] == [0]


async def test_i12_a_batch_that_its_provider_does_not_know_has_cost_its_reserve(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_three_sessions(database, clock)
    async with ModelServer(oracle, hold_batches=True) as server:
        model_settings = with_model(settings, server, batch=True)
        report = await run_job(database, model_settings)
        server.batches.clear()
        assert await JobRunner(database, model_settings).collect_batches() is None
    assert await count_charged_in_full(database, report["run"]) == 3
