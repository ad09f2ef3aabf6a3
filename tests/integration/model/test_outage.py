"""A night that cannot ask its model says so, learns what needs no model, and loses nothing: a later night reads it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.model import calls as calls_module
from consolidator.jobs.nightly import JobRunner
from consolidator.jobs.retention import prune
from consolidator.jobs.scheduler import Service
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.integration.conftest import OpenDatabase
from tests.nights import all_learned, assert_ledger_balances, log_workdays, query_number, query_rows
from tests.oracle import oracle, with_model
from tests.support import assert_invariants, log_events, read_memory, run_cli, run_job, user_message

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def no_retry_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for the next try."""
    monkeypatch.setattr(calls_module, "MAX_RETRY_WAIT", 0.01)


def error(status: int, code: str | None = None, message: str = "no", **headers: str) -> ScriptedReply:
    body = {"error": {"message": message, "code": code, "type": code}}
    return ScriptedReply(
        status=status, body=body, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


PERMANENT: dict[str, tuple[Callable[[], ScriptedReply], str]] = {
    "a wrong key": (lambda: error(401, "invalid_api_key"), "OPENAI_API_KEY"),
    "a key that may not": (lambda: error(403), "OPENAI_API_KEY"),
    "an unknown model": (lambda: error(404, "model_not_found"), "CONSOLIDATOR_MODEL"),
    "no money": (lambda: error(402), "no credit"),
    "no quota": (lambda: error(429, "insufficient_quota"), "no credit"),
    "no quota, in words": (lambda: error(429, None, "You exceeded your current quota, please check"), "no credit"),
    "a wrong key, as 400": (lambda: error(400, None, "API key not valid. Please pass one."), "OPENAI_API_KEY"),
    "an unknown model, as 400": (lambda: error(400, None, "The model `m` does not exist"), "CONSOLIDATOR_MODEL"),
    "a wrong key, as 422": (lambda: error(422, "invalid_api_key"), "OPENAI_API_KEY"),
}
PASSING: dict[str, Callable[[], ScriptedReply]] = {
    "errors": lambda: error(500),
    "overload": lambda: error(503, retry_after="0"),
    "a rest of years": lambda: error(429, retry_after="1000000000"),
    "an endless rest": lambda: error(429, retry_after="inf"),
    "a rest that is no number": lambda: error(429, retry_after="nan"),
    "a hang": lambda: ScriptedReply(delay=30),
    "a page instead of an answer": lambda: ScriptedReply(body="<html>log in</html>"),
    "a cut": lambda: ScriptedReply(text='{"facts": []}', disconnect=True),
    "too much": lambda: ScriptedReply(body={"text": "x" * 9_000_000}),
    "a way round in circles": lambda: ScriptedReply(status=307, body={}, headers={"location": "/v1/chat/completions"}),
}


async def learn_without_outage(fresh: OpenDatabase, settings: Settings, *, model: bool) -> dict[str, list[Any]]:
    """Return the memory of the same days with a model that answers, or without any."""
    async with fresh() as database, ModelServer(oracle) as server:
        await log_days(database)
        await run_job(database, with_model(settings, server) if model else settings)
        return await read_memory(database)


async def log_days(database: Database) -> None:
    await log_workdays(database, 3)
    await log_events(database, "talk", [user_message("Tea is my fuel. Bern is where my desk stands.")], peer="mara")
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(HOUR)


async def count_stamps(database: Database) -> int:
    return await query_number(database, "select count(*) from event where consolidated_at is not null")


async def check_outage(database: Database, report: dict[str, Any], reason: str) -> None:
    """Assert that a night is an error, and that nothing of it was stamped or given up."""
    assert report["status"] == "failed"
    assert reason in report["error"]
    (run,) = await query_rows(database, "select * from run where id = %s", report["run"])
    assert run["status"] == "failed"
    assert reason in run["error"]
    assert report["deferred"] == report["seen"] > 0
    assert await count_stamps(database) == 0
    assert await query_rows(database, "select * from dead_letter") == []
    await assert_invariants(database)
    await assert_ledger_balances(database)


async def check_recovery(database: Database, fresh: OpenDatabase, settings: Settings, server: ModelServer) -> None:
    """Assert that the next night learns what an undisturbed one would have."""
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(HOUR)
    server.answers = oracle
    report = await run_job(database, with_model(settings, server))
    assert report["status"] == "done"
    assert report["deferred"] == 0
    assert await all_learned(database)
    assert await read_memory(database) == await learn_without_outage(fresh, settings, model=True)
    assert await query_number(database, "select count(*) from session where awaits_model") == 0
    await assert_invariants(database)
    await assert_ledger_balances(database)


@pytest.mark.parametrize("kind", PERMANENT)
def test_a_model_that_refuses_us_is_an_error_and_is_asked_no_more(
    fresh: OpenDatabase, settings: Settings, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_module, "CONCURRENCY", 1)
    reply, reason = PERMANENT[kind]

    async def play() -> None:
        async with fresh() as database, ModelServer(lambda _: reply()) as server:
            await log_days(database)
            report = await run_job(database, with_model(settings, server))
            assert len(server.requests) == 1, "it is not asked again"
            await check_outage(database, report, reason)
            assert await read_memory(database) == await learn_without_outage(fresh, settings, model=False)
            await check_recovery(database, fresh, settings, server)

    asyncio.run(play())


@pytest.mark.parametrize("kind", PASSING)
def test_during_an_outage_the_night_learns_what_needs_no_model(
    fresh: OpenDatabase, settings: Settings, kind: str
) -> None:
    async def play() -> None:
        async with fresh() as database, ModelServer(lambda _: PASSING[kind]()) as server:
            await log_days(database)
            timeout = 1 if kind == "a hang" else 20
            report = await run_job(database, with_model(settings, server, model_timeout_seconds=timeout))
            await check_outage(database, report, "the model could not be asked")
            assert await read_memory(database) == await learn_without_outage(fresh, settings, model=False)
            assert await query_number(database, "select count(*) from episode") > 0
            await check_recovery(database, fresh, settings, server)

    asyncio.run(play())


@contextlib.asynccontextmanager
async def closed_port() -> AsyncIterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        number = listener.getsockname()[1]
    yield f"http://127.0.0.1:{number}/v1"


@pytest.mark.parametrize("url", ["closed", "http://no-such-host.invalid/v1"])
def test_a_server_that_is_not_there_is_an_error(fresh: OpenDatabase, settings: Settings, url: str) -> None:
    async def play() -> None:
        async with fresh() as database, closed_port() as closed, ModelServer(oracle) as server:
            await log_days(database)
            address = closed if url == "closed" else url
            away = with_model(settings, server).model_copy(update={"openai_base_url": address})
            await check_outage(database, await run_job(database, away), "OPENAI_BASE_URL")
            await check_recovery(database, fresh, settings, server)

    asyncio.run(play())


def test_nights_between_which_the_model_comes_and_goes_learn_what_one_night_does(
    fresh: OpenDatabase, settings: Settings
) -> None:
    async def play() -> None:
        async with fresh() as database, ModelServer(oracle) as server:
            assert isinstance(database.clock, FrozenClock)
            for day, reply in enumerate(
                [oracle, lambda _: error(401), lambda _: error(500), oracle, lambda _: error(401)]
            ):
                server.answers = reply
                await log_events(database, "talk", [user_message(f"Tea is my fuel. Number {day} it is.")], peer="mara")
                await log_workdays(database, 1, begin=day)
                database.clock.advance(HOUR)
                await run_job(database, with_model(settings, server))
                await assert_invariants(database)
            server.answers = oracle
            await run_job(database, with_model(settings, server))
            assert await all_learned(database)
            learned = await read_memory(database)
        async with fresh() as database, ModelServer(oracle) as server:
            assert isinstance(database.clock, FrozenClock)
            for day in range(5):
                await log_events(database, "talk", [user_message(f"Tea is my fuel. Number {day} it is.")], peer="mara")
                await log_workdays(database, 1, begin=day)
                database.clock.advance(HOUR)
            await run_job(database, with_model(settings, server))
            assert learned == await read_memory(database)

    asyncio.run(play())


def test_what_waits_for_a_model_is_not_pruned(fresh: OpenDatabase, settings: Settings) -> None:
    async def play() -> None:
        async with fresh() as database, ModelServer(lambda _: error(401)) as server:
            await log_days(database)
            await run_job(database, with_model(settings, server))
            assert isinstance(database.clock, FrozenClock)
            events = await query_number(database, "select count(*) from event")
            database.clock.advance(timedelta(days=40))
            await prune(database, older_than=timedelta(days=30))
            assert await query_number(database, "select count(*) from event") == events
            await check_recovery(database, fresh, settings, server)

    asyncio.run(play())


def test_what_waits_for_a_model_that_is_given_up_is_stamped(fresh: OpenDatabase, settings: Settings) -> None:
    async def play() -> None:
        async with fresh() as database, ModelServer(lambda _: error(401)) as server:
            await log_days(database)
            await run_job(database, with_model(settings, server))
            assert await count_stamps(database) == 0
            report = await run_job(database, settings)
            assert report["status"] == "done"
            assert await all_learned(database)
            await assert_invariants(database)
            assert await query_number(database, "select count(*) from session where awaits_model") == 0
            server.answers = oracle  # a model that is configured later reads it all the same
            await run_job(database, with_model(settings, server))
            assert await read_memory(database) == await learn_without_outage(fresh, settings, model=True)

    asyncio.run(play())


async def test_health_shows_that_the_model_refuses_us_until_it_does_not(
    database: Database, settings: Settings, clock: FrozenClock
) -> None:
    await log_days(database)
    async with ModelServer(lambda _: error(401)) as server:
        configured = with_model(settings, server)
        service = Service(JobRunner(database, configured))
        await service.run_due_jobs()
        assert "OPENAI_API_KEY" in service.failures["consolidation"]
        after_restart = Service(JobRunner(database, configured))
        await after_restart.run_due_jobs()
        assert "OPENAI_API_KEY" in after_restart.failures["consolidation"]
        server.answers = oracle
        clock.advance(HOUR)
        await run_job(database, configured)
        for running in (service, after_restart):
            await running.run_due_jobs()
            assert "consolidation" not in running.failures


async def test_the_command_line_exits_with_an_error_and_runs_show_it(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    await log_days(database)
    async with ModelServer(lambda _: error(401)) as server:
        environment = {
            "PATH": "/usr/bin:/bin", "CONSOLIDATOR_HOME": str(tmp_path), "CONSOLIDATOR_DATABASE_URL": database.dsn,
            "CONSOLIDATOR_MODEL": "gpt-4o-mini", "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "sk-wrong",
            "CONSOLIDATOR_CLOCK": database.clock.now().isoformat(),
        }  # fmt: skip
        ran = await asyncio.to_thread(run_cli, "run", "consolidation", environment=environment, code=8)
        listed = await asyncio.to_thread(run_cli, "runs", environment=environment)
    assert "OPENAI_API_KEY" in ran.stderr
    assert "failed" in listed.stdout
