"""What a night reads and mines follows what is new in it, also where several people have long histories."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.merging import procedure_merge
from consolidator.settings import Settings
from consolidator.store.calls import digests, error_records
from tests.integration.conftest import OpenDatabase
from tests.nights import booking_events, query_rows, run_next_night, workday_events
from tests.support import log_events, read_memory

pytestmark = pytest.mark.usefixtures("agents_apart")

HISTORY = 40  # sessions of each person
PROFILES = "select project, audience, tool, body from tool_profile order by 1, 2, 3"
PROJECTS = ("p0", "p1", "p2", "p3")


class Reads:
    """Counts the digests and error records that a merge reads, and notes the scopes that it learns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.digests = self._count_rows(monkeypatch, digests, "list_latest")
        self.texts = self._count_rows(monkeypatch, digests, "get_terms")
        self.error_records = [
            self._count_rows(monkeypatch, error_records, function) for function in ("list_of_fingerprints", "get_each")
        ]
        self.learned: list[tuple[str, str]] = []  # audience and project
        learn = procedure_merge.learn_scope

        async def note_scope(*arguments: Any) -> Any:
            _, _, project, audience, _, _ = arguments
            self.learned.append((audience.name, project))
            return await learn(*arguments)

        monkeypatch.setattr(procedure_merge, "learn_scope", note_scope)

    @staticmethod
    def _count_rows(monkeypatch: pytest.MonkeyPatch, module: Any, function: str) -> list[int]:
        read, rows = getattr(module, function), []

        async def count(*arguments: Any, **options: Any) -> Any:
            answer = await read(*arguments, **options)
            rows.append(len(answer))
            return answer

        monkeypatch.setattr(module, function, count)
        return rows


async def log_history(database: Database, people: Iterable[str], count: int = HISTORY) -> None:
    for person in people:
        for number in range(count):
            project = PROJECTS[number % len(PROJECTS)]
            events = workday_events(number)
            await log_events(database, f"{person}-{number:02d}", events, peer=person or None, project=project)


@pytest.mark.parametrize("people", [("ada", "bob"), ("ada", ""), ("ada", "bob", "")])
@pytest.mark.parametrize("author", ["ada", ""])
async def test_a_night_with_one_new_session_learns_its_project_alone(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    people: tuple[str, ...],
    author: str,
) -> None:
    if author not in people:
        pytest.skip("this person has no history")
    await log_history(database, people)
    await run_next_night(database, clock, settings)
    before = await read_memory(database)
    reads = Reads(monkeypatch)
    await log_events(database, "new", booking_events(HISTORY), peer=author or None, project="p0")
    await run_next_night(database, clock, settings)
    assert sum(reads.texts) <= 2 * len(reads.learned)  # of the new session, where a key recurs for the first time
    assert [sum(rows) for rows in reads.error_records] == [0, 0]
    audiences = {"all"} | ({"shared"} if len(people) >= 3 else set()) | ({f"own:{author}"} if author else set())
    assert sorted(reads.learned) == sorted((audience, project) for audience in audiences for project in ("", "p0"))
    assert await read_memory(database) != before


async def test_a_night_reads_as_much_however_long_the_history_is(
    fresh: OpenDatabase, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "MAX_SESSIONS", 8)
    read = []
    for count in (8, 3 * HISTORY):
        async with fresh() as database:
            assert isinstance(database.clock, FrozenClock)
            await log_history(database, ("",), count)
            await run_next_night(database, database.clock, settings)
            with monkeypatch.context() as patched:
                reads = Reads(patched)
                await log_events(database, "new", booking_events(HISTORY), project="p0")
                await run_next_night(database, database.clock, settings)
            read.append(max(reads.digests))
            assert len(reads.digests) == 2
    assert read == [8, 8]


async def test_people_who_come_one_after_another_teach_what_they_teach_at_once(
    fresh: OpenDatabase, settings: Settings
) -> None:
    learned = []
    for is_nightly in (True, False):
        async with fresh() as database:
            assert isinstance(database.clock, FrozenClock)
            for number in range(6):
                for person in ("cy", "ada", "", "bob"):
                    name, project = f"{person}-{number}", PROJECTS[(number * 3 + len(person)) % 2]
                    await log_events(database, name, workday_events(number), peer=person or None, project=project)
                    if is_nightly or name == "bob-5":
                        await run_next_night(database, database.clock, settings)
                    else:
                        database.clock.advance(timedelta(hours=1))  # as a night does
            memory = await read_memory(database)
            learned.append({"profiles": await query_rows(database, PROFILES), **memory})
    nightly, batch = learned
    assert {row["audience"] for row in batch["profiles"]} == {"all", "shared", "own:ada", "own:bob", "own:cy"}
    for kind, expected in batch.items():
        assert nightly[kind] == expected, kind
