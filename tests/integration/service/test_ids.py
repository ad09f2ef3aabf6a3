"""The beginning of an id names what the viewer reaches, and nothing else."""

from __future__ import annotations

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import ConsolidatorError, NotFound, UsageError
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import FactFilter
from consolidator.models.viewer import Viewer
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import correct_fact, forget_fact, list_facts
from consolidator.service.memory.remember import forget
from consolidator.service.nights.runs import list_runs, load_run
from consolidator.settings import Settings
from tests.nights import run_next_night
from tests.support import log_events, user_message

ALIKE = "aaaa"  # the ids of all facts of these tests begin so


async def learn_alike(database: Database, clock: FrozenClock, settings: Settings) -> dict[str, FactRow]:
    """Let two people each state where they work, and give the two facts ids that begin alike; return them by person."""
    for person, city in (("ada", "Oslo"), ("bob", "Turin")):
        await log_events(database, person, [user_message(f"I live in {city}.")], agent="desk", peer=person)
    await run_next_night(database, clock, settings)
    async with database.transaction() as conn:
        await conn.execute("update fact set id = %s || substr(id, 5)", (ALIKE,))
    facts = {str(fact.peer): fact for fact in await list_facts(database)}
    assert set(facts) == {"ada", "bob"}
    return facts


async def test_a_prefix_of_several_lists_them_and_a_longer_one_names_one(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    facts = await learn_alike(database, clock, settings)
    with pytest.raises(UsageError) as several:
        await explain(database, ALIKE)
    assert all(fact.id in str(several.value) and fact.sentence in str(several.value) for fact in facts.values())
    for name in (facts["ada"].id[:9].upper(), f"[fact:{facts['ada'].id[:9]}]"):  # also as a line cites it
        assert (await explain(database, name))["row"].id == facts["ada"].id
    for nothing in ("bbbbb", ALIKE[:3], "", "aaaa%"):
        with pytest.raises(NotFound):
            await explain(database, nothing)
    corrected = await correct_fact(database, facts["ada"].id[:9], "Ada lives in Bergen.")
    assert (corrected.sentence, (await list_facts(database, FactFilter(peer="ada")))[0].id) == (
        "Ada lives in Bergen.",
        corrected.id,
    )
    with pytest.raises(UsageError, match="begin with 'aaaa'"):
        await forget(database, f"[fact:{ALIKE}]")
    assert (await forget(database, f"[fact:{facts['bob'].id[:9]}]")).statement == facts["bob"].sentence


@pytest.mark.parametrize("viewer", [Viewer(peer="ada"), Viewer(peer="bob")])
async def test_a_prefix_tells_nothing_of_what_the_viewer_does_not_reach(
    database: Database, clock: FrozenClock, settings: Settings, viewer: Viewer
) -> None:
    facts = await learn_alike(database, clock, settings)
    own = facts.pop(str(viewer.peer))
    (other,) = facts.values()
    assert (await explain(database, ALIKE, viewer=viewer))["row"].id == own.id
    assert (await explain(database, ALIKE, peer=own.peer))["row"].id == own.id
    messages = set()
    for name in (other.id[:9], "bbbbbbbbb"):
        for ask in (explain, forget_fact):
            with pytest.raises(ConsolidatorError) as error:
                await ask(database, name, viewer=viewer)
            messages.add((type(error.value), ask, str(error.value).replace(name, "ID")))
    assert len(messages) == 2  # one for each function, whether the id is another's or nobody's
    assert (await forget_fact(database, ALIKE, viewer=viewer)).id == own.id


async def test_runs_are_named_by_the_beginning_of_their_ids(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await learn_alike(database, clock, settings)
    (run,) = await list_runs(database)
    assert (await load_run(database, run.id[:6].lower()))["id"] == run.id
