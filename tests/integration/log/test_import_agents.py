"""Each agent's log through a whole import: found in its place by itself, read once, then its new part alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from backports import zstd

from consolidator.database import Database
from consolidator.formats.agent_folders import log_folders
from consolidator.formats.registry import FORMATS, find_local_logs
from consolidator.jobs.importing.import_report import ImportReport
from consolidator.jobs.importing.importer import ImportSource, import_sources
from tests.support import assert_invariants
from tests.unit.formats.agent_logs import LOGS, AgentLog, Records
from tests.unit.formats.test_conformance import conversation

ROOTS = {
    "antigravity": ".gemini",
    "gemini": ".gemini",
    "qwen": ".qwen",
    "opencode": ".local/share/opencode",
    "cline": ".cline/data",
    "copilot": ".copilot",
    "goose": ".local/share/goose",
    "kimi": ".kimi-code",
    "openhands": ".openhands",
    "aider": ".",
    "cursor": ".cursor",
    "pi": ".openclaw",
    "codex": ".codex",
    "claude-code": ".claude",
}


async def import_home(database: Database, home: Path) -> ImportReport:
    """Import what agents left in a home."""
    found = [ImportSource(path, log_format) for log_format, path in find_local_logs(home, {})]
    return await import_sources(database, found)


@pytest.mark.parametrize("builder", LOGS)
async def test_an_agents_log_is_found_and_imported_once(database: Database, tmp_path: Path, builder: str) -> None:
    log: AgentLog = LOGS[builder]()
    records: Records = conversation(log)
    folder = tmp_path / ROOTS[log.name]
    log.write(folder, records)
    first = await import_home(database, tmp_path)
    assert (first.problem_count, len(first.sessions)) == (0, 1)
    second = await import_home(database, tmp_path)
    assert (second.events, second.files) == (0, 0)
    log.write(folder, [*records, *log.prompt("Now stop."), *log.answer("I stop.")])
    third = await import_home(database, tmp_path)
    assert 0 < third.events <= 3  # aider's last answer goes on
    assert third.problem_count == 0
    await assert_invariants(database)


@pytest.mark.parametrize("builder", LOGS)
async def test_a_long_log_is_imported_to_its_end(database: Database, tmp_path: Path, builder: str) -> None:
    log: AgentLog = LOGS[builder]()
    records = log.header()
    for number in range(400):
        records += [*log.prompt(f"Look at case {number} of the shop."), *log.answer(f"Case {number} is done.")]
    log.write(tmp_path / ROOTS[log.name], records)
    report = await import_home(database, tmp_path)
    assert report.problem_count == 0
    assert report.events >= 800


async def test_a_log_that_grew_and_was_compressed_is_learned_once(database: Database, tmp_path: Path) -> None:
    log = LOGS["Codex"]()
    records = conversation(log)
    log.write(tmp_path / ".codex", records)
    assert (await import_home(database, tmp_path)).events > 0
    path = log.write(tmp_path / ".codex", [*records, *log.answer("Done at last.")])
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstd.compress(path.read_bytes()))
    path.unlink()
    grown = await import_home(database, tmp_path)
    assert (grown.events, grown.problem_count, len(grown.sessions)) == (1, 0, 1)
    packed.touch()
    assert (await import_home(database, tmp_path)).events == 0


@pytest.mark.parametrize("builder", ["OpenCode", "GooseDatabase"])
async def test_a_database_that_its_agent_writes_is_read_as_committed(
    database: Database, tmp_path: Path, builder: str
) -> None:
    log = LOGS[builder]()
    path = log.write(tmp_path / ROOTS[log.name], conversation(log))
    with closing(sqlite3.connect(path, isolation_level=None)) as agent:
        agent.execute("PRAGMA journal_mode = WAL")
        agent.execute("BEGIN IMMEDIATE")
        agent.execute(f"DELETE FROM {'part' if builder == 'OpenCode' else 'messages'}")
        held = await import_home(database, tmp_path)
        assert held.problem_count == 0
        assert held.events > 5
        agent.execute("ROLLBACK")
    assert (await import_home(database, tmp_path)).events == 0


def test_each_agents_place_is_one_that_is_looked_in() -> None:
    names = {name for name in FORMATS if log_folders(name, Path("/home"), {})}
    assert set(ROOTS) == names == {log.name for log in LOGS.values()}
