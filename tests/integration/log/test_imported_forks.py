"""Imported forks read their past where it was imported, in whatever order the files come, and however often."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.jobs.importing import intake
from consolidator.models.event import Event
from consolidator.runtime.lineage.children import ChildRequest, create_child
from consolidator.service.database import verify_database
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.log.export import export_sessions
from consolidator.service.sessions.bundles import load_bundle, stream_bundle
from consolidator.settings import Settings
from consolidator.store.sessions import sessions
from consolidator.store.sessions.lineage import load_lineage, read_lineage
from tests.integration.log.claude_logs import Line, import_logs, user_line, user_lines, write_log
from tests.support import run_job


def fork_lines(lines: Sequence[Line], child: str, parent: str = "p", own: int = 2) -> list[Line]:
    """What Claude Code writes of a fork: copies of its parent's lines, then its own."""
    copies = [
        {**line, "sessionId": child, "forkedFrom": {"sessionId": parent, "messageUuid": line["uuid"]}} for line in lines
    ]
    return [*copies, *(user_line(100 + number, f"{child} says {number}", child) for number in range(1, own + 1))]


async def read_pasts(database: Database) -> dict[str, list[str]]:
    """What each session reads, its ancestors' events included, by its foreign name; without starts of sessions."""
    pasts = {}
    async with database.connection() as conn:
        for session_id in await sessions.list_ids(conn):
            row = await sessions.get(conn, session_id)
            log = await read_lineage(conn, await load_lineage(conn, session_id, row), upto=row.head)
            pasts[str(row.origin).rpartition(":")[2]] = [str(event.data["text"]) for event in log if is_said(event)]
    return pasts


def is_said(event: Event) -> bool:
    """Whether it is a message."""
    return "text" in event.data


async def session_of(database: Database, origin: str) -> Any:
    """The row of the session with a foreign name."""
    async with database.connection() as conn:
        return await sessions.get(conn, await sessions.find_session_id(conn, origin))


PARENT = user_lines(6, "p")
TREE: Mapping[str, list[Line]] = {
    "p": PARENT,
    "c": fork_lines(PARENT[:3], "c"),
    "d": fork_lines(PARENT[:5], "d"),
    "e": fork_lines(fork_lines(PARENT[:3], "c")[:4], "e", parent="c"),
}
PARENT_SAYS = [f"p says {number}" for number in range(1, 7)]
WHOLE = {
    "p": PARENT_SAYS,
    "c": [*PARENT_SAYS[:3], "c says 1", "c says 2"],
    "d": [*PARENT_SAYS[:5], "d says 1", "d says 2"],
    "e": [*PARENT_SAYS[:3], "c says 1", "e says 1", "e says 2"],
}


@pytest.mark.parametrize("order", [*itertools.permutations("pcd"), ("e", "d", "c", "p"), ("c", "e", "p", "d")])
async def test_each_reads_all_of_its_past_whichever_comes_first(
    database: Database, tmp_path: Path, order: Sequence[str]
) -> None:
    imported = 0
    for name in order:
        report = await import_logs(database, write_log(tmp_path / f"{name}.jsonl", TREE[name]))
        assert report.problems == []
        imported += report.events
    assert await read_pasts(database) == {name: WHOLE[name] for name in sorted(order)}
    said = {text for name in order for text in WHOLE[name]}
    assert imported == len(said) + len(order)  # each line once, and the start of each session
    assert (await import_logs(database, tmp_path)).events == 0
    assert await read_pasts(database) == {name: WHOLE[name] for name in sorted(order)}
    found = await verify_database(database)
    assert not [name for name, problems in found.items() if problems and name.startswith("I")]


async def test_a_fork_names_its_point_and_numbers_its_past_below_one(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    await import_logs(database, write_log(tmp_path / "p.jsonl", PARENT))
    await import_logs(database, write_log(tmp_path / "c.jsonl", TREE["c"]))
    parent, child = await session_of(database, "p"), await session_of(database, "c")
    assert (child.kind, child.parent_id, child.parent_seq, child.past_id) == ("fork", parent.id, 4, None)
    async with database.connection() as conn:
        log = await read_lineage(conn, await load_lineage(conn, child.id, child), upto=child.head)
    assert [event.seq for event in log] == [-3, -2, -1, 0, 1, 2, 3]  # the parent's start, and three of its messages
    # A fork of it at an event of its past is a fork of its parent, there.
    made = await create_child(database, settings, child.id, ChildRequest(kind="fork", at=-1))
    assert (made.parent_id, made.parent_seq, made.base_seq) == (parent.id, 3, 3)
    for beyond in (-4, 4):
        with pytest.raises(UsageError, match=f"has no event {beyond}: there are -3 to 3"):
            await create_child(database, settings, child.id, ChildRequest(kind="fork", at=beyond))


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 1000])
async def test_batches_of_any_size_find_the_same_point(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(intake, "BATCH_EVENTS", batch)
    for name in ("d", "p", "c"):
        await import_logs(database, write_log(tmp_path / f"{name}.jsonl", TREE[name]))
    assert await read_pasts(database) == {name: WHOLE[name] for name in ("c", "d", "p")}


@pytest.mark.parametrize("written", range(8))
async def test_an_import_that_was_killed_is_finished_by_the_next(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    monkeypatch.setattr(intake, "BATCH_EVENTS", 1)
    await import_logs(database, write_log(tmp_path / "p.jsonl", PARENT))
    flush, left = intake.Intake.flush, written

    async def die_after(self: intake.Intake) -> None:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        await flush(self)

    log = write_log(tmp_path / "d.jsonl", TREE["d"])
    with monkeypatch.context() as dying:
        dying.setattr(intake.Intake, "flush", die_after)
        with pytest.raises(KeyboardInterrupt):
            await import_logs(database, log)
    await import_logs(database, log)
    assert await read_pasts(database) == {name: WHOLE[name] for name in ("d", "p")}


async def test_a_fork_that_is_still_being_copied_waits_for_its_own_words(database: Database, tmp_path: Path) -> None:
    await import_logs(database, write_log(tmp_path / "p.jsonl", PARENT))
    for lines in (TREE["d"][:2], TREE["d"][:5], TREE["d"]):
        await import_logs(database, write_log(tmp_path / "d.jsonl", lines))
    assert await read_pasts(database) == {name: WHOLE[name] for name in ("d", "p")}


async def test_a_resumed_session_reads_what_its_file_begins_with(database: Database, tmp_path: Path) -> None:
    await import_logs(database, write_log(tmp_path / "r.jsonl", [*PARENT[:4], *user_lines(2, "r")]))
    assert (await session_of(database, "r")).kind == "resume"
    assert (await read_pasts(database))["r"] == [*PARENT_SAYS[:4], "r says 1", "r says 2"]


async def test_what_an_earlier_version_imported_is_not_found(database: Database, tmp_path: Path) -> None:
    await import_logs(database, write_log(tmp_path / "p.jsonl", PARENT))
    async with database.connection() as conn:
        await conn.execute("update imported_key set session_id = null, seq = null")
    await import_logs(database, write_log(tmp_path / "c.jsonl", TREE["c"]))
    assert (await read_pasts(database))["c"] == ["c says 1", "c says 2"]


async def test_nobody_reads_the_log_of_another_project(database: Database, tmp_path: Path) -> None:
    await import_logs(database, write_log(tmp_path / "p.jsonl", PARENT))
    moved = [{**line, "cwd": "/src/bank"} for line in TREE["c"]]
    await import_logs(database, write_log(tmp_path / "c.jsonl", moved))
    assert (await read_pasts(database))["c"] == ["c says 1", "c says 2"]


@pytest.mark.parametrize("first", ["p", "c"])
async def test_who_holds_another_ones_past_is_erased_with_it(database: Database, tmp_path: Path, first: str) -> None:
    other = "c" if first == "p" else "p"
    for name in (first, other):
        await import_logs(database, write_log(tmp_path / f"{name}.jsonl", TREE[name]))
    await erase_sessions(database, Settings(), await plan_erasure(database, session=first), reason="asked")
    assert await read_pasts(database) == {}
    assert (await import_logs(database, tmp_path)).events == 0
    later = fork_lines(PARENT[:2], "x", parent="elsewhere")
    assert (await import_logs(database, write_log(tmp_path / "x.jsonl", later))).events == 3
    assert await read_pasts(database) == {"x": ["x says 1", "x says 2"]}


def pi_entry(entry: str, parent: str | None, minute: int, text: str) -> Line:
    """An entry of a tree in a log of pi."""
    return {
        "type": "message", "id": entry, "parentId": parent, "timestamp": f"2026-03-01T10:{minute:02}:00.000Z",
        "message": {"role": "user", "content": text},
    }  # fmt: skip


PI_HEADER = {"type": "session", "version": 3, "id": "t", "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/src/shop"}


@pytest.mark.parametrize("batch", [1, 1000])
async def test_branches_of_a_tree_read_what_they_left(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(intake, "BATCH_EVENTS", batch)
    tree = [
        PI_HEADER,
        pi_entry("a", None, 1, "start"),
        {"type": "label", "id": "l", "parentId": "a", "timestamp": "2026-03-01T10:01:30.000Z", "label": "here"},
        pi_entry("b", "l", 2, "abandoned"),
        pi_entry("c", "b", 3, "abandoned too"),
        pi_entry("d", "b", 4, "abandoned inside the abandoned"),
        pi_entry("e", "l", 5, "active"),
    ]
    log = write_log(tmp_path / "tree.jsonl", tree)
    await import_logs(database, log, "pi")
    branched = [{**PI_HEADER, "id": "u", "branchedFrom": "/home/x/2026_t.jsonl"}, *tree[1:3], tree[6]]
    await import_logs(database, write_log(tmp_path / "u.jsonl", [*branched, pi_entry("f", "e", 9, "elsewhere")]), "pi")
    assert await read_pasts(database) == {
        "t": ["start", "active"],
        "t/b": ["start", "abandoned", "abandoned too"],
        "t/d": ["start", "abandoned", "abandoned inside the abandoned"],
        "u": ["start", "active", "elsewhere"],
    }
    assert (await session_of(database, "t/d")).parent_id == (await session_of(database, "t/b")).id
    assert (await import_logs(database, tmp_path, "pi")).events == 0


async def test_codexs_forks_read_what_they_copied(database: Database, tmp_path: Path) -> None:
    def rollout(name: str, said: Sequence[str], **header: str) -> Path:
        lines: list[Line] = [{"type": "session_meta", "payload": {"id": name, "cwd": "/src/shop", **header}}]
        for text in said:
            content = [{"type": "output_text", "text": text}]
            lines.append(
                {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": content}}
            )
        return write_log(tmp_path / f"rollout-{name}.jsonl", lines)

    for path in (
        rollout("fork", ["one", "two", "aside"], forked_from_id="root"),
        rollout("root", ["one", "two", "on"]),
    ):
        await import_logs(database, path, "codex")
    assert await read_pasts(database) == {"fork": ["one", "two", "aside"], "root": ["one", "two", "on"]}


@pytest.mark.parametrize("first", ["p", "c"])
async def test_an_export_of_both_is_read_in_another_database_the_same(
    database: Database, other: Database, tmp_path: Path, first: str
) -> None:
    for name in (first, "c" if first == "p" else "p"):
        await import_logs(database, write_log(tmp_path / f"{name}.jsonl", TREE[name]))
    exported: list[str] = []
    await export_sessions(database, "consolidator", exported.append)
    path = tmp_path / "exports" / "all.jsonl"
    path.parent.mkdir()
    path.write_text("".join(exported))
    await import_logs(other, path, "consolidator")
    there = await read_pasts(other)
    assert sorted(there.values()) == sorted([WHOLE["p"], WHOLE["c"]])
    again: list[str] = []
    await export_sessions(other, "consolidator", again.append)
    assert again == exported

    holder = await session_of(database, "p" if first == "c" else "c")  # whose past is in the other's log
    bundle = tmp_path / "bundles" / "one.jsonl"
    bundle.parent.mkdir()
    bundle.write_text("".join([line async for line in stream_bundle(database, holder.id)]))
    imported, _ = await load_bundle(other, bundle, as_copy=True)
    async with other.connection() as conn:
        row = await sessions.get(conn, imported.session_id)
        log = await read_lineage(conn, await load_lineage(conn, row.id, row), upto=row.head)
    assert [event.data["text"] for event in log if is_said(event)] == WHOLE["p" if first == "c" else "c"]


@pytest.mark.parametrize("order", [*itertools.permutations("pcd")])
async def test_nights_learn_from_each_line_once(
    database: Database, settings: Settings, tmp_path: Path, order: Sequence[str]
) -> None:
    for name in order:
        await import_logs(database, write_log(tmp_path / f"{name}.jsonl", TREE[name]))
    report = await run_job(database, settings)
    assert report["seen"] == len({text for name in order for text in WHOLE[name]}) + len(order)
    await import_logs(database, tmp_path)
    assert (await run_job(database, settings))["seen"] == 0
