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
from consolidator.jobs.nightly import Nights
from consolidator.jobs.retention import prune
from consolidator.settings import Settings
from tests.integration.conftest import Fresh
from tests.logs import Evening, Scripted, Story, story
from tests.nights import all_learned, balance, replica
from tests.support import FULL, logged, memory_of, unbroken

PROPERTY = settings(
    max_examples=50 if FULL else 4,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # a seed does not shrink
    suppress_health_check=[HealthCheck.too_slow],
)


async def _log(database: Database, session: Scripted, begin: int, end: int) -> None:
    if end > begin or begin == 0:
        await logged(database, session.name, session.events[begin:end], **session.columns)


async def _evening(database: Database, told: Story, number: int, evening: Evening, home: Any) -> None:
    """Log what has happened by an evening, then let its replicas share the night, and prune."""
    for place, session in enumerate(told.sessions):
        before = told.until(place, number - 1) if number else 0
        await _log(database, session, before, told.until(place, number))
    assert isinstance(database.clock, FrozenClock)
    database.clock.advance(evening.pause)
    chosen = Settings(home=home, workers=evening.workers, consolidation_cron="*/5 * * * *")
    with mock.patch.object(session_window, "WINDOW", evening.window):
        async with replica(database) as other:
            sharing = (database, other)[: evening.replicas]
            await asyncio.gather(*(Nights(one, chosen).run_owed("consolidation") for one in sharing))
    if evening.prune is not None:
        await prune(database, older_than=evening.prune)
    await unbroken(database)
    await balance(database)


async def _in_nights(fresh: Fresh, cut: Story, home: Any) -> Any:
    async with fresh() as database:
        for number, evening in enumerate(cut.evenings):
            await _evening(database, cut, number, evening, home)
        assert await all_learned(database)
        return await memory_of(database)


async def _at_once(fresh: Fresh, whole: Story, home: Any) -> Any:
    return await _in_nights(fresh, Story(whole.sessions, whole.evenings[-1:]), home)


@PROPERTY
@given(seed=strategies.integers(0, 2**32))
@example(seed=203577)  # a project comes to share what another has, on a night without news of the other
@example(seed=48)  # a call with a credential is given up by one night, and answered in another
def test_any_cut_into_nights_learns_what_one_batch_does(
    fresh: Fresh, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    home = tmp_path_factory.getbasetemp()
    batch = asyncio.run(_at_once(fresh, story(seed), home))
    nightly = asyncio.run(_in_nights(fresh, story(seed), home))
    for kind, found in batch.items():
        note(kind)
        assert nightly[kind] == found
