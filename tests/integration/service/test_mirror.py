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
from consolidator.service.log import erasure
from consolidator.service.log.mirror import Mirror
from consolidator.settings import Settings
from tests.conftest import NOON
from tests.nights import start_cli
from tests.support import (
    PATIENCE,
    assistant_response,
    in_thread,
    log_events,
    run_cli,
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
        with start_cli("mirror", str(folder), "--every", "0.1", environment=environment) as process:
            await log_events(database, "one", [user_message(f"say {number}")])

            await in_thread(wait_for, folder, f"say {number}")
            process.send_signal(signal.SIGKILL)
            await in_thread(process.communicate, None, PATIENCE)
    await in_thread(run_cli, "mirror", str(folder), "--once", environment=environment)
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
