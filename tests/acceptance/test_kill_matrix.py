"""The kill matrix: die at every boundary of a turn, wake in a new process, and the history is right (I1 to I6).

The boundaries are those that a run without a kill passes. A sample of them is tested here, all with `make matrix`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

import pytest

from consolidator.database import Database
from consolidator.runtime.session.boundaries import Boundary
from consolidator.testing import ModelServer
from tests.acceptance import matrix
from tests.acceptance.matrix import SCENARIOS, Matrix
from tests.acceptance.matrix_agent import ForkServer
from tests.support import FULL, QUICK, assert_invariants

T = TypeVar("T")
TWICE = 7  # in the full matrix, every so many deaths are followed by a second one in the recovery


@dataclass(frozen=True)
class Case:
    """Die at the n-th boundary of a name; with `again`, also at that boundary of the recovery."""

    scenario: str
    boundary: str
    number: int
    again: int = 0


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """The model server of the matrix's conversations."""
    async with ModelServer(answers=matrix.create_reply, prefill=True) as running:
        yield running


@pytest.fixture
async def runs(
    database: Database, server: ModelServer, environment: dict[str, str], tmp_path: Path
) -> AsyncIterator[list[Matrix]]:
    """Two fork servers: one for each core of a small machine."""
    forkers = [ForkServer(environment) for _ in range(2)]
    yield [Matrix(forker, database, server.url, tmp_path, number=1000 * n) for n, forker in enumerate(forkers)]
    for forker in forkers:
        await asyncio.to_thread(forker.close)


async def test_every_boundary_survives_a_kill(
    runs: list[Matrix], server: ModelServer, database: Database, record_property: Callable[[str, object], None]
) -> None:
    """P1."""
    whole: dict[str, matrix.SessionOutcome] = {}
    points: dict[str, list[str]] = {}

    async def undisturbed(run: Matrix, name: str) -> None:
        whole[name], points[name] = await _run_without_kill(run, name)

    # One after another, and first the one that also ends other scenarios' sub-agents: each passes its own alone.
    await _run_on_all(runs[:1], sorted(SCENARIOS, key=lambda name: name != "abandoned"), undisturbed)
    _assert_all_boundaries_passed(points)
    points = {name: points[name] for name in SCENARIOS}
    cases = _all_cases(points) if FULL else _sample_cases(points)
    await _run_on_all(runs, cases, lambda run, case: _run_case(run, case, whole[case.scenario]))
    assert matrix.find_unpaired_messages(server.requests) == []
    await assert_invariants(database)
    passed = sum(len(names) for names in points.values())
    record_property("summary", f"kill matrix: {len(cases)} deaths, of {passed} boundaries in {len(points)} scenarios")


async def _run_on_all(runs: Iterable[Matrix], work: Iterable[T], do: Callable[[Matrix, T], Awaitable[None]]) -> None:
    """Distribute work over all fork servers; each takes the next item when it is free."""
    waiting = iter(work)

    async def work_through(run: Matrix) -> None:
        for item in waiting:
            await do(run, item)

    async with asyncio.TaskGroup() as group:
        for run in runs:
            group.create_task(work_through(run))


async def _run_without_kill(run: Matrix, name: str) -> tuple[matrix.SessionOutcome, list[str]]:
    """Run a scenario without a kill; return its outcome and the boundaries that it passed."""
    request = run.new_run(name)
    report = await asyncio.to_thread(run.run_child, request)
    assert report is not None
    outcome = await matrix.inspect_run(run.database, request)
    assert outcome is not None
    for session in (outcome, *await matrix.inspect_children(run.database, request)):
        matrix.assert_consistent(session, kills=0)
    assert report["bare"] == [], "this is written outside of every boundary"
    return outcome, report["points"]


def _assert_all_boundaries_passed(points: Mapping[str, Sequence[str]]) -> None:
    """Assert that the scenarios pass both sides of every boundary that the code may use."""
    passed = {name for names in points.values() for name in names}
    assert passed == {f"{side} {name}" for name in get_args(Boundary) for side in ("before", "after")}


async def _run_case(run: Matrix, case: Case, uninterrupted: matrix.SessionOutcome) -> None:
    """Die at a boundary, and perhaps in the recovery too; wake the session, and check it."""
    request = run.new_run(case.scenario)
    try:
        assert await asyncio.to_thread(partial(run.run_child, request, kill=(case.number, case.boundary))) is None, (
            "it lives"
        )
        kills = 1
        if case.again and await asyncio.to_thread(partial(run.run_child, request, kill=(case.again, None))) is None:
            kills += 1
        await asyncio.to_thread(run.run_child, request)
        outcome = await matrix.inspect_run(run.database, request)
        assert outcome is not None
        for session in (outcome, *await matrix.inspect_children(run.database, request)):
            matrix.assert_consistent(session, kills=kills)
        if SCENARIOS[case.scenario].same:
            matrix.assert_equivalent(outcome, uninterrupted)
    except AssertionError as error:
        error.add_note(f"{case} of {request['key']}")
        raise


def _all_cases(points: Mapping[str, Sequence[str]]) -> list[Case]:
    """Return a case for every boundary of every scenario, and for some a second kill in the recovery."""
    once = [
        Case(scenario, name, passed[:n].count(name) + 1) for scenario, passed in points.items()
        for n, name in enumerate(passed)
    ]  # fmt: skip
    twice = [replace(case, again=n % 23 + 2) for n, case in enumerate(once[::TWICE])]
    return [*once, *twice]


def _sample_cases(points: Mapping[str, Sequence[str]]) -> list[Case]:
    """Return one case for each kind of boundary, spread over the scenarios; for CI one for every eighth kind."""
    kinds: dict[str, list[Case]] = {}
    for case in _all_cases(points):
        if not case.again and (case.number == 1 or "renewal" not in case.boundary):  # a second comes on slow machines
            kinds.setdefault(case.boundary, []).append(case)
    chosen = [places[n * 7 % len(places)] for n, places in enumerate(kinds.values())]
    return [replace(case, again=3) if n % 6 == 0 else case for n, case in enumerate(chosen)][:: 8 if QUICK else 1]
