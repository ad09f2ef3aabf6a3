"""Odd folders and odd values through a whole import: one clear line each, and every other file is imported."""

from __future__ import annotations

import json
import os
import random
import string
from pathlib import Path
from typing import Any

import pytest

from consolidator.database import Database
from consolidator.errors import ImportRefused, InvalidEvent, UsageError
from consolidator.formats.registry import FORMATS
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.models.memory_filter import MemoryScope
from consolidator.runtime.session.creation import SessionRequest, create_session, open_session
from consolidator.service.log.items import ItemLog
from consolidator.service.log.record import record_events
from consolidator.service.memory.remember import remember
from consolidator.settings import Settings
from tests.integration.log.claude_logs import import_logs, read_texts, user_line, user_lines, write_log
from tests.unit.formats.sample_logs import SAMPLES, encode, places, put
from tests.unit.formats.test_log_files import nested_folders

INCOMPRESSIBLE = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=20_000))


@pytest.mark.parametrize("log_format", [None, "claude-code"])
async def test_odd_things_in_a_folder_stop_no_import(
    database: Database, tmp_path: Path, log_format: str | None
) -> None:
    logs = tmp_path / "logs"
    write_log(logs / "a.jsonl", user_lines(1, "a"))
    write_log(tmp_path / "secret.jsonl", user_lines(1, "secret"))
    (logs / "linked.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (logs / "loop.jsonl").symlink_to("loop.jsonl")
    os.mkfifo(logs / "pipe.jsonl")
    with (logs / "sparse.jsonl").open("wb") as file:
        file.truncate(2**40)
    write_log(logs / "new\nline \x1b[2J\u202e.jsonl", ["{"])
    write_log(logs / "z.jsonl", user_lines(1, "z"))
    with nested_folders(logs / "deep", 1_100):
        report = await import_logs(database, logs, log_format)
    assert sorted(await read_texts(database)) == ["a", "z"]
    told = [problem.removeprefix(f"{logs}/") for problem in [*report.problems, *report.unrecognised]]
    assert all(problem.isprintable() for problem in told)
    expected = [
        "deep/d/d",
        "linked.jsonl: cannot be read: a symbolic link is not followed; name it",
        "loop.jsonl: cannot be read: a symbolic link",
        "pipe.jsonl: cannot be read: a pipe, not a file",
        "sparse.jsonl: cannot be read: 1099511627776 bytes that are mostly holes",
        "new\\nline \\x1b[2J\\u202e.jsonl",
    ]
    assert len(told) == len(expected)
    assert all(any(problem.startswith(start) for problem in told) for start in expected), told
    with pytest.raises(ImportRefused):
        await import_logs(database, logs, log_format, strict=True)


ODD_KEYS = ["main:web:a\nb", "main:web:\x1b[2Jada", "main:we\x7fb:ada", "main:web:\u202eada", "main:web:a\u2028da"]


@pytest.mark.parametrize("key", ODD_KEYS)
async def test_a_session_key_with_controls_is_refused_at_every_door(
    database: Database, settings: Settings, tmp_path: Path, key: str
) -> None:
    with pytest.raises(UsageError, match="not a valid session key"):
        await open_session(database, settings, key, SessionRequest())
    with pytest.raises(UsageError, match="not a valid session key"):
        await create_session(database, settings, SessionRequest(), key=key)
    with pytest.raises(UsageError, match="is no peer"):
        await create_session(database, settings, SessionRequest(), agent="main", peer=key.split(":", 2)[2] + "\n")
    with pytest.raises(UsageError, match="not a valid session key"):
        await record_events(database, key, [{"type": "UserMessage", "data": {"text": "hello"}}])
    with pytest.raises(UsageError, match="not a valid session key"):
        ItemLog(key, framework="test")
    with pytest.raises(UsageError, match="is no agent, project or person"):
        await remember(database, "we use tabs", MemoryScope(agent="main", peer=key))
    said = {"type": "UserMessage", "seq": 1, "data": {"text": "hello"}, "created_at": "2026-03-01T09:00:00Z"}
    session = {"id": "s1", "agent": "main", "key": key}
    write_log(tmp_path / "own" / "a.jsonl", [json.dumps({"consolidator": 1, "session": session}), json.dumps(said)])
    turn = {"type": "user", "content": "hello"}
    begun = {"type": "session", "id": "c1", "key": key}
    other = {"type": "session", "id": "c2", "key": "main:web:ada"}
    write_log(tmp_path / "claw" / "b.jsonl", [json.dumps(line) for line in (begun, turn, other, turn)])
    for folder, name in (("own", "consolidator"), ("claw", "claw0")):
        report = await import_logs(database, tmp_path / folder, name)
        assert any("is not a valid session key" in problem for problem in report.problems)
        assert len(report.problems) == 2
    assert await read_texts(database) == {"c2": ["hello"]}  # of the session with a key


@pytest.mark.parametrize("name", SAMPLES)
async def test_values_that_no_database_holds_cost_their_own_line(database: Database, tmp_path: Path, name: str) -> None:
    file, is_jsonl, lines = SAMPLES[name]
    for number, path in enumerate(places(lines)):
        for kind, odd in (("long", INCOMPRESSIBLE), ("half", "\ud800"), ("nul", "\0")) if path else ():
            folder = tmp_path / f"{number:03}-{kind}"
            folder.mkdir()
            (folder / file).write_bytes(encode(put(lines, path, odd), is_jsonl))
    last = tmp_path / "z"
    last.mkdir()
    (last / f"z-{file}").write_bytes(encode(lines, is_jsonl))
    report = await import_sources(database, [ImportSource(tmp_path, FORMATS[name])])
    assert report.files >= number * 3
    assert all(len(problem) < 1000 for problem in report.problems)
    assert (await import_sources(database, [ImportSource(last, FORMATS[name])])).unchanged == 1


async def test_one_line_of_many_that_cannot_be_stored_is_named_and_the_others_are_there(
    database: Database, tmp_path: Path
) -> None:
    lines = user_lines(40)
    lines[20] = user_line(21, "in a session with an endless name", INCOMPRESSIBLE * 3, cwd=INCOMPRESSIBLE)
    log = write_log(tmp_path / "s.jsonl", lines)
    report = await import_logs(database, log)
    assert all(problem.startswith(f"{log}:21: the database cannot hold it: ") for problem in report.problems)
    assert 1 <= report.problem_count <= 2  # the session's start is of the same line
    assert len((await read_texts(database))["s"]) == 40


ODD_EVENTS: dict[str, dict[str, Any]] = {
    "a list as type": {"type": ["x"]}, "an object as type": {"type": {"a": 1}}, "a number as type": {"type": 1},
    "no type": {}, "null as type": {"type": None}, "a long type": {"type": "x" * 10**6},
    "a list as data": {"type": "UserMessage", "data": ["x"]}, "no text": {"type": "UserMessage", "data": {"text": []}},
    "text as data": {"type": "UserMessage", "data": "text"},
}  # fmt: skip


@pytest.mark.parametrize("what", ODD_EVENTS)
async def test_an_event_that_is_none_is_refused_in_one_line(database: Database, what: str) -> None:
    with pytest.raises(InvalidEvent) as refusal:
        await record_events(database, "main:cli:mara", [ODD_EVENTS[what]])
    assert len(str(refusal.value)) < 1000


async def test_an_event_that_is_nested_too_deeply_is_refused(database: Database) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(InvalidEvent, match="nested deeper than 200"):
        await record_events(database, "main:cli:mara", [{"type": "UserMessage", "data": {"text": "x", "a": deep}}])
