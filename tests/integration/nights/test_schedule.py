"""The schedule: the ledger decides what is due, so that no clock, replica or restart repeats a night."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from consolidator.clock import Clock, FrozenClock
from consolidator.database import Database
from consolidator.errors import DatabaseUnavailable, UsageError
from consolidator.jobs import scheduler
from consolidator.jobs.ledger import MAX_ATTEMPTS
from consolidator.jobs.nightly import JobRunner
from consolidator.jobs.scheduler import Service
from consolidator.settings import Settings
from tests.acceptance.agents import ClaudeCodeLog, LogFolder
from tests.nights import (
    all_learned,
    assert_ledger_balances,
    hold_locks,
    log_workdays,
    open_replica,
    query_number,
    query_rows,
    start_cli,
    wait_for_lock_waiters,
    wait_until_counted,
    workday_events,
)
from tests.support import PATIENCE, assert_invariants, free_port, later, log_events, user_message

DIGESTS = "lock table digest in access exclusive mode"  # stops a unit that was claimed, before it reads
RUNS = "select job, scheduled_at from run order by scheduled_at"


def at(text: str) -> datetime:
    """Return a moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


async def completed_times(database: Database, job: str = "consolidation") -> list[datetime]:
    """Return the scheduled times of a job's completed runs, in order."""
    runs = await query_rows(database, "select scheduled_at from run where job = %s and status = 'done' order by 1", job)
    return [run["scheduled_at"] for run in runs]


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set an empty home, so that the import finds no logs of this machine."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


async def test_a_missed_week_is_caught_up_once(database: Database, clock: FrozenClock, settings: Settings) -> None:
    """A14."""
    night = JobRunner(database, settings)
    await log_workdays(database, 1)
    clock.set(at("2026-03-03T03:00"))
    assert await night.run_due("consolidation")
    assert await night.run_due("consolidation") is None
    await log_workdays(database, 1, begin=1)
    clock.set(at("2026-03-10T17:00"))
    assert await night.due_at("consolidation") == at("2026-03-10T03:00")
    done = await night.run_due("consolidation")
    assert done is not None
    assert done["seen"] == len(workday_events(0))
    assert await night.run_due("consolidation") is None
    assert await completed_times(database) == [at("2026-03-03T03:00"), at("2026-03-10T03:00")]
    assert await all_learned(database)


async def test_a_first_start_owes_the_night_that_was(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    assert await JobRunner(database, settings).due_at("consolidation") == at("2026-03-02T03:00")
    clock.set(at("2026-03-02T02:59"))
    assert await JobRunner(database, settings).due_at("consolidation") == at("2026-03-01T03:00")


async def test_a_slot_that_another_replica_did_is_not_done_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async with open_replica(database) as other:
        assert await JobRunner(other, settings).run_due("consolidation")
        assert await JobRunner(database, settings).run_due("consolidation") is None
        assert await JobRunner(database, settings)._run("consolidation", at("2026-03-02T03:00"), "schedule") is None
    assert await completed_times(database) == [at("2026-03-02T03:00")]


async def test_a_night_with_dead_letters_is_not_run_again_and_again(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_workdays(database, 1)
    clock.advance(timedelta(hours=1))
    with monkeypatch.context() as patch:
        patch.setattr("consolidator.jobs.consolidation.session_worker.commit_windows", None)
        done = await JobRunner(database, settings).run_due("consolidation")
    assert done is not None
    assert done["status"] == "failed"
    assert await JobRunner(database, settings).due_at("consolidation") is None


async def test_a_run_by_hand_does_not_take_the_place_of_the_night(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    night = JobRunner(database, settings)
    await night.run_due("consolidation")
    clock.set(at("2026-03-03T02:59"))
    await night.run_now("consolidation")
    clock.set(at("2026-03-03T03:00"))
    assert await night.due_at("consolidation") == at("2026-03-03T03:00")
    await night.run_now("consolidation")  # by hand, but the scheduled run is due: it is that run
    assert await night.due_at("consolidation") is None
    triggers = await query_rows(database, "select trigger from run order by started_at")
    assert [run["trigger"] for run in triggers] == ["schedule", "manual", "schedule"]


async def test_two_runs_by_hand_in_one_moment_are_both_answered(database: Database, settings: Settings) -> None:
    night = JobRunner(database, settings)
    await night.run_due("consolidation")
    first, second = await night.run_now("consolidation"), await night.run_now("consolidation")
    assert (first["status"], second["status"]) == ("done", "done")


async def test_a_clock_that_goes_back_brings_no_night_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    night = JobRunner(database, settings)
    await night.run_due("consolidation")
    clock.set(at("2026-02-20T12:00"))
    assert await night.due_at("consolidation") is None
    await log_events(database, "s", [user_message("from the past")])
    clock.set(at("2026-03-03T12:00"))
    assert await night.run_due("consolidation")
    assert await all_learned(database)
    await assert_invariants(database)


@pytest.mark.parametrize(
    ("evening", "nights_in_utc"),
    [
        ("2026-03-28T12:00", ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]),  # 02:30 does not exist
        ("2026-10-24T12:00", ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]),  # 02:30 comes twice
    ],
)
async def test_when_the_clocks_change_there_is_one_night_a_day(
    database: Database, clock: FrozenClock, settings: Settings, evening: str, nights_in_utc: list[str]
) -> None:
    berlin = settings.model_copy(update={"timezone": "Europe/Berlin", "consolidation_cron": "30 2 * * *"})
    for quarter in range(48 * 4):
        clock.set(at(evening) + timedelta(minutes=15 * quarter))
        await JobRunner(database, berlin).run_due("consolidation")
    assert await completed_times(database) == [at(moment) for moment in nights_in_utc]


@asynccontextmanager
async def run_service(database: Database, settings: Settings) -> AsyncIterator[Service]:
    """Run the service in this process until the block ends."""
    service = Service(JobRunner(database, settings))
    working = asyncio.create_task(service.serve())
    try:
        yield service
    finally:
        service.runner.stop.set()
        await asyncio.wait_for(working, PATIENCE)


async def test_a_clock_that_jumps_over_the_night_misses_none(
    database: Database, clock: FrozenClock, settings: Settings, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A3, A9."""
    monkeypatch.setattr(scheduler, "CHECK_SECONDS", 0.05)
    clock.set(at("2026-03-03T02:30"))
    retention_done = "select count(*) from run where job = 'retention' and status = 'done' and scheduled_at = %s"
    async with run_service(database, settings):
        await wait_until_counted(database, retention_done, at("2026-03-02T03:30"))
        await log_workdays(database, 1)
        clock.set(at("2026-03-03T04:10"))  # a laptop that slept
        await wait_until_counted(database, "select count(*) / 6 from run where status = 'done'")
    runs = await query_rows(database, RUNS)
    assert [(run["job"], run["scheduled_at"]) for run in runs[3:]] == [
        ("import", at("2026-03-03T02:45")),
        ("consolidation", at("2026-03-03T03:00")),
        ("retention", at("2026-03-03T03:30")),
    ]
    assert len(runs) == 6
    assert await all_learned(database)


async def test_a_night_that_overruns_is_waited_for_by_retention(
    database: Database, clock: FrozenClock, settings: Settings, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "CHECK_SECONDS", 0.05)
    await log_workdays(database, 2)
    clock.set(at("2026-03-03T03:05"))
    async with run_service(database, settings):
        with hold_locks(database.dsn, DIGESTS):
            await wait_for_lock_waiters(database.dsn)
            clock.set(at("2026-03-03T03:45"))
            await asyncio.sleep(0.2)
            assert await query_number(database, "select count(*) from run where job = 'retention'") == 0
        await wait_until_counted(database, "select count(*) from run where job = 'retention' and status = 'done'")
    assert await completed_times(database) == [at("2026-03-03T03:00")]
    await assert_ledger_balances(database)


async def test_retention_from_another_process_spares_what_the_night_still_reads(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_workdays(database, 2)
    clock.set(later(clock.now(), days=40))
    working = asyncio.create_task(JobRunner(database, settings).run_due("consolidation"))
    async with open_replica(database) as other:
        with hold_locks(database.dsn, DIGESTS):
            await wait_for_lock_waiters(database.dsn)
            pruned = await JobRunner(other, settings).run_due("retention")
        assert pruned is not None
        assert (pruned["events"], pruned["spared"]) == (0, {"not learned from": 2 * len(workday_events(0))})
        done = await working
        assert done is not None
        assert done["seen"] == 2 * len(workday_events(0))
        clock.set(later(clock.now(), days=1))
        pruned = await JobRunner(other, settings).run_due("retention")
        assert pruned is not None
        assert pruned["events"] == 2 * len(workday_events(0))
    await assert_invariants(database)


async def test_a_service_told_to_stop_in_a_night_leaves_no_unit_held(
    database: Database, clock: FrozenClock, settings: Settings, at_home: Path
) -> None:
    await log_workdays(database, 5)
    clock.set(at("2026-03-03T03:05"))
    service = Service(JobRunner(database, settings))
    working = asyncio.create_task(service.serve())
    with hold_locks(database.dsn, DIGESTS):
        await wait_for_lock_waiters(database.dsn)
        service.runner.stop.set()
    await working
    assert await query_number(database, "select count(*) from claim where status = 'leased'") == 0
    assert await query_number(database, "select count(*) from claim where status = 'open'") > 0
    (interrupted,) = await query_rows(database, "select * from run where job = 'consolidation'")
    assert interrupted["status"] == "interrupted"
    done = await JobRunner(database, settings).run_due("consolidation")
    assert done is not None
    assert (done["run"], done["seen"]) == (interrupted["id"], 5 * len(workday_events(0)))
    await assert_ledger_balances(database)


async def test_a_night_that_dies_of_a_bug_ends_no_other_and_is_told_until_it_is_well(
    database: Database,
    settings: Settings,
    at_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    service = Service(JobRunner(database, settings))
    secret = "ghp_" + "Zk3" * 12
    for error in (KeyError(secret), DatabaseUnavailable("the database went away")):
        with monkeypatch.context() as patch:

            async def dying(*_: Any, error: Exception = error, **__: Any) -> Any:
                raise error

            patch.setattr("consolidator.jobs.nightly.consolidate", dying)
            await service.run_due_jobs()
        assert "consolidation" in service.errors
        assert set(service.last_results) >= {"import", "retention"}
    assert secret not in caplog.text
    await service.run_due_jobs()
    assert (service.errors, service.failures) == ({}, {})
    assert "consolidation" in service.last_results


async def test_a_night_that_dies_of_a_bug_again_and_again_is_given_up_and_told_until_the_next_is_well(
    database: Database, clock: FrozenClock, settings: Settings, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(JobRunner(database, settings))
    secret, attempts = "ghp_" + "Zk3" * 12, 0
    last_import = (
        "select status, deaths, error, finished_at from run where job = 'import' order by scheduled_at desc limit 1"
    )

    async def dying(*_: Any, **__: Any) -> Any:
        nonlocal attempts
        attempts += 1
        raise KeyError(secret)

    with monkeypatch.context() as patch:
        patch.setattr("consolidator.jobs.nightly.import_sources", dying)
        await service.run_due_jobs()
        (run,) = await query_rows(database, last_import)
        assert (run["status"], run["deaths"]) == ("failed", 1)
        assert run["error"].startswith("KeyError")
        assert secret not in run["error"]
        for _ in range(2 * MAX_ATTEMPTS):
            await service.run_due_jobs()
        with pytest.raises(KeyError):
            await JobRunner(database, settings).run_now("import")  # by hand, and once
    assert attempts == MAX_ATTEMPTS + 1
    assert list(service.failures) == ["import"]
    assert service.failures["import"].startswith("import: KeyError")
    assert secret not in service.failures["import"]
    assert await query_number(database, "select count(*) from run where status <> 'done'") == 2
    clock.advance(timedelta(days=1))
    await service.run_due_jobs()
    assert (service.errors, service.failures) == ({}, {})
    (run,) = await query_rows(database, last_import)
    assert (run["status"], run["deaths"], run["error"]) == ("done", 0, None)


async def test_a_night_that_died_of_a_bug_is_done_by_the_next_look(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = JobRunner(database, settings)
    with monkeypatch.context() as patch:
        patch.setattr("consolidator.jobs.nightly.prune", None)
        with pytest.raises(TypeError):
            await night.run_due("retention")
    assert await night.run_due("retention")
    assert await night.run_due("retention") is None
    (run,) = await query_rows(database, "select status, deaths, error from run")
    assert (run["status"], run["deaths"], run["error"]) == ("done", 0, None)


def health_environment(port: int) -> dict[str, str]:
    return {"CONSOLIDATOR_HEALTH_PORT": str(port)}


def get_health(port: int) -> tuple[int, dict[str, Any]] | None:
    """Return the status and body of /readyz; None while nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return None


def wait_until_caught_up(port: int) -> tuple[int, dict[str, Any]]:
    """Return the status and body of /healthz when all three jobs have run."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        health = get_health(port)
        if health is not None and "retention" in health[1]["last"]:
            return health
        time.sleep(0.05)
    raise AssertionError(f"not well within {PATIENCE} s")


async def test_the_service_catches_up_answers_on_loopback_and_ends_when_told(
    database: Database, environment: dict[str, str], at_home: Path
) -> None:
    agent = ClaudeCodeLog("served", at("2026-03-01T09:00"), "/home/ada/shop")
    agent.add_user_message("From now on run the tests before you commit.").add_command(
        "uv run pytest", "3 passed"
    ).add_answer("They pass.")
    LogFolder(at_home / "somewhere", [agent.file]).write(at("2026-03-02T00:00"))
    (at_home / ".claude").mkdir()
    (at_home / "somewhere" / "claude").rename(at_home / ".claude" / "projects")
    with free_port() as port, start_cli("serve", environment=environment | health_environment(port)) as service:
        health = await asyncio.to_thread(wait_until_caught_up, port)
        listening = [c.laddr.ip for c in psutil.Process(service.pid).net_connections() if c.status == "LISTEN"]
        service.send_signal(signal.SIGTERM)
        printed, logs = await asyncio.to_thread(service.communicate, PATIENCE)
    assert (service.returncode, printed) == (0, "")
    assert "health http://127.0.0.1" in logs
    assert "stopping" in logs
    assert listening == ["127.0.0.1"]
    status, body = health
    assert (status, body["status"], body["database"], body["failure"]) == (200, "ok", "ok", None)
    assert body["next"] == {
        "import": "2026-03-03T02:45:00+00:00",
        "consolidation": "2026-03-03T03:00:00+00:00",
        "retention": "2026-03-03T03:30:00+00:00",
    }
    assert "in 1 session," in body["last"]["import"]
    assert await all_learned(database)
    assert (
        await query_number(database, "select count(*) from fact") == 1
    )  # imported before the consolidation, which learned it
    assert [run["job"] for run in await query_rows(database, RUNS)] == ["import", "consolidation", "retention"]


async def test_a_night_of_a_rehearsal_too_is_begun_by_its_job_and_not_by_the_next_look(
    database: Database, settings: Settings, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A4, K1."""
    monkeypatch.setattr(scheduler, "CHECK_SECONDS", 10 * PATIENCE)
    night = at("2026-03-05T03:00")
    rehearsed = Database(database.dsn, Clock(night - timedelta(seconds=2)))
    try:
        service = Service(JobRunner(rehearsed, settings))
        serving = asyncio.create_task(service.serve())
        async with asyncio.timeout(PATIENCE):
            while night not in await completed_times(database):  # noqa: ASYNC110 - the service has no event for it
                await asyncio.sleep(0.1)
        service.runner.stop.set()
        await serving
    finally:
        await rehearsed.close()


async def test_a_service_whose_night_is_at_no_time_does_not_start(database: Database, settings: Settings) -> None:
    service = Service(JobRunner(database, settings.model_copy(update={"consolidation_cron": "at night"})))
    with pytest.raises(UsageError, match="'at night' is not a cron expression"):
        await service.serve()


async def test_a_failure_is_told_until_some_replica_has_done_the_job_well(
    database: Database, clock: FrozenClock, settings: Settings, at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_replica(database) as other:
        here, there = (Service(JobRunner(replica_database, settings)) for replica_database in (database, other))

        async def run_both(first: Service, second: Service, error: str | None = None) -> None:
            clock.advance(timedelta(days=1))
            with monkeypatch.context() as patch:
                if error is not None:

                    async def failing(*_: Any, **__: Any) -> Any:
                        raise UsageError(error)

                    patch.setattr("consolidator.jobs.nightly.import_sources", failing)
                await first.run_due_jobs()
            await second.run_due_jobs()

        await run_both(here, there, "no such source")
        assert here.failures == {"import": "import: no such source"}
        await run_both(there, here, "no such format")
        assert here.failures == {"import": "import: no such format"}
        await run_both(there, here)
        assert here.failures == {}
