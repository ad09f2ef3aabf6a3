"""A backup holds everything as of one moment, and restores into an empty database, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from consolidator.clock import FrozenClock
from consolidator.database import Database, upgrade
from consolidator.database.embedded import account
from consolidator.errors import DatabaseError, UsageError
from consolidator.service.database import back_up_database, restore_database, verify_database
from consolidator.settings import Settings
from tests.conftest import NOON
from tests.databases import database_copy
from tests.integration.conftest import OpenDatabase
from tests.nights import dump_tables, log_workdays, run_next_night
from tests.support import call_and_result, in_thread, log_events, run_cli, user_message


@pytest.fixture
async def learned(database: Database, clock: FrozenClock, settings: Settings) -> Database:
    """A log with blobs, from which a night has learned."""
    await log_workdays(database, 4)
    await log_events(database, "large", call_and_result("c", "Bash", {"command": "make"}, "ü" * 40_000))
    clock.advance(timedelta(hours=1))
    await run_next_night(database, clock, settings)
    return database


async def test_everything_is_there_again(
    learned: Database, fresh: OpenDatabase, settings: Settings, clock: FrozenClock, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    assert await back_up_database(learned, file) == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = await dump_tables(learned)
    await log_events(learned, "later", [user_message("this came after the backup")])
    async with fresh() as other:
        async with other.connection() as conn:
            await conn.execute("delete from setting")
        await restore_database(other, file)
        assert await dump_tables(other) == before
        assert not any((await verify_database(other)).values())
        await log_events(other, "new", [user_message("it goes on")])
        clock.advance(timedelta(hours=1))
        other.clock.set(clock.now())  # type: ignore[attr-defined]
        await run_next_night(other, clock, settings)


async def test_a_database_that_holds_something_is_not_replaced(learned: Database, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    await back_up_database(learned, file)
    before = await dump_tables(learned)
    with pytest.raises(DatabaseError, match="holds sessions or facts"):
        await restore_database(learned, file)
    assert await dump_tables(learned) == before
    with pytest.raises(UsageError, match="exists"):
        await back_up_database(learned, file)


async def test_what_is_no_backup_changes_nothing(database: Database, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(DatabaseError, match="pg_restore failed"):
        await restore_database(database, tmp_path / "text")
    with pytest.raises(UsageError, match="no file"):
        await restore_database(database, tmp_path / "none")
    await log_events(database, "s", [user_message("still works")])


async def test_the_commands_say_what_they_did(learned: Database, environment: dict[str, str], tmp_path: Path) -> None:
    written = await in_thread(run_cli, "db", "backup", str(tmp_path / "backup"), environment=environment)
    assert "bytes to" in written.stdout
    refused = await in_thread(run_cli, "db", "restore", str(tmp_path / "backup"), environment=environment, code=4)
    assert "holds sessions or facts" in refused.stderr


async def test_a_restore_that_was_killed_begins_again(
    learned: Database, server_dsn: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Before anything is restored, and while pg_restore works: nothing is there, or all of it."""
    file, before = tmp_path / "backup", await dump_tables(learned)
    await back_up_database(learned, file)
    for delay in (0.0, 0.3, 1.0, 1.6, 2.2):
        with empty_database(server_dsn) as address:
            settings = environment | {"CONSOLIDATOR_DATABASE_URL": address}
            command = [sys.executable, "-m", "consolidator", "db", "restore", str(file)]
            process = await asyncio.create_subprocess_exec(*command, env=settings, stderr=subprocess.DEVNULL)
            await asyncio.sleep(delay)
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            database = Database(address, FrozenClock(NOON))
            try:
                await asyncio.to_thread(wait_until_unused, address)
                await asyncio.to_thread(upgrade.upgrade, address, database.clock)
                with suppress(DatabaseError):  # pg_restore had got everything
                    await restore_database(database, file)
                assert await dump_tables(database) == before
                assert not any((await verify_database(database)).values())
            finally:
                await database.close()


def wait_until_unused(address: str) -> None:
    """Wait until a pg_restore whose parent was killed has ended."""
    query = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    with psycopg.connect(address, autocommit=True) as conn:
        while conn.execute(query).fetchone() != (0,):
            time.sleep(0.05)


@contextmanager
def empty_database(server_dsn: str) -> Iterator[str]:
    """Yield the address of a database without our schema."""
    with database_copy(server_dsn, "template1") as address:
        yield address


@pytest.fixture(scope="module")
def older_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of an older major version, where the machine has its programs."""
    programs = sorted(Path("/usr/lib/postgresql").glob("1[5-7]/bin"))
    if not programs:
        pytest.skip("no older PostgreSQL is installed")
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    owner = account.choose_initdb_account(account.choose_cluster_owner())
    os.chown(folder, owner.uid, owner.gid)
    run = partial(subprocess.run, check=True, capture_output=True, cwd="/", **owner.credentials())
    pg_ctl = [str(programs[0] / "pg_ctl"), "-D", str(folder / "data"), "-w", "-l", str(folder / "log")]
    try:
        run([str(programs[0] / "initdb"), "-D", str(folder / "data"), "-U", "boss", "--auth=trust", "-E", "UTF8", "-N"])
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        run([*pg_ctl, "-o", options, "start"])
        yield make_conninfo(host=str(folder), user="boss", dbname="postgres")
        run([*pg_ctl, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_backup_moves_to_a_newer_major_version_and_not_back(
    older_server: str, fresh: OpenDatabase, settings: Settings, clock: FrozenClock, tmp_path: Path
) -> None:
    older = Database(older_server, clock)
    try:
        await asyncio.to_thread(upgrade.upgrade, older_server, clock)
        await log_workdays(older, 2)
        await run_next_night(older, clock, settings)
        await back_up_database(older, tmp_path / "older")
        before = await dump_tables(older)
        async with fresh() as newer:
            async with newer.connection() as conn:
                await conn.execute("delete from setting")
            await restore_database(newer, tmp_path / "older")
            assert await dump_tables(newer) == before
            assert not any((await verify_database(newer)).values())
            await back_up_database(newer, tmp_path / "newer")
        with pytest.raises(DatabaseError, match="same or a newer major version"):
            await restore_database(older, tmp_path / "newer")
        assert await dump_tables(older) == before
    finally:
        await older.close()
