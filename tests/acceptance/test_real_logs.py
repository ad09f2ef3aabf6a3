"""Real logs of five systems, where they are at hand: all of each is understood, once, and every result has its call."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from consolidator.database import Database
from consolidator.formats import format_named
from consolidator.formats.base import ForeignEvent
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store.log import events, sessions
from tests.support import command, in_thread, unbroken

_BESIDE = Path(__file__).parents[2].parent / "shared" / "data"
DATA = Path(os.environ.get("CONSOLIDATOR_TEST_DATA", _BESIDE))
FOLDERS = {
    "claude-code": "claude-code",
    "intercode": "intercode",
    "pi": "pi",
    "swe-agent": "swe-agent",
    "tau-airline": "openai-messages",
}


def keys_in(form: str, folder: Path) -> set[str]:
    """The identity of every event that the reader finds."""
    reader = format_named(form)
    return {
        item.key
        for path in reader.files(folder)
        for item in reader.read(path, folder)
        if isinstance(item, ForeignEvent)
    }


def unpaired(log: list[Event]) -> list[int]:
    """The seqs of results that follow no open call of their id."""
    waiting: Counter[str] = Counter()
    found = []
    for event in log:
        call = str(event.data.get("call_id"))
        if event.type is EventType.TOOL_CALL:
            waiting[call] += 1
        elif event.type is EventType.TOOL_RESULT:
            waiting[call] -= 1
            if waiting[call] < 0:
                found.append(event.seq)
    return found


@pytest.mark.parametrize(("folder", "form"), FOLDERS.items())
async def test_a_folder_of_real_logs_is_imported_whole_and_once(
    database: Database, environment: Mapping[str, str], folder: str, form: str
) -> None:
    if not (DATA / folder).is_dir():
        pytest.skip(f"{DATA / folder} is not here")
    done = await in_thread(command, "import", form, str(DATA / folder), "--json", environment=environment)
    first = json.loads(done.stdout)
    assert (first["problem_count"], first["problems"], first["unrecognised"]) == (0, [], [])
    assert first["events"] == len(await in_thread(keys_in, form, DATA / folder))
    done = await in_thread(command, "import", "auto", str(DATA / folder), "--json", environment=environment)
    again = json.loads(done.stdout)
    assert (again["events"], again["files"], again["unchanged"]) == (0, 0, first["files"])
    assert again["unrecognised"] == []
    await everything_is_there(database, first["events"])


async def everything_is_there(database: Database, count: int) -> None:
    """Every event can be read, and every result follows its call."""
    found = 0
    async with database.connection() as conn:
        for session in await sessions.all_ids(conn):
            log = await events.read(conn, session)
            found += len(log)
            assert unpaired(log) == []
    assert found == count
    await unbroken(database)
