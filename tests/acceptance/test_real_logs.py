"""Import real logs of three systems, if present: every line is read, once, and every result has its call."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from consolidator.database import Database
from consolidator.formats.base import ForeignEvent
from consolidator.formats.registry import get_format
from consolidator.models.event import Event
from consolidator.models.payload import EventType
from consolidator.store.log import events
from consolidator.store.sessions import sessions
from tests.support import assert_invariants, in_thread, run_cli

DEFAULT_DATA = Path(__file__).parents[2].parent / "shared" / "data"
DATA = Path(os.environ.get("CONSOLIDATOR_TEST_DATA", DEFAULT_DATA))
FOLDERS = {
    "claude-code": "claude-code",
    "pi": "pi",
    "tau-airline": "openai-messages",
}


def read_event_keys(format_name: str, folder: Path) -> set[str]:
    """Return the key of every event that the reader finds."""
    reader = get_format(format_name)
    return {
        item.key
        for path in reader.files(folder)
        for item in reader.read(path, folder)
        if isinstance(item, ForeignEvent)
    }


def find_unpaired_results(log: list[Event]) -> list[int]:
    """Return the seqs of results without an open call of their id before them."""
    open_calls: Counter[str] = Counter()
    unpaired = []
    for event in log:
        call_id = str(event.data.get("call_id"))
        if event.type is EventType.TOOL_CALL:
            open_calls[call_id] += 1
        elif event.type is EventType.TOOL_RESULT:
            open_calls[call_id] -= 1
            if open_calls[call_id] < 0:
                unpaired.append(event.seq)
    return unpaired


@pytest.mark.parametrize(("folder", "format_name"), FOLDERS.items())
async def test_a_folder_of_real_logs_is_imported_whole_and_once(
    database: Database, environment: Mapping[str, str], folder: str, format_name: str
) -> None:
    if not (DATA / folder).is_dir():
        pytest.skip(f"{DATA / folder} is not here")
    completed = await in_thread(run_cli, "import", format_name, str(DATA / folder), "--json", environment=environment)
    first = json.loads(completed.stdout)
    assert (first["problem_count"], first["problems"], first["unrecognised"]) == (0, [], [])
    assert first["events"] == len(await in_thread(read_event_keys, format_name, DATA / folder))
    completed = await in_thread(run_cli, "import", "auto", str(DATA / folder), "--json", environment=environment)
    second = json.loads(completed.stdout)
    assert (second["events"], second["files"], second["unchanged"]) == (0, 0, first["files"])
    assert second["unrecognised"] == []
    await assert_all_readable(database, first["events"])


async def assert_all_readable(database: Database, count: int) -> None:
    """Assert that every event can be read, and that every result follows its call."""
    read = 0
    async with database.connection() as conn:
        for session_id in await sessions.list_ids(conn):
            log = await events.read(conn, session_id)
            read += len(log)
            assert find_unpaired_results(log) == []
    assert read == count
    await assert_invariants(database)
