"""Small files of one import are written together, and become what they become one by one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from consolidator.database import Database
from consolidator.errors import Interrupted
from consolidator.formats.registry import get_format
from consolidator.jobs.importing import importer, intake
from consolidator.jobs.importing.importer import ImportSource
from tests.integration.log.claude_logs import import_logs, read_texts, user_line, user_lines, write_log
from tests.integration.log.test_import_odd import INCOMPRESSIBLE
from tests.integration.log.test_imported_forks import TREE, WHOLE, read_pasts
from tests.support import assert_invariants


async def count_files(database: Database) -> int:
    """How many files are remembered as read."""
    async with database.connection() as conn:
        (count,) = await (await conn.execute("select count(*) from imported_file")).fetchone() or (0,)
    return int(count)


async def count_transactions(database: Database) -> int:
    """How many transactions of the log's tables there were: each has a key or a file of its own."""
    async with database.connection() as conn:
        query = "select count(distinct xmin::text) from imported_key"
        (count,) = await (await conn.execute(query)).fetchone() or (0,)
    return int(count)


@pytest.mark.parametrize("files_at_once", [1, 2, 1000])
async def test_small_files_share_a_transaction(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files_at_once: int
) -> None:
    monkeypatch.setattr(importer, "FILES_AT_ONCE", files_at_once)
    for number in range(30):
        write_log(tmp_path / f"{number:02}.jsonl", user_lines(3, f"s{number:02}"))
    report = await import_logs(database, tmp_path)
    assert (report.files, report.events, len(report.sessions), report.problems) == (30, 120, 30, [])
    assert (await count_transactions(database), await count_files(database)) == (1, 30)
    assert (await read_texts(database))["s29"] == ["SessionStart", "s29 says 1", "s29 says 2", "s29 says 3"]
    again = await import_logs(database, tmp_path)
    assert (again.files, again.unchanged, again.events) == (0, 30, 0)
    await assert_invariants(database)


@pytest.mark.parametrize("batch", [1, 2, 7, 1000])
@pytest.mark.parametrize("order", [*itertools.permutations("pcd"), ("e", "d", "c", "p"), ("c", "e", "p", "d")])
async def test_forks_in_one_import_read_what_they_read_one_by_one(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Sequence[str], batch: int
) -> None:
    monkeypatch.setattr(intake, "BATCH_EVENTS", batch)
    for number, name in enumerate(order):
        write_log(tmp_path / f"{number}-{name}.jsonl", TREE[name])
    assert (await import_logs(database, tmp_path)).problems == []
    assert await read_pasts(database) == {name: WHOLE[name] for name in sorted(order)}
    await assert_invariants(database)


async def test_a_session_that_goes_on_in_another_file_keeps_its_order(database: Database, tmp_path: Path) -> None:
    lines = user_lines(4, "s")
    write_log(tmp_path / "1.jsonl", [*lines[:2], user_line(1, "t says 1", "t")])
    write_log(tmp_path / "2.jsonl", [user_line(1, "u says 1", "u"), *lines])
    report = await import_logs(database, tmp_path)
    assert (report.problems, len(report.sessions), report.repeated > 0) == ([], 3, True)
    assert (await read_texts(database))["s"] == ["SessionStart", *(f"s says {number}" for number in range(1, 5))]


async def test_each_problem_names_its_own_file(database: Database, tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", user_lines(2, "a"))
    write_log(tmp_path / "b.jsonl", [*user_lines(1, "b"), user_line(2, "this", "b"), user_line(2, "that", "b")])
    write_log(tmp_path / "c.jsonl", ["nonsense", *user_lines(1, "c")])
    write_log(tmp_path / "d.jsonl", user_lines(2, "d"))
    report = await import_logs(database, tmp_path)
    assert sorted(problem.partition(": ")[0] for problem in report.problems) == [
        f"{tmp_path}/b.jsonl:3",
        f"{tmp_path}/c.jsonl:1",
    ]
    assert sorted(await read_texts(database)) == ["a", "b", "c", "d"]


async def test_what_the_database_cannot_hold_costs_one_event_of_one_file(database: Database, tmp_path: Path) -> None:
    for number in range(5):
        session = {"id": f"n{number}", "agent": "a", "project": INCOMPRESSIBLE if number == 3 else "shop"}
        said = {"seq": 1, "type": "UserMessage", "data": {"text": "fine"}}
        write_log(tmp_path / f"{number}.jsonl", [{"consolidator": 1, "session": session}, said])
    pruned = {"consolidator": 1, "session": {"id": "pruned", "agent": "a", "pruned_to": 4}}
    write_log(tmp_path / "5.jsonl", [pruned])
    report = await import_logs(database, tmp_path, "consolidator")
    (problem,) = report.problems
    assert problem.startswith(f"{tmp_path}/3.jsonl:2: the database cannot hold it: ")
    texts = await read_texts(database)
    assert texts == {"n0": ["fine"], "n1": ["fine"], "n2": ["fine"], "n4": ["fine"], "pruned": []}  # of one buffer
    assert await count_files(database) == 6


async def test_a_file_that_is_named_twice_is_read_once(database: Database, tmp_path: Path) -> None:
    write_log(tmp_path / "s.jsonl", user_lines(3))
    source = ImportSource(tmp_path, get_format("claude-code"))
    report = await importer.import_sources(database, [source, source])
    assert (report.files, report.unchanged, report.events, report.repeated) == (1, 1, 4, 0)


async def test_who_stops_an_import_keeps_the_files_that_were_read(database: Database, tmp_path: Path) -> None:
    for name in "abcd":
        write_log(tmp_path / f"{name}.jsonl", user_lines(2, name))
    stop, seen = asyncio.Event(), 0

    def stop_after_two(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            stop.set()

    with pytest.raises(Interrupted):
        await import_logs(database, tmp_path, stop=stop, watch=importer.ImportWatch(stop_after_two))
    assert (sorted(await read_texts(database)), await count_files(database)) == (["a", "b"], 2)
    report = await import_logs(database, tmp_path)
    assert (report.unchanged, report.files, report.repeated) == (2, 2, 0)
    assert sorted(await read_texts(database)) == ["a", "b", "c", "d"]


async def test_a_file_of_another_format_takes_no_other_file_s_problems_with_it(
    database: Database, tmp_path: Path
) -> None:
    write_log(tmp_path / "a.jsonl", ["nonsense"])
    write_log(tmp_path / "b.jsonl", ['{"type":"session","id":"b","cwd":"/x","timestamp":"2026-01-01T00:00:00Z"}'])
    write_log(tmp_path / "c.jsonl", ["nonsense"])
    report = await import_logs(database, tmp_path)
    assert report.misread == [f"{tmp_path}/b.jsonl looks like pi, not claude-code"]
    assert [problem.partition(":")[0] for problem in report.problems] == [f"{tmp_path}/a.jsonl", f"{tmp_path}/c.jsonl"]
