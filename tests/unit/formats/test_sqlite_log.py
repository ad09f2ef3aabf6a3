"""Agents' databases are read whole while their agents run, are never locked, and cannot make a reader run their SQL."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from consolidator.formats.agents import opencode
from consolidator.formats.base import Problem
from consolidator.formats.common import sqlite_log
from tests.unit.formats.agent_logs import OpenCode
from tests.unit.formats.reader_helpers import Log

ADD = 'INSERT INTO part VALUES (\'prt_9\', ?, \'ses_1\', 1, \'{"type": "text", "text": "Use spaces."}\')'


def write(folder: Path) -> Path:
    """Write a database with one prompt."""
    log = OpenCode()
    return log.write(folder, log.prompt("Use tabs."))


def read(path: Path) -> list[str]:
    """Return the words of people in a database."""
    return Log(opencode, [path], path.parent).user_texts()


def test_what_a_running_agent_has_not_checkpointed_is_read_and_nothing_is_locked(tmp_path: Path) -> None:
    path = write(tmp_path)
    with sqlite3.connect(path) as agent:
        agent.execute("PRAGMA journal_mode = WAL")
        message = agent.execute("SELECT id FROM message").fetchone()[0]
        agent.execute(ADD, (message,))
        agent.commit()
        agent.execute("BEGIN IMMEDIATE")  # it holds the only lock for writing, and is in the middle of a change
        agent.execute("UPDATE part SET data = '{}'")
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        assert read(path) == ["Use tabs.", "Use spaces."]
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
        agent.rollback()
        agent.execute("DELETE FROM part")
        agent.commit()
    agent.close()
    assert read(path) == []


def test_a_database_that_nobody_writes_is_read_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    monkeypatch.setattr(sqlite_log, "MAX_COPY", 0)
    try:
        assert read(path) == ["Use tabs."]
    finally:
        tmp_path.chmod(0o700)


def test_a_change_that_a_crash_cut_off_is_rolled_back_in_the_copy(tmp_path: Path) -> None:
    path = write(tmp_path)
    crash = f"""
import os, sqlite3
agent = sqlite3.connect({str(path)!r}, isolation_level=None)
agent.execute("PRAGMA cache_size = 1")
agent.execute("BEGIN")
agent.execute("UPDATE part SET data = hex(randomblob(200000))")
agent.execute("INSERT INTO message SELECT 'm' || value, 'ses_1', 1, hex(randomblob(900)) FROM json_each('[1,2,3]')")
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", crash], check=False)
    assert Path(f"{path}-journal").stat().st_size > 0
    before = path.read_bytes()
    assert read(path) == ["Use tabs."]
    assert path.read_bytes() == before


def test_a_database_that_is_too_large_to_copy_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    Path(f"{path}-wal").write_bytes(b"x" * 100)
    monkeypatch.setattr(sqlite_log, "MAX_COPY", 50)
    with pytest.raises(OSError, match="end the agent, then import again"):
        read(path)


def test_a_view_in_the_place_of_a_table_is_not_run(tmp_path: Path) -> None:
    path = write(tmp_path)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'x' AS data FROM n"
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE part")
        database.execute(f"CREATE VIEW part AS {endless}")
    database.close()
    log = Log(opencode, [path], tmp_path)
    assert (log.user_texts(), [problem.reason for problem in log.problems]) == ([], ["the database has no table part"])


def test_columns_that_an_older_version_does_not_have_are_empty(tmp_path: Path) -> None:
    path = write(tmp_path)
    with sqlite3.connect(path) as database:
        for column in ("revert", "parent_id", "version"):
            database.execute(f"ALTER TABLE session DROP COLUMN {column}")
    database.close()
    assert read(path) == ["Use tabs."]


def test_what_a_revert_took_back_is_not_read(tmp_path: Path) -> None:
    log = OpenCode()
    path = log.write(tmp_path, [*log.prompt("Use tabs."), *log.prompt("Use spaces.")])
    with sqlite3.connect(path) as database:
        last = database.execute("SELECT max(id) FROM message").fetchone()[0]
        database.execute("UPDATE session SET revert = ?", (f'{{"messageID": "{last}"}}',))
    database.close()
    result = Log(opencode, [path], tmp_path)
    assert result.user_texts() == ["Use tabs."]
    assert result.skipped_kinds().count("reverted") == 2


def test_a_damaged_page_costs_its_file_and_not_the_import(tmp_path: Path) -> None:
    log = OpenCode()
    path = log.write(tmp_path, [record for number in range(400) for record in log.prompt(f"Use tabs, {number}.")])
    content = bytearray(path.read_bytes())
    for start in range(8192, len(content), 4096):
        content[start : start + 64] = b"\xff" * 64
    path.write_bytes(content)
    try:
        items = list(opencode.read(path, tmp_path))
    except OSError as error:
        items = [Problem(str(error))]
    assert any(isinstance(item, Problem) for item in items)
