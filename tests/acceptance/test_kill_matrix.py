"""The kill matrix: die at every boundary of a turn, wake in a new process, and the history is right (I1 to I6).

The boundaries are those that a run without a kill passes. A sample of them is tested here, all with `make matrix`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from consolidator.database import Database
from consolidator.testing import ModelServer
from tests.acceptance import matrix
from tests.acceptance.matrix import SCENARIOS, Matrix
from tests.acceptance.matrix_agent import Forker
from tests.support import unbroken

FULL = os.environ.get("CONSOLIDATOR_TEST_MATRIX") == "full"
TWICE = 7  # in full, every so many boundaries of a recovery that dies, too


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A model that answers as the matrix's conversations ask."""
    async with ModelServer(answers=matrix.answers, prefill=True) as running:
        yield running


@pytest.fixture
async def runs(
    database: Database, server: ModelServer, environment: dict[str, str], tmp_path: Path
) -> AsyncIterator[list[Matrix]]:
    """Two processes that fork children which die: one for each core of a small machine."""
    forkers = [Forker(environment) for _ in range(2)]
    yield [Matrix(forker, database, server.url, tmp_path, number=1000 * n) for n, forker in enumerate(forkers)]
    for forker in forkers:
        await asyncio.to_thread(forker.close)


async def test_every_boundary_survives_a_kill(runs: list[Matrix], server: ModelServer, database: Database) -> None:
    uninterrupted, points = {}, {}
    for name in SCENARIOS:
        told = runs[0].told(name)
        found = await asyncio.to_thread(runs[0].run, told)
        assert found is not None
        outcome = await matrix.look(database, told)
        assert outcome is not None
        matrix.check(outcome, kills=0)
        uninterrupted[name], points[name] = outcome, found["points"]
    cases = _all(points) if FULL else _sample(points)
    waiting = iter(cases)

    async def work(run: Matrix) -> None:
        for name, kill, again in waiting:
            await _one(run, name, kill, again, uninterrupted[name])

    async with asyncio.TaskGroup() as group:
        for run in runs:
            group.create_task(work(run))
    assert matrix.orphans(server.requests) == []
    await unbroken(database)
    passed = sum(len(names) for names in points.values())
    sys.stderr.write(f"\nkill matrix: {len(cases)} runs, of {passed} boundaries in {len(points)} scenarios\n")


async def _one(run: Matrix, name: str, kill: int, again: int, uninterrupted: matrix.Outcome) -> None:
    """Die at a boundary, and where `again` says so at another one of the recovery; wake, and look."""
    told = run.told(name)
    kills = 0
    for number in (kill, again):
        if number and await asyncio.to_thread(partial(run.run, told, kill=number)) is None:
            kills += 1
    await asyncio.to_thread(run.run, told)
    outcome = await matrix.look(run.database, told)
    assert outcome is not None
    try:
        matrix.check(outcome, kills=kills)
        if SCENARIOS[name].same:
            matrix.alike(outcome, uninterrupted)
    except AssertionError as error:
        error.add_note(f"{name}, killed at boundary {kill}, again at {again}; session {outcome.row['id']}")
        raise


def _all(points: dict[str, list[str]]) -> list[tuple[str, int, int]]:
    """Return every boundary of every scenario, and for some of them a second kill in the recovery."""
    once = [(name, n, 0) for name, passed in points.items() for n in range(1, len(passed) + 1)]
    twice = [(name, n, n % 23 + 2) for name, n, _ in once[::TWICE]]
    return [*once, *twice]


def _sample(points: dict[str, list[str]]) -> list[tuple[str, int, int]]:
    """Return each kind of boundary once, in as many scenarios as there are."""
    kinds: dict[str, list[tuple[str, int]]] = {}
    for name, passed in points.items():
        for number, kind in enumerate(passed, 1):
            kinds.setdefault(kind, []).append((name, number))
    chosen = [places[n * 7 % len(places)] for n, places in enumerate(kinds.values())]
    return [(name, number, 3 if n % 5 == 0 else 0) for n, (name, number) in enumerate(chosen)]
