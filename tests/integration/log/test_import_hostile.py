"""Broken and hostile logs: nothing stops the other files, everything is counted, and imported events can be read."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import threading
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import ImportRefused, Interrupted
from consolidator.formats.base import ForeignEvent, ForeignSession, Item
from consolidator.formats.claude_code import reader as claude_code
from consolidator.formats.registry import FORMATS, find_local_logs
from consolidator.jobs.importing.importer import ImportSource, ImportWatch, import_sources
from consolidator.jobs.importing.intake import Intake
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.service.memory.facts import list_facts
from consolidator.service.sessions.listing import list_sessions, load_outline
from consolidator.settings import Settings
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from tests.integration.log.claude_logs import Line, import_logs, read_texts, user_line, user_lines, write_log
from tests.nights import run_next_night
from tests.support import assert_invariants, later, log_events, run_job, user_message

MEGABYTE = 1024 * 1024


def expected_texts(count: int, session: str) -> list[str]:
    """Return the texts of a session that was imported from `count` lines."""
    return ["SessionStart", *(f"{session} says {number}" for number in range(1, count + 1))]


async def test_invalid_utf8_and_nul_bytes_cost_no_line(database: Database, tmp_path: Path) -> None:
    bad = json.dumps(user_line(2, "QQ")).encode().replace(b"QQ", b"caf\xe9 \xff\xfe")
    nul = user_line(3, "a\0b")
    padded = b"\0\0\0" + json.dumps(user_line(4, "after a crash")).encode()
    report = await import_logs(database, write_log(tmp_path / "s.jsonl", [*user_lines(1), bad, nul, padded]))
    assert report.problems == []
    assert await read_texts(database) == {
        "s": ["SessionStart", "s says 1", "caf\ufffd \ufffd\ufffd", "a\0b", "after a crash"]
    }


async def test_nul_and_lone_surrogates_are_welcome_in_every_name(database: Database, tmp_path: Path) -> None:
    odd = "x\0\ud800\ue000"
    log = [user_line(1, "hi", odd, cwd=f"/src/{odd}", uuid=odd), user_line(2, "ho", odd, version=odd, gitBranch=odd)]
    report = await import_logs(database, write_log(tmp_path / "s.jsonl", log))
    assert (report.problems, report.events) == ([], 3)
    assert [texts[1:] for texts in (await read_texts(database)).values()] == [["hi", "ho"]]
    assert (await import_logs(database, write_log(tmp_path / "t.jsonl", log))).events == 0


async def test_a_line_of_fifty_megabytes_is_an_event_and_a_longer_one_a_problem(
    database: Database, tmp_path: Path
) -> None:
    long, endless = "x" * (50 * MEGABYTE), "y" * (65 * MEGABYTE)
    log = write_log(
        tmp_path / "s.jsonl", [*user_lines(1), user_line(2, long), user_line(3, endless), user_line(4, "after it")]
    )
    report = await import_logs(database, log)
    assert [problem.partition(": ")[0] for problem in report.problems] == [f"{log}:3"]
    assert (await read_texts(database))["s"][1:] == ["s says 1", long, "after it"]


async def test_deep_nesting_is_a_problem_and_stops_nothing(database: Database, tmp_path: Path) -> None:
    deep = [f'{{"type":"user","message":{bracket * 100_000}' for bracket in ("[", '{"a":')]
    shut = '{"type":"user","message":' + "[" * 5_000 + "]" * 5_000 + "}"
    report = await import_logs(database, write_log(tmp_path / "s.jsonl", [*deep, shut, *user_lines(2)]))
    assert (report.problem_count, report.events) == (3, 3)


async def test_an_integer_of_thousands_of_digits_is_a_problem(database: Database, tmp_path: Path) -> None:
    huge = '{"type":"user","uuid":"n","sessionId":"s","message":{"role":"user","content":"x","n":' + "9" * 50_000 + "}}"
    report = await import_logs(database, write_log(tmp_path / "s.jsonl", [huge, *user_lines(1)]))
    assert (report.problem_count, report.events) == (1, 2)


async def test_ids_that_repeat_pair_in_order(database: Database, tmp_path: Path) -> None:
    def use(number: int, command: str) -> dict[str, object]:
        content = [{"type": "tool_use", "id": "same", "name": "Bash", "input": {"command": command}}]
        return user_line(number, "", type="assistant", message={"role": "assistant", "model": "m", "content": content})

    def result(number: int, text: str) -> dict[str, object]:
        content = [{"type": "tool_result", "tool_use_id": "same", "content": text}]
        return user_line(number, "", message={"role": "user", "content": content})

    log = [use(1, "one"), result(2, "first"), use(3, "two"), result(4, "second")]
    await import_logs(database, write_log(tmp_path / "s.jsonl", log))
    async with database.connection() as conn:
        imported = await events.read(conn, sessions.imported_session_id("claude-code", "s"))
    assert [
        event.data["arguments"]["command"] if event.type is EventType.TOOL_CALL else event.data["content"]
        for event in imported
        if event.type in (EventType.TOOL_CALL, EventType.TOOL_RESULT)
    ] == ["one", "first", "two", "second"]
    assert {event.data["call_id"] for event in imported if "call_id" in event.data} == {"same"}


TIMES = [
    "1970-01-01T00:00:00Z",
    "2100-12-31T23:59:59Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "not a time",
    "2026-13-45T99:99:99Z",
    "",
]


async def test_any_time_can_be_told_and_the_session_be_listed_learned_from_and_read(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    write_log(tmp_path / "s.jsonl", [user_line(n, f"at {when}", timestamp=when) for n, when in enumerate(TIMES)])
    native = [
        {"consolidator": 1, "session": {"id": "n", "agent": "a"}},
        *(
            {"seq": n, "type": "UserMessage", "data": {"text": when, "occurred_at": when}}
            for n, when in enumerate(TIMES, 1)
        ),
    ]
    write_log(tmp_path / "n.jsonl", native)
    report = await import_logs(database, tmp_path, None)
    assert (report.problems, report.events) == ([], 1 + 2 * len(TIMES))
    texts = await read_texts(database)
    assert texts["s"][1:] == [f"at {when}" for when in TIMES]
    assert texts["n"] == TIMES
    async with database.connection() as conn:
        (first,) = await events.read(conn, sessions.imported_session_id("consolidator", "n"), upto=1)
    assert first.occurred_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert (await run_job(database, settings))["status"] == "done"
    for row in (await list_sessions(database)).sessions:
        assert len((await load_outline(database, row.id, limit=99)).rows) == len(TIMES)
    await assert_invariants(database)


NATIVE_HEADERS: list[Line] = [
    {"pruned_to": -1},
    {"pruned_to": "many"},
    {"pruned_to": 10**30},
    {"pruned_to": True},
    {"parent_seq": {}, "simulated": "yes", "conversation_id": 7},
    {"parent_id": "5"},
    {"peer": "\ud800", "channel": [], "model": 3, "error": {}, "root_id": 9, "origin": "\0"},
    {"details": {"exported": 3, "\0": "\0"}},
]


async def test_an_export_that_somebody_wrote_by_hand_is_taken_for_what_makes_sense(
    database: Database, tmp_path: Path
) -> None:
    log: list[Line] = []
    for number, header in enumerate(NATIVE_HEADERS):
        log.append({"consolidator": 1, "session": {"id": f"{number}", "agent": "a", **header}})
        log.append({"seq": 1, "type": "UserMessage", "data": {"text": "hi"}})
    report = await import_logs(database, write_log(tmp_path / "n.jsonl", log), "consolidator")
    assert report.problems == []
    assert await read_texts(database) == {f"{number}": ["hi"] for number in range(len(NATIVE_HEADERS))}
    await assert_invariants(database)


async def test_a_session_of_no_known_kind_is_a_problem(database: Database, tmp_path: Path) -> None:
    kinds: list[object] = ["dream", None, []]
    log = [{"consolidator": 1, "session": {"id": "x", "agent": "a", "kind": kind}} for kind in kinds]
    report = await import_logs(database, write_log(tmp_path / "n.jsonl", log), "consolidator")
    assert (report.problem_count, report.events) == (3, 0)


async def test_sessions_that_claim_to_be_each_others_parents_are_taken(database: Database, tmp_path: Path) -> None:
    log: list[Line] = []
    for session, parent in (("a", "b"), ("b", "a")):
        log.append({"consolidator": 1, "session": {"id": session, "agent": "x", "kind": "fork", "parent_id": parent}})
        log.append({"seq": 1, "type": "UserMessage", "data": {"text": session}})
    await import_logs(database, write_log(tmp_path / "n.jsonl", log), "consolidator")
    assert await read_texts(database) == {"a": ["a"], "b": ["b"]}


async def test_a_directory_of_everything_else_is_no_log_and_stops_nothing(database: Database, tmp_path: Path) -> None:
    write_log(tmp_path / "package.json", ['{"name": "shop", "version": "1.0.0"}'])
    write_log(tmp_path / "empty.jsonl", [])
    write_log(tmp_path / "noise.jsonl", [bytes(range(256)) * 50])
    write_log(tmp_path / "deep.json", ["[" * 100_000])
    write_log(tmp_path / "s.jsonl", user_lines(1))
    (tmp_path / "directory.jsonl").mkdir()
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    report = await import_logs(database, tmp_path, None)
    assert report.events == 2
    assert len(report.unrecognised) == 4


async def test_every_reader_outlives_noise(database: Database, tmp_path: Path) -> None:
    noise: list[str | bytes] = [bytes(range(256)) * 20, "[]", "null", '"text"', "{}", '{"type":{}}', "[" * 9_999]
    log = write_log(tmp_path / "x.jsonl", noise)
    for name, log_format in FORMATS.items():
        report = await import_sources(database, [ImportSource(log, log_format)])
        if name == "aider":  # its Markdown may hold any text
            continue
        assert report.problem_count > 0 or not list(log_format.files(log))
        assert report.events <= 1  # at most a session's start


DENIED = {  # paths without permission, and the call that fails on them
    "a file": ("b.jsonl", os, "open"),
    "a directory that is not to be listed": ("d", os, "scandir"),
    "a directory that is not to be looked into": ("d/b.jsonl", os, "lstat"),
    "what was named itself": ("", Path, "stat"),
}


def deny(patch: pytest.MonkeyPatch, owner: Any, call: str, denied: Path) -> None:
    """Let one call on a path fail with EACCES, also for root."""
    original = getattr(owner, call)

    def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
        if Path(path) == denied:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return original(path, *arguments, **options)

    patch.setattr(owner, call, refuse)


@pytest.mark.parametrize("log_format", [None, "claude-code"])
@pytest.mark.parametrize("what", DENIED)
async def test_what_is_not_ours_to_read_is_told_and_stops_no_other_file(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, log_format: str | None
) -> None:
    name, where, call = DENIED[what]
    for session in ("a", "b", "d/b", "z"):
        write_log(tmp_path / "logs" / f"{session}.jsonl", user_lines(1, session))
    logs = tmp_path / "logs"
    with monkeypatch.context() as patch:
        deny(patch, where, call, logs / name)
        if call != "open":  # without permission to list or stat it there is none to open it
            deny(patch, os, "open", logs / name)
        if name == "":
            deny(patch, os, "scandir", logs)
        report = await import_logs(database, logs, log_format, lenient=True)
        with pytest.raises(ImportRefused, match="cannot be read: Permission denied"):
            await import_logs(database, logs, log_format, strict=True)
    assert report.problems == [f"{logs / name}: cannot be read: Permission denied"]
    assert report.files + report.problem_count >= (1 if name == "" else 4)
    await import_logs(database, logs, log_format)
    assert await read_texts(database) == {session: expected_texts(1, session) for session in ("a", "b", "d/b", "z")}


def test_the_logs_of_a_home_that_is_not_ours_are_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    projects = tmp_path / ".claude" / "projects"
    deny(monkeypatch, Path, "stat", projects)
    assert [path for _, path in find_local_logs(tmp_path, {})] == [projects]


async def test_a_reader_that_fails_is_told_and_what_it_read_is_kept_and_the_rest_read_again(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for session in ("a", "b", "c"):
        write_log(tmp_path / f"{session}.jsonl", user_lines(3, session))
    secret = "ghp_" + "Zk3" * 12
    original_read = claude_code.read

    def failing(path: Path, root: Path) -> Iterator[Item]:
        for number, item in enumerate(original_read(path, root)):
            if path.stem == "b" and number == 3:
                raise KeyError(secret)
            yield item

    with monkeypatch.context() as patch:
        patch.setattr(claude_code, "read", failing)
        with pytest.raises(ImportRefused, match="its reader failed"):
            await import_logs(database, tmp_path, strict=True)
        report = await import_logs(database, tmp_path)
    assert report.problem_count == 1
    assert report.problems[0].startswith(f"{tmp_path}/b.jsonl: its reader failed: KeyError")
    assert secret not in report.problems[0]
    assert await read_texts(database) == {
        "a": expected_texts(3, "a"),
        "b": expected_texts(1, "b"),
        "c": expected_texts(3, "c"),
    }
    second = await import_logs(database, tmp_path)
    assert (second.unchanged, second.events) == (2, 2)
    assert (await read_texts(database))["b"] == expected_texts(3, "b")


async def test_a_recogniser_that_fails_stops_no_other_file(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for session in ("a", "b"):
        write_log(tmp_path / f"{session}.jsonl", user_lines(1, session))
    original_recognises = claude_code.recognises

    def failing(path: Path, head: bytes) -> bool:
        if path.stem == "a":
            raise TypeError("no such case")
        return original_recognises(path, head)

    monkeypatch.setattr(claude_code, "recognises", failing)
    report = await import_logs(database, tmp_path, None)
    assert report.problems == [f"{tmp_path}/a.jsonl: its reader failed: TypeError: no such case"]
    assert await read_texts(database) == {"b": expected_texts(1, "b")}


async def test_large_lines_are_not_read_far_ahead_of_what_is_written(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead, read, added = 0, 0, 0
    original_add = Intake.add

    def read_large_lines(path: Path, root: Path) -> Iterator[Item]:
        nonlocal ahead, read
        yield ForeignSession("s", "claude-code")
        for number in range(40):
            read += 1
            ahead = max(ahead, read - added)
            yield ForeignEvent(f"{number}", EventType.USER_MESSAGE, {"text": "x" * 3 * MEGABYTE})

    async def count_and_add(intake: Intake, item: Item) -> None:
        nonlocal added
        added += isinstance(item, ForeignEvent)
        await original_add(intake, item)

    monkeypatch.setattr(claude_code, "read", read_large_lines)
    monkeypatch.setattr(Intake, "add", count_and_add)
    report = await import_logs(database, write_log(tmp_path / "s.jsonl", []))
    assert report.events == 40
    assert ahead <= 3  # of 3 MiB each; at most 8 MiB are buffered


async def test_who_asks_to_stop_waits_for_no_walk_over_a_disk(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def endless(_: Path) -> Iterator[Path]:
        loop.call_soon_threadsafe(stop.set)
        release.wait()
        yield from ()

    monkeypatch.setattr("consolidator.jobs.importing.importer.find_log_files", endless)
    try:
        with pytest.raises(Interrupted):
            await import_logs(database, tmp_path, None, stop=stop)
    finally:
        release.set()


async def test_progress_reaches_its_end_whatever_the_files_are(database: Database, tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", user_lines(2, "a"))
    await import_logs(database, tmp_path)
    write_log(tmp_path / "b.jsonl", user_lines(3, "b"))
    write_log(tmp_path / "package.json", ['{"name": "shop"}'])
    write_log(tmp_path / "README.md", ["nothing that any format reads"])
    steps: list[tuple[int, int, str]] = []
    await import_logs(database, tmp_path, None, watch=ImportWatch(lambda *step: steps.append(step)))
    whole = sum((tmp_path / name).stat().st_size for name in ("a.jsonl", "b.jsonl", "package.json"))
    assert [name for *_, name in steps] == ["a.jsonl", "b.jsonl", "package.json"]
    assert {total for _, total, _ in steps} == {whole}
    assert steps[-1][0] == whole


async def measure_peak(database: Database, log: Path, count: int) -> int:
    """Return the peak memory of importing `count` lines, in bytes."""
    write_log(log, (user_line(number, "x" * 2000, log.stem) for number in range(count)))
    gc.collect()
    tracemalloc.start()
    try:
        await import_logs(database, log)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_a_log_three_times_as_long_takes_no_more_memory(database: Database, tmp_path: Path) -> None:
    await measure_peak(database, tmp_path / "warm.jsonl", 10)
    short = await measure_peak(database, tmp_path / "short.jsonl", 2_000)
    assert await measure_peak(database, tmp_path / "long.jsonl", 6_000) < 1.2 * short


async def test_a_session_of_a_hundred_thousand_events_is_imported(database: Database, tmp_path: Path) -> None:
    log = write_log(tmp_path / "s.jsonl", (user_line(number, f"message {number}") for number in range(100_000)))
    assert (await import_logs(database, log)).events == 100_001
    async with database.connection() as conn:
        last = await events.read(conn, sessions.imported_session_id("claude-code", "s"), after=100_000)
    assert [(event.seq, event.data["text"]) for event in last] == [(100_001, "message 99999")]
    await assert_invariants(database)


async def test_what_a_log_dates_after_its_import_outranks_nothing_later(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for session, when, text in (
        ("dated ahead", "2099-01-01T00:00:00Z", "We use npm."),
        ("later", None, "We switched from npm to bun."),
    ):
        dated = {} if when is None else {"occurred_at": when}
        event = NewEvent(EventType.USER_MESSAGE, {**user_message(text).data, **dated})
        await log_events(database, session, [event], project="/srv/shop")
        await run_next_night(database, clock, settings)
        clock.set(later(clock.now(), days=1))
    assert [fact.sentence for fact in await list_facts(database)] == ["We use bun."]
