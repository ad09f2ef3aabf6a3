"""Kill the program before each commit of a job or an upgrade, and check that the next run completes it.

Then the log and the memory must equal those of a job that was not killed: nothing lost, nothing learned twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from consolidator.clock import Clock
from consolidator.database import Database, schema, upgrade
from tests.acceptance.agents import ChatLog, ClaudeCodeLog, LogFolder
from tests.conftest import NOON
from tests.killing import KILLED, Killer
from tests.nights import assert_ledger_balances
from tests.support import FULL, PATIENCE, assert_invariants, read_memory

MIN_COMMITS, MAX_COMMITS = 5, 60  # commits of a job here
# Jobs with many similar commits are killed at every n-th of them; `make matrix` kills at each.
STRIDE: dict[str, int] = {} if FULL else {"consolidation": 2, "retention": 6, "reprocess": 4, "backfill": 3}
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MORNING = NOON - 6 * HOUR
# What must be equal afterwards; without write times and run ids.
STATE = {
    "session": "select id, root_id, status, head, consolidated_to, pruned_to from session",
    "event": "select session_id, seq, event_type, data::text, consolidated_at is not null from event",
    "partition": "select count(*) from pg_inherits where inhparent = 'event'::regclass",
    "leftover": """select relname from pg_class c where relkind = 'r' and relname ~ '^event_'
                   and relnamespace = current_schema()::regnamespace
                   and not exists (select from pg_inherits i where i.inhrelid = c.oid)""",
    "blob": "select sha256, size from blob",
    "reference": "select session_id, seq, sha256 from blob_ref",
    "key": "select key from imported_key",
    "file": "select format, path, size, mtime_ns from imported_file",
    "digest": """select session_id, calls, sequence, seqs, keys, counts, terms, quotes, state, error_state, summary
                 from digest""",
    "error": "select session_id, seq, fingerprint, status, record::text, merged from error_record",
    "candidate": "select id, session_id, seq, quote, rejected, reconciled from candidate",
    "scope": "select agent, project, peer, version = merged from scope",
    "letter": "select session_id, seq, error from dead_letter",
}
COMMANDS = {
    "backfill": ("backfill", "--json"),
    "reprocess": ("backfill", "--reprocess", "--replace", "--json"),
    "upgrade": ("db", "upgrade"),
}
RUNS = "select job, status from run"
OTHER_CONNECTIONS = "select count(*) from pg_stat_activity where datname = %s"


@dataclass(slots=True)
class World:
    """A server, a home with agents' logs in it, and the process that runs jobs and kills them."""

    server: str
    name: str
    environment: dict[str, str]
    killer: Killer
    databases: list[str] = field(default_factory=list)

    def create_empty(self) -> str:
        """Create an empty database, without a schema."""
        return self.copy("template0")

    def copy(self, of: str) -> str:
        """Copy a database when nobody uses it; return the copy's name."""
        name = f"{self.name}_{len(self.databases)}"
        with psycopg.connect(self.server, autocommit=True) as conn:
            wait_until_unused(conn, of)
            conn.execute(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(of)))
        self.databases.append(name)
        return name

    def drop(self, name: str) -> None:
        """Drop a database."""
        with psycopg.connect(self.server, autocommit=True) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def drop_empty_days(self, name: str) -> None:
        """Drop the partitions of days without events: retention would commit once for each."""
        with psycopg.connect(self.dsn(name), options="-c search_path=consolidator") as conn:
            for day in (1, *range(4, 18)):
                conn.execute(sql.SQL("drop table {}").format(sql.Identifier(f"event_202603{day:02}")))
            for day in (1, *range(3, 18)):
                conn.execute(sql.SQL("drop table {}").format(sql.Identifier(f"generation_chunk_202603{day:02}")))

    def dsn(self, name: str) -> str:
        """Return a database's address; without synchronous commits, since the server is never killed."""
        return make_conninfo(self.server, dbname=name, options="-c synchronous_commit=off")

    def run_job(self, name: str, job: str, at: datetime, kill_at: int = 0) -> tuple[int, str]:
        """Run a job at a time to its end, or kill it before a commit (0: never); return its exit code and output."""
        variables = {"CONSOLIDATOR_DATABASE_URL": self.dsn(name), "CONSOLIDATOR_CLOCK": at.isoformat()}
        arguments = COMMANDS.get(job, ("run", job, "--json"))
        return self.killer.run(*arguments, environment=self.environment | variables, kill_at=kill_at)

    def run_unkilled(self, name: str, job: str, at: datetime) -> None:
        """Run a job to its end."""
        with psycopg.connect(self.server, autocommit=True) as conn:
            wait_until_unused(conn, name)
        code, output = self.run_job(name, job, at)
        assert code == 0, output


def wait_until_unused(conn: psycopg.Connection[Any], name: str) -> None:
    """Wait until the server has closed the connections of dead processes to a database."""
    end = time.monotonic() + PATIENCE
    while True:
        row = conn.execute(OTHER_CONNECTIONS, [name]).fetchone()
        assert row is not None
        if not row[0]:
            return
        assert time.monotonic() < end, f"somebody still uses {name}"
        time.sleep(0.01)


def read_state(dsn: str) -> dict[str, Any]:
    """Return the log and the memory; assert the invariants and the ledger."""

    async def read() -> dict[str, Any]:
        database = Database(dsn, Clock())
        try:
            await assert_invariants(database)
            await assert_ledger_balances(database)
            async with database.connection() as conn:
                state: dict[str, Any] = {}
                for name, query in STATE.items():
                    state[name] = sorted(await (await conn.execute(query)).fetchall(), key=str)
                for job, status in await (await conn.execute(RUNS)).fetchall():
                    assert status == "done", job
            return {**state, **await read_memory(database)}
        finally:
            await database.close()

    return asyncio.run(read())


def write_logs(folder: Path) -> LogFolder:
    """Write logs of two agents over two days: a procedure, a fix, a fact, a large result, and an open call."""
    files = []
    for number in range(3):
        agent = ClaudeCodeLog(f"kill-{number}", MORNING + number * 10 * HOUR, "/home/ada/shop")
        agent.add_user_message("From now on run the tests before you commit. We use Postgres 16.")
        agent.add_call("Read", {"file_path": f"src/part_{number}.py"}, f"# part {number}\n" + "x = 1\n" * 4000)
        test = f"uv run pytest tests/test_{number}.py"
        agent.add_command(test, "ModuleNotFoundError: No module named 'shop'", fails=True)
        agent.add_command("uv pip install -e .", "Installed 1 package").add_command(test, "1 passed")
        agent.add_command("git add .").add_command(f"git commit -m 'Part {number}'", "1 file changed").add_command(
            "git push", "done"
        )
        if number == 1:  # continues the next day; one call is never answered
            agent.wait(hours=10).add_user_message("And the docs?").add_command("make docs", "built")
            agent.start_call("Bash", {"command": "make site"})
        files.append(agent.file)
    chat = ChatLog("kill-chat", MORNING, task="refund", reward=1.0)
    chat.add_user_message("My mug is broken.").add_call("get_order", {"id": "F-1"}, {"id": "F-1", "payment": "pay_1"})
    chat.add_call("refund", {"payment": "pay_1"}, {"status": "booked"}).add_answer("It is refunded.")
    return LogFolder(folder, [*files, chat.file])


@pytest.fixture(scope="module")
def world(server_dsn: str, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Create the world of this module."""
    home = tmp_path_factory.mktemp("kill")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CONSOLIDATOR_HOME": str(home / "home"),
        "CONSOLIDATOR_SOURCES": json.dumps([f"auto:{home / 'logs'}"]),
        "CONSOLIDATOR_RETENTION_MAX_SHARE": "1",
        "CONSOLIDATOR_WORKERS": "1",  # so that the n-th commit is the same in every run
    }
    killer = Killer(environment)
    kill_world = World(server_dsn, f"{template}_kill", environment, killer)
    yield kill_world
    killer.close()
    for name in kill_world.databases:
        kill_world.drop(name)


@dataclass(frozen=True, slots=True)
class Stage:
    """The database before a job, the time of the job, and the database after an unkilled run of it."""

    before: str
    at: datetime
    after: str


@pytest.fixture(scope="module")
def stages(world: World, template: str) -> dict[str, Stage]:
    """One day is imported and learned; then the next day's import, consolidation, and retention after forty days."""
    office = write_logs(Path(world.environment["HOME"]) / "logs")
    first, second = NOON + 8 * HOUR, NOON + DAY
    name = world.copy(template)
    with psycopg.connect(world.dsn(name), options="-c search_path=consolidator") as conn:
        conn.execute("insert into setting (name, value) values ('salt', %s)", [bytes(16)])
    office.write(first)
    world.run_unkilled(name, "import", first)
    world.run_unkilled(name, "consolidation", first + HOUR)
    office.write(second)
    stage_by_job = {}
    for job, at in (("import", second), ("consolidation", second + HOUR), ("retention", second + 40 * DAY)):
        before = world.copy(name)
        if job == "retention":
            world.drop_empty_days(before)
        name = world.copy(before)
        world.run_unkilled(name, job, at)
        stage_by_job[job] = Stage(before, at, name)
    night = stage_by_job["consolidation"]
    for job, before in (("backfill", night.before), ("reprocess", night.after)):
        name = world.copy(before)
        world.run_unkilled(name, job, night.at)
        stage_by_job[job] = Stage(before, night.at, name)
    return stage_by_job


@pytest.mark.parametrize("job", ["import", "consolidation", "retention", "backfill", "reprocess"])
def test_a_job_that_is_killed_at_any_commit_is_made_whole_by_the_next_run(
    job: str, world: World, stages: dict[str, Stage]
) -> None:
    stage = stages[job]
    expected = read_state(world.dsn(stage.after))
    for number in range(1, MAX_COMMITS, STRIDE.get(job, 1)):
        name = world.copy(stage.before)
        code, output = world.run_job(name, job, stage.at, number)
        world.run_unkilled(name, job, stage.at + HOUR)
        state = read_state(world.dsn(name))
        for part, value in expected.items():
            assert state[part] == value, f"{part} after a kill at commit {number}"
        world.drop(name)
        if code != KILLED:  # it has no more commits
            assert (code, number > MIN_COMMITS) == (0, True), output
            return
    pytest.fail(f"{job} has more than {MAX_COMMITS} commits")


async def find_drift(dsn: str) -> list[str]:
    """Return how a database's schema differs from this version's."""
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        return await schema.find_drift(conn)


def test_an_upgrade_that_is_killed_at_any_commit_is_made_whole_by_the_next_start(world: World, template: str) -> None:
    expected = read_state(world.dsn(world.copy(template)))
    for number in range(1, MAX_COMMITS):
        name = world.create_empty()
        code, output = world.run_job(name, "upgrade", NOON, number)
        world.run_unkilled(name, "upgrade", NOON)
        dsn = world.dsn(name)
        assert upgrade.get_revision(dsn) == upgrade.newest_revision()
        assert asyncio.run(find_drift(dsn)) == []
        assert read_state(dsn) == expected
        world.drop(name)
        if code != KILLED:
            assert (code, number > 1) == (0, True), output
            return
    pytest.fail(f"an upgrade has more than {MAX_COMMITS} commits")
