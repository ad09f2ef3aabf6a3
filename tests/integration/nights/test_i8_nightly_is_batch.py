"""I8: however a log is cut into nights, and however many workers share a night, what is learned is the same."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings, strategies

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation import session_window
from consolidator.jobs.nightly import JobRunner
from consolidator.jobs.retention import prune
from consolidator.settings import Settings
from consolidator.store.calls import digests
from tests.integration.conftest import OpenDatabase
from tests.logs import NightPlan, ScriptedSession, Story, make_story, steer_tasks
from tests.nights import all_learned, assert_ledger_balances, limit_records, open_replica
from tests.support import FULL, assert_invariants, count_examples, log_events, read_memory

PROPERTY = settings(
    max_examples=50 if FULL else count_examples(4),
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # a seed does not shrink
    suppress_health_check=[HealthCheck.too_slow],
)


async def _log_part(database: Database, session: ScriptedSession, begin: int, end: int) -> None:
    if end > begin or begin == 0:
        await log_events(database, session.name, session.events[begin:end], **session.columns)


async def _run_evening(database: Database, story: Story, number: int, evening: NightPlan, home: Any) -> None:
    """Log what has happened by an evening, then let its replicas share the night, and prune."""
    for index, session in enumerate(story.sessions):
        before = story.events_until(index, number - 1) if number else 0
        await _log_part(database, session, before, story.events_until(index, number))
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(evening.pause)
    night_settings = Settings(home=home, workers=evening.workers, consolidation_cron="*/5 * * * *")
    with mock.patch.object(session_window, "WINDOW", evening.window):
        async with open_replica(database) as other:
            replicas = (database, other)[: evening.replicas]
            await asyncio.gather(*(JobRunner(replica, night_settings).run_due("consolidation") for replica in replicas))
    if evening.prune is not None:
        await prune(database, older_than=evening.prune)
    await assert_invariants(database)
    await assert_ledger_balances(database)


async def _learn_nightly(fresh: OpenDatabase, story: Story, home: Any) -> Any:
    async with fresh() as database:
        for number, evening in enumerate(story.nights):
            await _run_evening(database, story, number, evening, home)
        assert await all_learned(database)
        return await read_memory(database)


async def _learn_at_once(fresh: OpenDatabase, story: Story, home: Any) -> Any:
    return await _learn_nightly(fresh, Story(story.sessions, story.nights[-1:]), home)


@PROPERTY
@given(seed=strategies.integers(0, 2**32))
@example(seed=203577)  # two projects come to share a procedure on a night with news of one of them only
@example(seed=48)  # a call with a credential is given up by one night, and answered in another
def test_any_cut_into_nights_learns_what_one_batch_does(
    fresh: OpenDatabase, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    _compare(fresh, make_story(seed), tmp_path_factory.getbasetemp())


@settings(PROPERTY, max_examples=PROPERTY.max_examples // 2)
@given(seed=strategies.integers(0, 2**32), size=strategies.integers(1, 4))
def test_a_history_longer_than_what_scopes_are_learned_from_teaches_the_same(
    fresh: OpenDatabase, tmp_path_factory: pytest.TempPathFactory, seed: int, size: int
) -> None:
    with mock.patch.object(digests, "MAX_SESSIONS", size), limit_records(size):
        _compare(fresh, make_story(seed), tmp_path_factory.getbasetemp())


@settings(PROPERTY, max_examples=PROPERTY.max_examples // 2)
@given(seed=strategies.integers(0, 2**32))
@example(seed=48)
def test_steers_and_the_ends_of_their_tasks_may_be_read_on_different_nights(
    fresh: OpenDatabase, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    _compare(fresh, steer_tasks(make_story(seed)), tmp_path_factory.getbasetemp())


def _compare(fresh: OpenDatabase, story: Story, home: Any) -> None:
    """Assert that the nights of a story and one batch learn the same."""
    batch = asyncio.run(_learn_at_once(fresh, story, home))
    nightly = asyncio.run(_learn_nightly(fresh, story, home))
    for kind, rows in batch.items():
        note(kind)
        assert nightly[kind] == rows
