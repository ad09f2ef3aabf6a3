"""Importing is idempotent: what is read again, grown, copied, interrupted, pruned or erased adds nothing twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import ImportRefused, Interrupted, NotFound
from consolidator.jobs.importing import importer
from consolidator.jobs.importing.importer import ImportSource, ImportWatch, import_sources
from consolidator.jobs.retention import prune
from consolidator.llm import WORKING_FOLDER
from consolidator.models.audience import OWNER
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.hooks.payload import answer_hook, parse_hook
from consolidator.service.log import erasure
from consolidator.service.memory.recall import recall
from consolidator.settings import Settings
from consolidator.store.sessions import sessions
from tests.integration.locks import wait_for_lock
from tests.integration.log.claude_logs import import_logs, read_texts, user_line, user_lines, write_log
from tests.nights import start_cli
from tests.support import assert_invariants, in_thread, list_latest, run_cli, run_job
from tests.unit.formats.agent_logs import Gemini

START = "SessionStart"


def expected_texts(count: int, session: str = "s") -> list[str]:
    """Return the texts of a session that was imported from `count` lines."""
    return [START, *(f"{session} says {number}" for number in range(1, count + 1))]


async def test_the_same_file_twice_adds_nothing(database: Database, tmp_path: Path) -> None:
    log = write_log(tmp_path / "s.jsonl", user_lines(3))
    first, second = await import_logs(database, log), await import_logs(database, log)
    assert (first.files, first.events, len(first.sessions)) == (1, 4, 1)
    assert (second.files, second.unchanged, second.events) == (0, 1, 0)
    assert await read_texts(database) == {"s": expected_texts(3)}


async def test_what_a_night_asked_an_agent_is_no_evidence(database: Database, tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", user_lines(2, "own", cwd=f"/home/mara/.consolidator/{WORKING_FOLDER}"))
    write_log(tmp_path / "b.jsonl", user_lines(2, "talk"))
    gemini = Gemini()  # which notes its directory beside the log
    log = gemini.write(tmp_path, [*gemini.header(), *gemini.prompt("Find facts.")])
    (log.parents[1] / ".project_root").write_text(f"/home/mara/.consolidator/{WORKING_FOLDER}\n")
    report = await import_logs(database, tmp_path)
    assert report.skipped["of a night's own question"] > 3
    assert await read_texts(database) == {"talk": expected_texts(2, "talk")}


async def test_a_file_that_was_only_touched_adds_nothing(database: Database, tmp_path: Path) -> None:
    log = write_log(tmp_path / "s.jsonl", user_lines(3))
    await import_logs(database, log)
    os.utime(log, (1, 1))
    second = await import_logs(database, log)
    assert (second.files, second.events, second.repeated) == (1, 0, 4)


async def test_a_file_that_has_grown_adds_the_new_part(database: Database, tmp_path: Path) -> None:
    for count in (2, 5, 6):
        await import_logs(database, write_log(tmp_path / "s.jsonl", user_lines(count)))
        assert await read_texts(database) == {"s": expected_texts(count)}
    await assert_invariants(database)


async def test_a_line_that_is_still_being_written_is_read_when_it_is_whole(database: Database, tmp_path: Path) -> None:
    log = write_log(tmp_path / "s.jsonl", user_lines(2))
    with log.open("a") as file:
        file.write(json.dumps(user_line(3, "s says 3"))[:40])
    report = await import_logs(database, log)
    assert (report.problem_count, report.skipped["unfinished"]) == (0, 1)
    await import_logs(database, write_log(log, user_lines(3)))
    assert await read_texts(database) == {"s": expected_texts(3)}


async def test_a_renamed_copy_adds_nothing(database: Database, tmp_path: Path) -> None:
    await import_logs(database, write_log(tmp_path / "a" / "s.jsonl", user_lines(3)))
    second = await import_logs(database, write_log(tmp_path / "b" / "copy.jsonl", user_lines(3)))
    assert (second.events, second.repeated) == (0, 4)


async def test_a_resumed_session_adds_only_what_it_says_itself(database: Database, tmp_path: Path) -> None:
    write_log(tmp_path / "s.jsonl", user_lines(3))
    write_log(tmp_path / "t.jsonl", [*user_lines(3), user_line(4, "going on", "t")])
    report = await import_logs(database, tmp_path)
    assert await read_texts(database) == {"s": expected_texts(3), "t": [START, "going on"]}
    assert report.repeated == 4


async def test_the_same_line_twice_in_a_file_is_one_event(database: Database, tmp_path: Path) -> None:
    report = await import_logs(database, write_log(tmp_path / "s.jsonl", [*user_lines(2), *user_lines(2)]))
    assert (report.events, report.repeated) == (3, 2)


async def test_two_importers_at_once_import_once(database: Database, tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(6)]
    for number, name in enumerate(names):
        mixed = [
            *user_lines(40, name),
            *user_lines(20, names[number - 1]),
            user_line(1, "x" * 20_000, names[number - 2]),
        ]
        write_log(tmp_path / f"{name}.jsonl", mixed if number % 2 else mixed[::-1])
    reports = await asyncio.gather(*(import_logs(database, tmp_path) for _ in range(3)))
    assert sum(report.events for report in reports) == 6 * (41 + 1)  # the long line has an id of another
    assert sum(report.problem_count for report in reports) == 6
    await assert_invariants(database)


async def test_strict_writes_nothing_where_a_line_is_not_understood(database: Database, tmp_path: Path) -> None:
    write_log(tmp_path / "a.jsonl", user_lines(2, "a"))
    write_log(tmp_path / "b.jsonl", [*user_lines(2, "b"), "{not json", {"type": 7}])
    with pytest.raises(ImportRefused, match=r"2 lines cannot be explained.*\n.*b\.jsonl:3.*\n.*b\.jsonl:4"):
        await import_logs(database, tmp_path, strict=True)
    assert await read_texts(database) == {}
    report = await import_logs(database, tmp_path)
    assert await read_texts(database) == {"a": expected_texts(2, "a"), "b": expected_texts(2, "b")}
    assert [problem.split(": ")[0] for problem in report.problems] == [f"{tmp_path}/b.jsonl:3", f"{tmp_path}/b.jsonl:4"]


async def test_a_strict_import_of_good_lines_is_an_import(database: Database, tmp_path: Path) -> None:
    assert (await import_logs(database, write_log(tmp_path / "s.jsonl", user_lines(2)), strict=True)).events == 3


async def test_problems_are_all_counted_and_the_first_fifty_told(database: Database, tmp_path: Path) -> None:
    report = await import_logs(database, write_log(tmp_path / "s.jsonl", [*["damage"] * 80, *user_lines(1)]))
    assert (report.problem_count, len(report.problems), report.events) == (80, 50, 2)


async def test_a_report_is_bounded_whatever_a_log_calls_its_lines(database: Database, tmp_path: Path) -> None:
    strange = [json.dumps({"type": f"{number}-{'x' * 5000}"}) for number in range(300)]
    report = await import_logs(database, write_log(tmp_path / "s.jsonl", [*user_lines(1), *strange]))
    assert sum(report.skipped.values()) == 300
    assert len(json.dumps(report.as_json())) < 40_000


async def test_a_file_of_another_format_is_said_to_be_one_and_fills_no_screen(
    database: Database, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "s.jsonl", ["damage", *user_lines(30)])
    completed = await import_logs(database, log, "pi")
    assert (completed.events, completed.problem_count, completed.problems) == (0, 1, [])
    assert completed.misread == [f"{log} looks like claude-code, not pi"]
    second = await import_logs(database, log)
    assert (second.events, second.misread) == (31, [])


async def test_an_import_that_is_asked_to_stop_keeps_what_it_read_and_goes_on(
    database: Database, tmp_path: Path
) -> None:
    write_log(tmp_path / "a.jsonl", user_lines(3))
    write_log(tmp_path / "b.jsonl", user_lines(3, "t"))
    stop = asyncio.Event()
    with pytest.raises(Interrupted):
        await import_sources(database, [ImportSource(tmp_path)], stop=stop, watch=ImportWatch(lambda *_: stop.set()))
    assert await read_texts(database) == {"s": expected_texts(3)}
    with pytest.raises(Interrupted):
        await import_sources(database, [ImportSource(tmp_path)], stop=stop, strict=True)
    await import_sources(database, [ImportSource(tmp_path)])
    assert await read_texts(database) == {"s": expected_texts(3), "t": expected_texts(3, "t")}


async def test_the_latest_week_of_a_long_history_comes_first_and_something_is_learned_from_it(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "LONG_HISTORY", 0)
    old = write_log(tmp_path / "a.jsonl", user_lines(3, "old"))
    os.utime(old, (0, 0))
    write_log(tmp_path / "b.jsonl", user_lines(3, "new"))
    read: list[Mapping[str, Sequence[str]]] = []

    async def learn() -> None:
        read.append(await read_texts(database))

    await import_sources(database, [ImportSource(tmp_path)], watch=ImportWatch(latest_read=learn))
    assert read == [{"new": expected_texts(3, "new")}]
    assert (await read_texts(database)).keys() == {"old", "new"}


async def test_a_path_that_does_not_exist_is_named(database: Database, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await import_logs(database, tmp_path / "nowhere")


async def test_sub_agents_hang_from_their_parents_and_share_their_root(database: Database, tmp_path: Path) -> None:
    kid: dict[str, Any] = {"isSidechain": True, "agentId": "k1"}
    write_log(tmp_path / "s" / "subagents" / "agent-k1.jsonl", [user_line(9, "search", uuid="k-1", **kid)])
    write_log(tmp_path / "s.jsonl", user_lines(2))
    await import_logs(database, tmp_path)
    async with database.connection() as conn:
        parent = await sessions.get(conn, sessions.imported_session_id("claude-code", "s"))
        child = await sessions.get(conn, sessions.imported_session_id("claude-code", "s/agent-k1"))
    assert (child.kind, child.parent_id, child.root_id) == ("sub-agent", parent.id, parent.id)
    assert (parent.parent_id, parent.root_id, parent.project) == (None, parent.id, child.project)


async def test_a_chain_of_resumes_is_one_lineage_in_whatever_order_it_is_read(
    database: Database, tmp_path: Path
) -> None:
    await import_logs(database, write_log(tmp_path / "c.jsonl", [*user_lines(1, "b"), *user_lines(1, "c")]))
    await import_logs(database, write_log(tmp_path / "b.jsonl", [*user_lines(1, "a"), *user_lines(2, "b")]))
    await import_logs(database, write_log(tmp_path / "a.jsonl", user_lines(1, "a")))
    async with database.connection() as conn:
        roots = {row.root_id for row in await list_latest(conn)}
    assert roots == {sessions.imported_session_id("claude-code", "a")}


async def test_erased_sessions_and_what_hangs_from_them_do_not_come_back(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    kid: dict[str, Any] = {"isSidechain": True, "agentId": "k1"}
    write_log(tmp_path / "s.jsonl", user_lines(2))
    write_log(tmp_path / "t.jsonl", user_lines(2, "t"))
    await import_logs(database, tmp_path)
    await erasure.erase_sessions(
        database, settings, await erasure.plan_erasure(database, session="s"), reason="asked to"
    )
    write_log(tmp_path / "s.jsonl", user_lines(4))
    write_log(tmp_path / "s" / "agent-k1.jsonl", [user_line(9, "search", uuid="k-1", **kid)])
    report = await import_logs(database, tmp_path)
    assert (report.events, report.erased) == (0, 5 + 2)
    assert await read_texts(database) == {"t": expected_texts(2, "t")}


async def test_pruned_events_do_not_come_back(
    database: Database, settings: Settings, clock: FrozenClock, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "s.jsonl", user_lines(3))
    await import_logs(database, log)
    clock.advance(timedelta(days=1))
    await run_job(database, settings)
    clock.advance(timedelta(days=40))
    assert (await prune(database, older_than=timedelta(days=30))).events == 4
    os.utime(log, (1, 1))
    assert (await import_logs(database, log)).events == 0
    await import_logs(database, write_log(log, user_lines(5)))
    assert await read_texts(database) == {"s": expected_texts(5)[4:]}
    await assert_invariants(database)


async def test_auto_finds_the_logs_that_agents_leave_in_a_home(
    database: Database, environment: Mapping[str, str], tmp_path: Path
) -> None:
    write_log(tmp_path / ".claude" / "projects" / "-src-shop" / "s.jsonl", user_lines(2))
    rollout = [
        {"timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta",
         "payload": {"id": "019c", "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/src/shop"}},
        {"timestamp": "2026-03-01T10:00:01.000Z", "type": "event_msg",
         "payload": {"type": "user_message", "message": "hello"}},
    ]  # fmt: skip
    write_log(
        tmp_path / ".codex" / "sessions" / "2026" / "03" / "01" / "rollout-2026-03-01T10-00-00-019c.jsonl", rollout
    )
    completed = await in_thread(run_cli, "import", "auto", "--json", environment=environment)
    report = json.loads(completed.stdout)
    assert (report["files"], report["sessions"], report["problem_count"]) == (2, 2, 0)
    assert (await read_texts(database))["s"] == expected_texts(2)
    assert any("hello" in texts for texts in (await read_texts(database)).values())


async def test_an_import_killed_anywhere_loses_nothing_and_repeats_nothing(
    database: Database, environment: Mapping[str, str], tmp_path: Path
) -> None:
    for name in "abc":
        write_log(tmp_path / "logs" / f"{name}.jsonl", [*user_lines(3, name), user_line(4, "x" * 20_000, name)])
    arguments = ("import", "claude-code", str(tmp_path / "logs"))
    for table in ("event", "imported_file"):  # before anything was written; between the events and the file's mark
        async with database.owner_connection() as conn, conn.transaction():
            await conn.execute(f"lock table {table} in share row exclusive mode")
            with start_cli(*arguments, environment=environment) as killed:
                await wait_for_lock(database)
                killed.send_signal(signal.SIGKILL)
    await in_thread(run_cli, *arguments, environment=environment)
    assert await read_texts(database) == {name: [*expected_texts(3, name), "x" * 20_000] for name in "abc"}
    await assert_invariants(database)


async def test_logs_are_looked_for_where_the_variables_of_their_agents_say(
    database: Database, environment: Mapping[str, str], tmp_path: Path
) -> None:
    moved = {"CLAUDE_CONFIG_DIR": str(tmp_path / "cc"), "CODEX_HOME": str(tmp_path / "cx")}
    write_log(tmp_path / "cc" / "projects" / "-src-shop" / "a.jsonl", user_lines(2, "a"))
    meta = {"id": "019c", "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/src/shop"}
    write_log(
        tmp_path / "cx" / "archived_sessions" / "rollout-2026-03-01T10-00-00-019c.jsonl",
        [{"timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta", "payload": meta}],
    )
    for words in (["import"], ["import", "codex"], ["import", "claude-code"]):
        missed = await in_thread(run_cli, *words, environment=environment, code=None)
        assert missed.returncode in (2, 3)
        assert str(tmp_path) in missed.stderr  # which folders it looked in
    completed = await in_thread(run_cli, "run", "import", environment={**environment, **moved})
    assert completed.returncode == 0, completed.stderr
    assert set(await read_texts(database)) == {"a", "019c"}
    report = json.loads((await in_thread(run_cli, "import", "--json", environment={**environment, **moved})).stdout)
    folders = [tmp_path / "cc" / "projects", tmp_path / "cx" / "archived_sessions"]
    assert (report["sources"], report["unchanged"]) == ([str(folder) for folder in folders], 2)


async def test_an_import_says_whose_the_sessions_are(
    database: Database, environment: Mapping[str, str], tmp_path: Path
) -> None:
    said = "From now on always use pnpm for packages."
    for number, session in enumerate(("mine", "theirs", "named")):
        write_log(tmp_path / session / "s.jsonl", [user_line(number, said, session)])
    key = {"type": "session", "id": "named", "key": "main:cli:bob", "created": "2026-03-01T10:00:00Z"}
    write_log(tmp_path / "named" / "s.jsonl", [key, {"type": "user", "content": said, "ts": "2026-03-01T10:00:00Z"}])

    async def run(*words: str) -> str:
        completed = await in_thread(run_cli, "import", *words, environment=environment, code=None)
        return str(completed.stdout + completed.stderr)

    assert "1 new session: yours" in await run(str(tmp_path / "mine"))
    assert "1 new session: ada" in await run("--from", "ada", str(tmp_path / "theirs"))
    assert "stays whose it was" in await run("--from", "ada", str(tmp_path / "mine"))
    assert json.loads(await run("--json", str(tmp_path / "named")))["assumed"] == {"person": None, "sessions": 0}
    for name in ("", " ada", "group:ops", "a\nb"):
        assert "is no person's name" in await run("--from", name, str(tmp_path / "mine"))
    async with database.connection() as conn:
        peers = {session.origin: session.peer for session in await list_latest(conn)}
    assert peers == {"claude-code:mine": None, "claude-code:theirs": "ada", "claw0:named": "bob"}


async def test_nothing_of_a_log_from_another_person_is_the_owners(
    database: Database, clock: FrozenClock, settings: Settings, tmp_path: Path
) -> None:
    lines = [user_line(1, "From now on always use pnpm for packages.", "theirs")]
    child = [user_line(2, "look", "theirs", isSidechain=True, agentId="x")]
    await import_logs(database, write_log(tmp_path / "theirs.jsonl", [*lines, *child]), person="ada")
    clock.advance(timedelta(hours=1))
    await run_job(database, settings)
    for person, is_told in (("ada", True), ("bob", False), (OWNER, False)):
        told = await recall(database, "packages", MemoryScope("claude-code", "/src/shop", person))
        assert ("pnpm" in json.dumps(told.as_json())) is is_told
    payload = {"hook_event_name": "SessionStart", "session_id": "n", "cwd": "/src/shop", "source": "startup"}
    call = parse_hook("claude-code", "SessionStart", json.dumps(payload).encode(), "/src/shop")
    assert call is not None
    assert await answer_hook(database, call) is None
