"""A backup holds everything as of one moment, and restores into an empty database, whole or not at all."""

from __future__ import annotations

import stat
from datetime import timedelta
from pathlib import Path

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import DatabaseError, UsageError
from consolidator.service.database import back_up_database, restore_database, verify_database
from consolidator.settings import Settings
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
    written = await in_thread(run_cli, "backup", str(tmp_path / "backup"), environment=environment)
    assert "bytes to" in written.stdout
    refused = await in_thread(run_cli, "restore", str(tmp_path / "backup"), environment=environment, code=4)
    assert "holds sessions or facts" in refused.stderr
