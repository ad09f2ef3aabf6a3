"""A person's word on memory: the forgotten stays so, a correction outranks all, quarantine is theirs to settle."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import Forbidden, NotFound, UsageError
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import FactFilter, MemoryScope
from consolidator.models.viewer import Viewer
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import (
    correct_fact,
    forget_fact,
    list_facts,
    list_quarantined,
    review_candidate,
    undo_change,
)
from consolidator.service.memory.recall import recall
from consolidator.service.memory.remember import remember
from consolidator.settings import Settings
from consolidator.testing import ModelServer, ScriptedReply
from tests.databases import fetch_dicts
from tests.nights import query_number, query_rows
from tests.oracle import fact_json, parse_lines, with_model
from tests.support import assert_invariants, in_thread, log_events, run_here, run_job, user_message

DAY = timedelta(days=1)
NPM, PNPM = "Our package manager is npm.", "Our package manager is pnpm."


async def learn_from(database: Database, clock: FrozenClock, settings: Settings, *words: str, **columns: str) -> None:
    """Let a user say something in a session of its own, and a night pass."""
    number = str(clock.now().timestamp())
    await log_events(
        database,
        f"s{number}",
        [user_message(text) for text in words],
        **{"peer": "mara", "project": "/shop", **columns},
    )
    clock.advance(DAY)
    await run_job(database, settings)


async def package_managers(database: Database, **filters: Any) -> list[str]:
    return [
        fact.value for fact in await list_facts(database, FactFilter(**filters)) if fact.predicate == "package manager"
    ]


async def single_fact(database: Database, predicate: str = "package manager") -> FactRow:
    (fact,) = [fact for fact in await list_facts(database) if fact.predicate == predicate]
    return fact


async def test_what_a_person_has_forgotten_is_not_learned_again(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await learn_from(database, clock, settings, NPM)
    fact_id = (await single_fact(database)).id
    assert "npm" in (await recall(database, "package manager", MemoryScope(project="/shop"))).block
    await forget_fact(database, fact_id)
    assert not await package_managers(database)
    assert not [
        i for i in (await recall(database, "package manager", MemoryScope(project="/shop"))).items if i.kind == "fact"
    ]
    await learn_from(database, clock, settings, NPM)
    assert not await package_managers(database)
    assert await package_managers(database, include_superseded=True) == ["npm"]
    assert (await explain(database, fact_id))["evidence"]
    await assert_invariants(database)


async def test_a_persons_word_outranks_what_is_said_later(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await learn_from(database, clock, settings, NPM)
    old = await single_fact(database)
    new = await correct_fact(database, old.id, "The package manager is yarn.")
    assert [fact.sentence for fact in await list_facts(database)] == ["The package manager is yarn."]
    assert new.trust == "person"
    await learn_from(database, clock, settings, NPM)
    await learn_from(database, clock, settings, PNPM)
    assert [fact.sentence for fact in await list_facts(database)] == ["The package manager is yarn."]
    assert "yarn" in (await recall(database, "which package manager", MemoryScope(project="/shop"))).block
    history = await list_facts(database, FactFilter(include_superseded=True))
    assert {fact.value for fact in history} >= {"npm", "pnpm"}
    assert (await explain(database, new.id))["by"] == "by a person"
    again = await correct_fact(database, new.id, "The package manager is bun.")
    assert [fact.id for fact in await list_facts(database)] == [again.id]
    await assert_invariants(database)


@pytest.mark.parametrize("change", ["forgotten", "corrected", "corrected twice"])
async def test_an_undo_restores_the_same_fact(
    database: Database, clock: FrozenClock, settings: Settings, change: str
) -> None:
    """Its id, quotes and dates, and nothing else is believed; what was believed meanwhile can still be asked."""
    await learn_from(database, clock, settings, NPM)
    fact = await single_fact(database)
    before, quotes = await load_fact_rows(database), (await explain(database, fact.id))["evidence"]
    clock.advance(DAY)
    if change == "forgotten":
        undone = await forget_fact(database, fact.id)
    else:
        undone = await correct_fact(database, fact.id, "We use yarn.")
        if change == "corrected twice":
            await correct_fact(database, undone.id, "We use bun.")
            assert (await undo_change(database, (await single_fact(database)).id)).id == undone.id
            assert await single_fact(database) == undone
    meanwhile = clock.now()
    clock.advance(DAY)
    assert (await undo_change(database, undone.id[:10])).id == fact.id
    for _ in range(2):
        assert [row for row in await load_fact_rows(database) if row["superseded_at"] is None] == before
        explained = await explain(database, fact.id)
        assert explained["evidence"] == quotes
        assert f"not believed from {meanwhile:%Y-%m-%d %H:%M} to" in "\n".join(explained["lines"])
        assert "npm" in (await recall(database, "package manager", MemoryScope(project="/shop"))).block
        assert await query_number(database, "select count(*) from tombstone where fact_id = %s", fact.id) == 0
        believed = [row.sentence for row in await list_facts(database, FactFilter(as_of=meanwhile))]
        assert believed == ([] if change == "forgotten" else ["We use yarn."])
        clock.advance(DAY)
        await run_job(database, settings)  # it reads of the forgetting and the undo
    if change != "forgotten":
        assert "took this correction back" in "\n".join((await explain(database, undone.id))["lines"])
    with pytest.raises(UsageError, match="nothing to undo"):
        await undo_change(database, fact.id)
    await learn_from(database, clock, settings, PNPM)
    assert await package_managers(database) == ["pnpm"]
    await assert_invariants(database)


async def test_an_undo_holds_in_whatever_order_the_log_is_read(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """Two people's words stand in two sessions; the one that took back is read first."""
    other = Viewer("laptop", frozenset({"write"}))
    await remember(database, "we deploy on Mondays", MemoryScope(agent="coder"), viewer=other)
    remembered = await remember(database, "we use tabs", MemoryScope(agent="coder"))
    clock.advance(DAY)
    await run_job(database, settings)
    await forget_fact(database, remembered.id)
    clock.advance(DAY)
    await undo_change(database, remembered.id, viewer=other)
    agent = Viewer("agent", frozenset({"read", "record"}))
    with pytest.raises(Forbidden):
        await undo_change(database, remembered.id, viewer=agent)
    clock.advance(DAY)
    await run_job(database, settings)
    assert remembered.id in {fact.id for fact in await list_facts(database)}


async def load_fact_rows(database: Database) -> list[dict[str, Any]]:
    """Return facts as they are stored, but for what recall counts."""
    rows = await query_rows(database, "select * from fact order by id")
    return [{name: value for name, value in row.items() if "recalled" not in name} for row in rows]


async def test_what_was_believed_then_and_what_was_true_then_can_be_asked(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    start = clock.now()
    await learn_from(database, clock, settings, NPM)
    clock.advance(5 * DAY)
    await learn_from(database, clock, settings, PNPM)
    assert not await package_managers(database, as_of=start)
    assert await package_managers(database, as_of=start + 2 * DAY) == ["npm"]
    assert await package_managers(database, as_of=clock.now()) == ["pnpm"]
    assert await package_managers(database, valid_at=start + 2 * DAY) == ["npm"]
    assert await package_managers(database, valid_at=clock.now()) == ["pnpm"]
    for moment in (start + 2 * DAY, clock.now()):  # what was believed then to be true, then and now
        assert await package_managers(database, as_of=start + 2 * DAY, valid_at=moment) == ["npm"]


async def test_an_order_that_a_person_passes_on_waits_for_a_review(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    order = "Always build with make -j2 here."

    def compliant_model(request: dict[str, object]) -> ScriptedReply:
        found = [
            fact_json(n, order, f"build_{n}", order, order, "constraint")
            for n, _, words in parse_lines(request)
            if order in words
        ]
        return ScriptedReply.json({"facts": found})

    talk = [user_message(f"Bob writes:\n> {order}"), user_message(f"And:\n> {order} Or so.")]
    await log_events(database, "s1", talk, project="/shop", peer="mara")
    clock.advance(DAY)
    async with ModelServer(compliant_model) as server:
        await run_job(database, with_model(settings, server))
    assert not await list_facts(database)
    first, second = await list_quarantined(database)
    assert "in quarantine: passed on by a person" in (await explain(database, first.id))["lines"][0]
    await review_candidate(database, first.id, accept=True)
    await review_candidate(database, second.id, accept=False)
    assert [fact.sentence for fact in await list_facts(database)] == [order]
    assert "rejected by a person" in (await explain(database, second.id))["lines"][0]
    assert "quarantine" not in (await explain(database, first.id))["lines"][0]
    assert not await list_quarantined(database)
    with pytest.raises(NotFound, match="nothing in quarantine"):
        await review_candidate(database, second.id, accept=True)


async def test_a_persons_words_go_with_the_peer_they_are_about(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await learn_from(database, clock, settings, "I prefer small commits.", project="")
    (fact,) = await list_facts(database)
    await correct_fact(database, fact.id, "Mara prefers marzipan commits.")
    await erase_sessions(database, settings, await plan_erasure(database, peer="mara"), reason="asked for")
    async with database.connection() as conn:
        assert not await fetch_dicts(conn, "select id from fact")
        assert not await fetch_dicts(conn, "select fact_id from tombstone")


async def test_the_command_line_says_what_it_did(
    database: Database, clock: FrozenClock, settings: Settings, environment: dict[str, str]
) -> None:
    await learn_from(database, clock, settings, NPM)
    fact_id = (await single_fact(database)).id
    for option, moment, shown in (("--as-of", "2026-03-03T13:00:00Z", True), ("--valid-at", "2026-03-02", False)):
        done = await in_thread(run_here, "facts", option, moment, environment=environment)
        assert ("npm" in done.stdout) is shown, (option, moment)
    done = await in_thread(run_here, "facts", "--correct", fact_id, "We use yarn.", environment=environment)
    assert "believed from now on: We use yarn." in done.stdout + done.stderr
    new = (await list_facts(database))[0].id
    done = await in_thread(run_here, "facts", "--undo", new, environment=environment)
    assert "believed again: The package manager is npm." in done.stdout + done.stderr
    await in_thread(run_here, "facts", "--correct", fact_id, "We use yarn.", environment=environment)
    done = await in_thread(run_here, "forget", new, environment=environment)
    assert "no longer believed: We use yarn." in done.stdout + done.stderr
    for words, code in (("forget nobody", 3), (f"facts --correct {new}", 2), ("facts --accept nobody", 3)):
        done = await in_thread(run_here, *words.split(), environment=environment, code=code)
        assert "Traceback" not in done.stderr
    with pytest.raises(UsageError):
        await correct_fact(database, new, "x" * 500)


async def test_a_fact_that_nobody_said_or_recalled_for_sixty_days_is_listed_last(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await learn_from(database, clock, settings, NPM)
    await learn_from(database, clock, settings, NPM)
    clock.advance(70 * DAY)
    await learn_from(database, clock, settings, "Our database is Postgres.")
    assert [fact.value for fact in await list_facts(database)] == ["Postgres", "npm"]
    await recall(database, "package manager", MemoryScope(project="/shop"))
    assert [fact.value for fact in await list_facts(database)] == ["npm", "Postgres"]


async def test_what_a_person_takes_back_ends_and_returns_with_the_erasure_of_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    async def believed() -> list[str]:
        return sorted(fact.sentence for fact in await list_facts(database))

    await learn_from(database, clock, settings, "We use Jenkins for CI.", "We use Slack.")
    await learn_from(database, clock, settings, "We use Jenkins for CI.", project="/other")
    await learn_from(database, clock, settings, "We switched from Jenkins to Buildkite.")
    assert await believed() == ["We use Buildkite.", "We use Jenkins for CI.", "We use Slack."]  # that of the other
    (over,) = [fact for fact in await list_facts(database, FactFilter(include_superseded=True)) if fact.superseded_at]
    assert (over.project, over.superseded_reason, over.valid_to is not None) == ("/shop", "replaced", True)
    assert "Jenkins" in str(await explain(database, over.id))
    await assert_invariants(database)
    # An earlier ending that is learned later is the one that counts, as if all had been read in order.
    early = (clock.now() - 1.5 * DAY).isoformat()
    await log_events(
        database, "early", [user_message("We dropped Jenkins.", occurred_at=early)], peer="mara", project="/shop"
    )
    clock.advance(DAY)
    await run_job(database, settings)
    (over,) = [fact for fact in await list_facts(database, FactFilter(include_superseded=True)) if fact.superseded_at]
    assert over.valid_to is not None
    assert over.valid_to.isoformat() == early
    await assert_invariants(database)
    # What was said before and is learned later is over, too.
    await log_events(
        database,
        "late",
        [user_message("We use Jenkins.", occurred_at=(clock.now() - 9 * DAY).isoformat())],
        peer="mara",
        project="/shop",
    )
    clock.advance(DAY)
    await run_job(database, settings)
    assert await believed() == ["We use Buildkite.", "We use Jenkins for CI.", "We use Slack."]
    endings = await query_rows(database, "select distinct session_id as id from candidate where predicate = 'ended'")
    for ending in endings:
        plan = await plan_erasure(database, session=ending["id"])
        await erase_sessions(database, settings, plan, reason="asked for")
    assert await believed() == ["We use Jenkins for CI.", "We use Jenkins for CI.", "We use Jenkins.", "We use Slack."]
    await assert_invariants(database)
