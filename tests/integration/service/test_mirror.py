"""Sessions as claw0's files: a reader that follows the layout gets all of it back, and the log stays the truth."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from consolidator.database import Database
from consolidator.errors import UsageError
from consolidator.jobs.importing.importer import ImportSource, import_sources
from consolidator.service.log import erasure
from consolidator.service.log.mirror import Mirror
from consolidator.settings import Settings
from consolidator.store.sessions import sessions
from tests.conftest import NOON
from tests.nights import start_cli
from tests.support import (
    PATIENCE,
    assistant_response,
    in_thread,
    log_events,
    run_here,
    tool_call,
    tool_result,
    user_message,
)


def rebuild(folder: Path, key: str) -> list[dict[str, Any]]:
    """Return a session's messages as claw0's store restores them: by its index, then line by line."""
    entry = json.loads((folder / "sessions.json").read_text())[key]
    messages: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for line in (folder / "transcripts" / entry["transcript_file"]).read_text().splitlines():
        fields = json.loads(line)
        if fields["type"] == "tool_use":
            calls.append({"id": fields["tool_use_id"], "name": fields["name"], "input": fields["input"]})
            continue
        if calls:
            messages.append({"role": "assistant", "content": calls})
            calls = []
        if fields["type"] == "tool_result":
            messages.append({"role": "user", "content": [fields["tool_use_id"], fields["output"]]})
        elif fields["type"] in ("user", "assistant"):
            messages.append({"role": fields["type"], "content": fields["content"]})
            assert fields["ts"].endswith("Z")
    return messages


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "transcripts").iterdir()}


TURN = [
    user_message("what is in it?"),
    tool_call("c1", "read", {"path": "a"}),
    tool_call("c2", "read", {"path": "b"}),
    tool_result("c1", "empty"),
    tool_result("c2", "full"),
    assistant_response("One is empty."),
]


def wait_for(folder: Path, text: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not any(text in path.read_text() for path in (folder / "transcripts").glob("*.jsonl")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def test_claw0s_reader_gets_every_message_and_result_back(database: Database, tmp_path: Path) -> None:
    """C1, C5, C6, C10, C13, C14, L26, B26."""
    await log_events(database, "one", TURN, key="main:cli:user")
    with Mirror(database, tmp_path).open() as mirror:
        await mirror.update()
        with pytest.raises(UsageError, match="another process keeps"), Mirror(database, tmp_path).open():
            pass
        before = read_files(tmp_path)
        await log_events(database, "one", [user_message("and now?")])
        await mirror.update()
    history = rebuild(tmp_path, "main:cli:user")
    assert [message["role"] for message in history] == ["user", "assistant", "user", "user", "assistant", "user"]
    assert [call["input"] for call in history[1]["content"]] == [{"path": "a"}, {"path": "b"}]
    assert [history[2]["content"], history[3]["content"]] == [["c1", "empty"], ["c2", "full"]]
    assert history[-1] == {"role": "user", "content": "and now?"}
    ((name, text),) = read_files(tmp_path).items()
    assert text.startswith(before[name])  # only appended to
    report = await import_sources(database, [ImportSource(tmp_path)])
    assert (report.events, report.skipped) == (0, {"of a session of this database": 8, "index": 1})


async def test_an_imported_session_keeps_its_programs_names_and_the_index_names_the_current_one(
    database: Database, tmp_path: Path
) -> None:
    """C1, C9, C10."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    (theirs / "transcripts").mkdir(parents=True)
    index: dict[str, dict[str, Any]] = {}
    for name, entry, head in (("main:cli:user", "a1b2", False), ("c3d4", "c3d4", True), ("main:web:x", "e5f6", True)):
        key, created = name if ":" in name else "main:cli:user", f"2026-01-0{len(index) + 1}T00:00:00Z"
        index[name] = {"session_key": key, "session_id": entry, "created_at": created, "updated_at": created}
        index[name] |= {"message_count": 1, "transcript_file": f"{key.replace(':', '_')}_{entry}.jsonl"}
        first = [{"type": "session", "id": entry, "created": created}] if head else []
        lines = [*first, {"type": "user", "content": f"I am {entry}", "ts": created}]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (theirs / "transcripts" / index[name]["transcript_file"]).write_text(text)
    (theirs / "sessions.json").write_text(json.dumps(index))
    assert (await import_sources(database, [ImportSource(theirs / "transcripts")])).problems == []
    await log_events(database, "one", TURN, key="main:cli:own", agent="main")
    await log_events(database, "two", TURN, key="main:cli:own", agent="main")
    await log_events(database, "keyless", TURN)
    for session_id in ("two", "one"):
        async with database.transaction() as conn:
            await sessions.make_current(conn, session_id)
        with Mirror(database, ours).open() as mirror:
            await mirror.update()
        written = json.loads((ours / "sessions.json").read_text())
        assert written["main:cli:own"]["session_id"] == session_id
    for name in index:
        assert {field: written[name][field] for field in ("session_key", "session_id", "created_at")} == {
            field: index[name][field] for field in ("session_key", "session_id", "created_at")
        }
        head = json.loads((ours / "transcripts" / written[name]["transcript_file"]).read_text().splitlines()[0])
        assert (head["id"], head["key"]) == (written[name]["session_id"], written[name]["session_key"])
    (keyless,) = [entry for entry in written.values() if entry["session_id"] == "keyless"]
    lines = (ours / "transcripts" / keyless["transcript_file"]).read_text().splitlines()
    assert json.loads(lines[0])["key"] == keyless["session_key"] == "coder::keyless"
    assert (await import_sources(database, [ImportSource(ours)])).events == 0


@pytest.mark.parametrize("damage", ["torn", "longer", "other", "shorter", "no index"])
async def test_a_mirror_that_was_killed_or_changed_comes_to_say_what_the_log_says(
    database: Database, tmp_path: Path, damage: str
) -> None:
    """C14."""
    await log_events(database, "one", TURN, key="main:cli:user")
    here, there = tmp_path / "here", tmp_path / "there"
    with Mirror(database, here).open() as mirror:
        await mirror.update()
    (path,) = (here / "transcripts").iterdir()
    text = path.read_bytes()
    if damage != "shorter":
        await log_events(database, "one", [user_message("and now?")])
    match damage:
        case "torn":  # killed in the middle of a line, before the index was written
            path.write_bytes(text + b'{"type":"user","con')
        case "longer":
            path.write_bytes(text + b'{"type":"user","content":"never said"}\n')
        case "other":
            (here / "sessions.json").unlink()
            path.write_bytes(text.replace(b"One is empty", b"One is fuller"))
        case "shorter":
            path.write_bytes(text[:-20])
        case _:
            (here / "sessions.json").unlink()
    for folder in (here, there):
        with Mirror(database, folder).open() as mirror:
            await mirror.update()
    assert read_files(here) == read_files(there)
    assert (here / "sessions.json").read_bytes() == (there / "sessions.json").read_bytes()


async def test_what_is_erased_is_gone_from_the_mirror(database: Database, tmp_path: Path) -> None:
    await log_events(database, "one", TURN, key="main:cli:user")
    await log_events(database, "two", TURN, key="main:cli:other")
    with Mirror(database, tmp_path).open() as mirror:
        await mirror.update()
        assert len(read_files(tmp_path)) == 2
        plan = await erasure.plan_erasure(database, session="one")
        await erasure.erase_sessions(database, Settings(home=tmp_path), plan, reason="asked")
        await mirror.update()
    assert len(read_files(tmp_path)) == 1
    assert list(json.loads((tmp_path / "sessions.json").read_text())) == ["main:cli:other"]


async def test_the_command_follows_and_goes_on_after_a_kill(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    await log_events(database, "one", TURN, key="main:cli:user")
    folder = tmp_path / "mirror"
    for number in range(2):
        with start_cli("mirror", str(folder), environment=environment) as process:
            await log_events(database, "one", [user_message(f"say {number}")])

            await in_thread(wait_for, folder, f"say {number}")
            process.send_signal(signal.SIGKILL)
            await in_thread(process.communicate, PATIENCE)
    await in_thread(run_here, "mirror", str(folder), "--once", environment=environment)
    assert [message["content"] for message in rebuild(folder, "main:cli:user")[-2:]] == ["say 0", "say 1"]
    assert NOON.isoformat()[:10] in (folder / "sessions.json").read_text()


async def test_a_link_in_the_place_of_a_file_is_not_followed(database: Database, tmp_path: Path) -> None:
    await log_events(database, "one", [user_message("hello")])
    folder, victim = tmp_path / "mirror", tmp_path / "victim"
    victim.write_text("mine")
    with Mirror(database, folder).open() as mirror:
        await mirror.update()
    (transcript,) = (folder / "transcripts").iterdir()
    for name in (transcript, folder / ".sessions.json.part", folder / ".mirror.lock"):
        name.unlink(missing_ok=True)
        name.symlink_to(victim)
        (folder / "sessions.json").unlink(missing_ok=True)
        with pytest.raises(UsageError, match="cannot keep"), Mirror(database, folder).open() as mirror:
            await mirror.update()
        name.unlink()
    assert victim.read_text() == "mine"
    (folder / "transcripts").rename(tmp_path / "elsewhere")
    (folder / "transcripts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is a link"), Mirror(database, folder).open():
        pass


async def test_a_key_of_many_wide_letters_does_not_end_the_mirror(database: Database, tmp_path: Path) -> None:
    await log_events(database, "one", [user_message("hello")], key="main:web:" + "漢" * 200)
    with Mirror(database, tmp_path).open() as mirror:
        await mirror.update()
    (transcript,) = (tmp_path / "transcripts").iterdir()
    assert transcript.name.startswith("main_web_漢")


async def test_another_programs_files_are_not_touched(database: Database, tmp_path: Path) -> None:
    transcript = tmp_path / "transcripts" / "main_cli_q_q1.jsonl"
    transcript.parent.mkdir()
    transcript.write_text('{"type":"session","id":"q1"}\n')
    entry: dict[str, Any] = {"session_key": "main:cli:q", "session_id": "q1", "created_at": "2026-01-01T00:00:00Z"}
    entry |= {"updated_at": "2026-01-01T00:00:00Z", "message_count": 0, "transcript_file": transcript.name}
    index = tmp_path / "sessions.json"
    index.write_text(json.dumps({"main:cli:q": entry}))
    before = (transcript.read_text(), index.read_text())
    await log_events(database, "s", [user_message("hi")])
    with pytest.raises(UsageError, match="choose another folder"), Mirror(database, tmp_path).open() as mirror:
        await mirror.update()
    assert (transcript.read_text(), index.read_text()) == before
