"""A disk that is full: told as that with exit code 4, nothing is dead, and with room again all is done."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import DiskFull
from consolidator.jobs.nightly import JobRunner
from consolidator.jobs.scheduler import Service
from consolidator.settings import Settings
from tests.integration.log.claude_logs import import_logs, user_line, user_lines, write_log
from tests.nights import assert_ledger_balances, query_number, workday_events
from tests.support import in_thread, later, log_events, run_cli, run_job

SPACE = "small_disk"


class SmallDisk:
    """A file system of few megabytes in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Take all the room that is left."""
        with pytest.raises(OSError, match="No space left"):
            self._write_on()

    def _write_on(self) -> None:
        with (self.folder / "filler").open("wb", buffering=0) as filler:
            while filler.write(b"x" * 4096):
                pass

    def free(self) -> None:
        """Give the room back."""
        (self.folder / "filler").unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A small file system, where mounting one is permitted."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def moved(database: Database, small_disk: SmallDisk, server_dsn: str) -> Iterator[SmallDisk]:
    """The small disk, with the tables of what is learned and of large payloads on it."""
    place = small_disk.folder / "space"
    place.mkdir()
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        row = conn.execute("show data_directory").fetchone()
        assert row is not None
        owner = Path(row[0]).stat()
        for folder in (place, small_disk.folder):
            os.chown(folder, owner.st_uid, owner.st_gid)
        for folder in small_disk.folder.parents:  # the server must reach it
            if folder.stat().st_uid == os.getuid() and folder != Path("/"):
                folder.chmod(folder.stat().st_mode | 0o011)
        conn.execute(sql.SQL("create tablespace {} location {}").format(sql.Identifier(SPACE), sql.Literal(str(place))))
    tables = ("blob", "candidate", "digest", "episode")
    try:
        with psycopg.connect(database.dsn, autocommit=True) as conn:
            for table in tables:
                conn.execute(f"alter table consolidator.{table} set tablespace {SPACE}".encode())
        yield small_disk
    finally:
        with psycopg.connect(database.dsn, autocommit=True) as conn:
            for table in tables:
                conn.execute(f"alter table consolidator.{table} set tablespace pg_default".encode())
        with psycopg.connect(server_dsn, autocommit=True) as conn:
            conn.execute(f"drop tablespace {SPACE}".encode())


def large_log(path: Path) -> Path:
    """A log with more than the small disk takes."""
    noise = random.Random(1)
    lines = [user_line(n, noise.randbytes(300_000).hex()) for n in range(1, 9)]
    return write_log(path, [*user_lines(1, "before"), *lines])


async def test_an_import_is_told_and_goes_on_with_room(database: Database, moved: SmallDisk, tmp_path: Path) -> None:
    log = large_log(tmp_path / "logs" / "s.jsonl")
    with pytest.raises(DiskFull, match="no room on its disk"):
        await import_logs(database, log)
    async with database.connection() as conn:
        await conn.execute("alter table blob set tablespace pg_default")
    report = await import_logs(database, log)
    assert (report.problem_count, report.events + report.repeated) == (0, 11)


async def test_the_service_tells_a_full_disk_and_tries_again(
    database: Database, settings: Settings, moved: SmallDisk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = large_log(tmp_path / "logs" / "s.jsonl")
    service = Service(JobRunner(database, settings.model_copy(update={"sources": [f"claude-code:{log}"]})))
    await service.run_due_jobs()
    assert "no room on its disk" in service.errors["import"]
    assert "Traceback" not in caplog.text
    async with database.connection() as conn:
        await conn.execute("alter table blob set tablespace pg_default")
    await service.run_due_jobs()
    assert service.errors == {}
    assert await query_number(database, "select count(*) from run where job = 'import' and status = 'done'") == 1


async def test_a_night_on_a_full_disk_leaves_nothing_dead_and_is_done_with_room(
    database: Database, clock: FrozenClock, settings: Settings, moved: SmallDisk
) -> None:
    for number in range(30):
        await log_events(database, f"day{number}", workday_events(number))
    clock.set(later(clock.now(), hours=1))
    moved.fill()
    with pytest.raises(DiskFull):
        await run_job(database, settings)
    assert await query_number(database, "select count(*) from dead_letter") == 0
    assert await query_number(database, "select count(*) from claim where status = 'dead'") == 0
    moved.free()
    report = await run_job(database, settings)
    assert (report["status"], report["dead"]) == ("done", 0)
    assert await query_number(database, "select count(*) from event where consolidated_at is null") == 0
    await assert_ledger_balances(database)


# What a person names to write to.
WRITERS: dict[str, list[str]] = {
    "a backup": ["db", "backup", "{}/backup"],
    "an export": ["export", "-o", "{}/log.jsonl"],
    "a directory of skills": ["procedures", "--export", "{}/skills", "--all"],
}


@pytest.mark.parametrize("what", WRITERS)
async def test_a_command_whose_file_has_no_room_ends_with_4(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    environment: dict[str, str],
    small_disk: SmallDisk,
    what: str,
) -> None:
    for number in range(4):
        await log_events(database, f"day{number}", workday_events(number))
    clock.set(later(clock.now(), hours=1))
    await run_job(database, settings)
    small_disk.fill()
    words = [word.format(small_disk.folder) for word in WRITERS[what]]
    done = await in_thread(run_cli, *words, environment=environment, code=4)
    assert "Traceback" not in done.stderr
    assert any(reason in done.stderr for reason in ("disk is full", "No space left on device"))
    small_disk.free()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("words", [["--help"], ["settings"], ["facts", "--json"]])
async def test_output_that_has_no_room_ends_with_4(environment: dict[str, str], words: list[str]) -> None:
    def run() -> subprocess.CompletedProcess[bytes]:
        with Path("/dev/full").open("wb") as full:
            command: list[Any] = [sys.executable, "-m", "consolidator", *words]
            return subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment, check=False)

    done = await in_thread(run)
    assert done.returncode == (2 if words == ["settings"] else 4)
    assert b"Traceback" not in done.stderr
