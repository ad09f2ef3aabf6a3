"""The chain of a fact: what took whose place, not whatever was said of the same."""

from __future__ import annotations

from datetime import timedelta

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.memory_filter import FactFilter, MemoryScope
from consolidator.service.memory.facts import correct_fact, forget_fact, list_facts, load_fact_chain
from consolidator.service.memory.remember import remember
from consolidator.settings import Settings
from tests.integration.service.test_corrections import learn_from, single_fact

NPM, PNPM, YARN = (f"Our package manager is {name}." for name in ("npm", "pnpm", "yarn"))


async def test_a_chain_leads_from_what_was_replaced_to_what_replaced_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for words in (NPM, PNPM, YARN):
        await learn_from(database, clock, settings, words)
    yarn = await single_fact(database)
    chain = await load_fact_chain(database, yarn)
    assert [each.sentence.split()[-1].strip(".") for each in chain.facts] == ["npm", "pnpm", "yarn"]
    assert [each.superseded_by for each in chain.facts] == [*(each.id for each in chain.facts[1:]), None]
    assert (chain.others, chain.is_cut) == ([], False)
    (npm,) = [fact for fact in await list_facts(database, FactFilter(include_superseded=True)) if fact.value == "npm"]
    assert [each.id for each in (await load_fact_chain(database, npm)).facts] == [each.id for each in chain.facts]


async def test_a_correction_is_in_the_chain_and_what_it_corrected_was_never_true(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await learn_from(database, clock, settings, NPM)
    wrong = await single_fact(database)
    clock.advance(timedelta(hours=1))
    right = await correct_fact(database, wrong.id, "Our package manager is bun.")
    chain = await load_fact_chain(database, right)
    assert [(each.id, each.is_withdrawn) for each in chain.facts] == [(wrong.id, True), (right.id, False)]


async def test_what_was_said_of_the_same_without_taking_a_place_stands_beside(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await learn_from(database, clock, settings, NPM)
    forgotten = await single_fact(database)
    await forget_fact(database, forgotten.id)
    await learn_from(database, clock, settings, PNPM)
    chain = await load_fact_chain(database, await single_fact(database))
    assert len(chain.facts) == 1
    assert [each.id for each in chain.others] == [forgotten.id]


async def test_what_was_forgotten_and_said_again_has_a_former_version(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    fact_id = (await remember(database, "The branch is trunk.", MemoryScope(agent="coder", project="/shop"))).id
    clock.advance(timedelta(hours=1))
    await forget_fact(database, fact_id)
    clock.advance(timedelta(hours=1))
    again = await remember(database, "The branch is trunk.", MemoryScope(agent="coder", project="/shop"))
    (fact,) = await list_facts(database)
    assert fact.id == again.id
    chain = await load_fact_chain(database, fact)
    assert [each.is_withdrawn for each in chain.facts] == [False]
    (version,) = chain.versions[fact.id]
    assert (version.superseded_at, version.until) == (clock.now() - timedelta(hours=1), clock.now())
