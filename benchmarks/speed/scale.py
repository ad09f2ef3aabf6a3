"""One night's log learned by one process, by three that share it by claims, and by three that share it by DBOS.

Then one of the three is killed halfway. Each night learns from a copy of the same log: from every event once, whatever
dies, and the same memory. No process starts learning processes of its own: on two cores they would hide the three.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.processor_time import own_processor_seconds, processor_times, server_processor_seconds
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from consolidator.clock import FrozenClock
from consolidator.database import Database
from tests.nights import hold_locks, query_number, query_rows
from tests.support import read_memory

TITLE = "a night by one process, and shared by three"
SESSIONS = {"tiny": 40, "small": 150, "full": 5000}
LENGTH = {"tiny": 20, "small": 200, "full": 200}
BATCH = 50  # sessions written in one transaction
PROCESSES = 3
ENGINES = ("claims", "dbos")
COMMAND = ["-m", "consolidator", "run", "consolidation"]
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
DONE = "select count(*) from claim where kind = 'session' and status = 'done'"
NOT_ONCE = "select count(*) from claim where kind = 'session' and (status <> 'done' or seen <> %s)"
BEGUN_AGAIN = "select count(*) from claim where attempts > 1"
SHARES = """
select sum(seen)::float / sum(sum(seen)) over () as share from claim where kind = 'session'
group by split_part(owner, '/', -3) order by 1"""  # by process
HOLDER = "select owner from claim where kind = 'session' and status = 'leased' order by unit limit 1"
CONDUCTOR = "select executor_id as owner from consolidator_dbos.workflow_status where name = 'night'"


@dataclass(frozen=True, slots=True)
class Night:
    """How a night went."""

    seconds: float
    learning: float  # of these, until all sessions were done
    used: float  # seconds of processor time, the server's among them
    server: float
    shares: list[float]  # of the events, for each process, the idlest first
    begun_again: int  # units
    memory: str  # a hash of it


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Run the nights one after another, and compare them."""
    report = Report("scale", TITLE, scale)
    count, length = SESSIONS[scale], LENGTH[scale]
    clock = FrozenClock(datetime.now(UTC) - timedelta(hours=1))

    async def fill(database: Database) -> None:
        async with database.connection() as conn:
            await conn.execute("insert into setting (name, value) values ('salt', %s)", [bytes(16)])
        for first in range(0, count, BATCH):
            async with database.transaction(flushed=False) as conn:
                for number in range(first, min(first + BATCH, count)):
                    await synthetic_sessions.write_session(conn, number, length, now=clock.now())
        async with database.connection() as conn:
            await conn.execute("vacuum analyze")

    async with server.open_kept_database(f"scale_{count}", clock, fill) as log:
        await log.close()  # it is copied
        one = await _run_night(server, log, (count, length), "claims", 1)
        shared = {name: await _run_night(server, log, (count, length), name, PROCESSES) for name in ENGINES}
        killed = {name: await _run_night(server, log, (count, length), name, PROCESSES, kills=True) for name in ENGINES}
    nights = {"one": one, **shared, **{f"{name}, one killed": night for name, night in killed.items()}}
    assert len({night.memory for night in nights.values()}) == 1
    claims, dbos = shared.values()
    is_long = scale == "full"  # else what DBOS takes to start, and a look at who has died, are half of a night
    report.add("events", count * length, f"in {count:,} sessions")
    report.add("three by claims / one", one.seconds / claims.seconds, "of its rate", at_least=1.3 if is_long else None)
    ratio = claims.seconds / dbos.seconds
    report.add("three by dbos / by claims", ratio, "of its rate", at_least=0.8 if is_long else None)
    for name, night in shared.items():
        lost = killed[name].seconds / night.seconds
        report.add(f"{name}: one killed / none", lost, "of its time", at_most=1.5 if is_long else None)
        report.add(f"{name} / one, processor time", night.used / one.used)
        report.add(f"{name}: share of the busiest", night.shares[-1], "of events", at_most=0.45)
        report.add(f"{name}: share of the idlest", night.shares[0], "of events")
    for name, night in nights.items():
        report.add(name, count * length / night.seconds, "events/s")
        report.add(f"{name}: processor time", night.used / count / length * 1000, "ms/event")
        report.add(f"{name}: of it the server's", night.server / night.used)
    report.details["nights"] = {name: asdict(night) for name, night in nights.items()}
    return report


async def _run_night(
    server: BenchmarkServer, log: Database, size: tuple[int, int], engine: str, processes: int, *, kills: bool = False
) -> Night:
    """Have processes learn a copy of a log, from the moment when all have started; with `kills` kill one halfway."""
    count, length = size
    async with server.open_database(template=str(conninfo_to_dict(log.dsn)["dbname"])) as database:
        environment = server.environment(database.dsn, learn_processes="1", night_engine=engine)
        with hold_locks(database.dsn, "lock table run in access exclusive mode"):
            running = [
                await asyncio.create_subprocess_exec(
                    sys.executable, *COMMAND, env=environment, stdout=PIPE, stderr=PIPE
                )
                for _ in range(processes)
            ]
            ending = asyncio.gather(*(process.communicate() for process in running))
            await _wait_until_counted(database, WAITING, processes, ending)
            loading = sum(processor_times(process.pid for process in running).values()) / 1000 + own_processor_seconds()
            server_seconds, started = await server_processor_seconds(database), time.perf_counter()
        if kills:
            await _wait_until_counted(database, DONE, count // 2, ending)
            await _kill_one(database, CONDUCTOR if engine == "dbos" else HOLDER, running)
        await _wait_until_counted(database, DONE, count, ending)
        learning = time.perf_counter() - started
        printed = await ending
        seconds, processor = time.perf_counter() - started, own_processor_seconds() - loading
        codes = [-signal.SIGKILL] * kills + [0] * (processes - kills)
        assert sorted(process.returncode or 0 for process in running) == codes, printed
        assert await query_number(database, NOT_ONCE, length) == 0
        shares = [row["share"] for row in await query_rows(database, SHARES)]
        server_seconds = await server_processor_seconds(database) - server_seconds
        memory = hashlib.blake2b(repr(await read_memory(database)).encode()).hexdigest()
        again = await query_number(database, BEGUN_AGAIN)
        shares = [0.0] * (processes - len(shares)) + shares
        return Night(seconds, learning, processor + server_seconds, server_seconds, shares, again, memory)


async def _wait_until_counted(database: Database, query: str, number: int, ending: asyncio.Future[Any]) -> None:
    """Wait until a query counts so many, or all processes have ended."""
    while not ending.done() and await query_number(database, query) < number:  # noqa: ASYNC110 - other processes count
        await asyncio.sleep(0.05)


async def _kill_one(database: Database, query: str, running: Sequence[Process]) -> None:
    """Kill the process that a query names, which is in the middle of something."""
    pids = {int(row["owner"].split("/")[-3]) for row in await query_rows(database, query)}
    victims = [process for process in running if process.pid in pids] or running
    victims[0].kill()
