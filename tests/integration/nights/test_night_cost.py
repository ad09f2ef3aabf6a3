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
from consolidator.store.memory import error_records, sums
from tests.integration.conftest import OpenDatabase
from tests.nights import booking_events, query_rows, run_next_night, workday_events
from tests.support import log_events, read_memory

HISTORY = 40  # sessions of each person
PROJECTS = ("p0", "p1", "p2", "p3")


class Reads:
    """Counts the digests that a merge reads with what they count, the error records, and the scopes that it mines."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.new_digests = self._count_rows(monkeypatch, sums, "lock_unsummed")
        self.old_digests = self._count_rows(monkeypatch, sums, "get_summed_counts")
        self.error_records = [
            self._count_rows(monkeypatch, error_records, function)
            for function in ("list_of_fingerprints", "list_of_families", "get_each")
        ]
        self.mined: list[tuple[str, str]] = []  # audience and project
        mine = procedure_merge._mine_patterns

        async def count_mined(*arguments: Any) -> Any:
            _, _, audience, _, project, _ = arguments
            self.mined.append((audience.name, project))
            return await mine(*arguments)

        monkeypatch.setattr(procedure_merge, "_mine_patterns", count_mined)

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
async def test_a_night_with_one_new_session_reads_no_other_and_mines_its_project_alone(
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
    assert (sum(reads.new_digests), sum(reads.old_digests)) == (1, 0)
    assert [sum(rows) for rows in reads.error_records] == [0, 0, 0]
    audiences = {"all"} | ({"shared"} if len(people) >= 3 else set()) | ({f"own:{author}"} if author else set())
    assert sorted(reads.mined) == sorted((audience, project) for audience in audiences for project in ("", "p0"))
    assert await read_memory(database) != before


async def test_a_fork_reads_its_relatives_alone(
    database: Database, clock: FrozenClock, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_history(database, ("ada", "bob"), 6)
    await run_next_night(database, clock, settings)
    reads = Reads(monkeypatch)
    fork = {"parent_id": "ada-00", "root_id": "ada-00", "kind": "fork", "peer": "ada", "project": "p0"}
    await log_events(database, "fork", booking_events(7), **fork)
    await run_next_night(database, clock, settings)
    assert (sum(reads.new_digests), sum(reads.old_digests)) == (1, 1)


async def test_people_who_come_one_after_another_teach_what_they_teach_at_once(
    fresh: OpenDatabase, settings: Settings
) -> None:
    rows = "select project, audience, keys, totals, roots from scope_sum order by 1, 2"
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
            learned.append({"sums": await query_rows(database, rows), **memory})
    nightly, batch = learned
    assert {row["audience"] for row in batch["sums"]} == {"all", "shared", "own:", "own:ada", "own:bob", "own:cy"}
    for kind, expected in batch.items():
        assert nightly[kind] == expected, kind
