"""Steers are learned from with their outcome: what became of the task in which a person steered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.jobs.consolidation.backfill import Backfill, retry_dead_letters
from consolidator.jobs.ledger import BackfillFilter
from consolidator.jobs.retention import prune
from consolidator.memory.facts import rule_extraction
from consolidator.models.event import NewEvent
from consolidator.models.memory_filter import FactFilter
from consolidator.models.payload import EventType
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.learned import load_learned
from consolidator.service.memory.rules import list_rules
from consolidator.settings import Settings
from tests.nights import query_rows, run_next_night
from tests.support import log_events, read_memory

RULE = "From now on, always use tabs for indentation."


def start(task: str = "t1") -> NewEvent:
    return NewEvent(EventType.TASK_START, {"task_id": task, "goal": "Format the code"}, task_id=task)


def steer(task: str | None = "t1", text: str = RULE) -> NewEvent:
    return NewEvent(EventType.USER_MESSAGE, {"text": text, "mode": "steer"}, task_id=task)


def end(outcome: str = "success", task: str = "t1") -> NewEvent:
    return NewEvent(EventType.TASK_END, {"task_id": task, "outcome": outcome}, task_id=task)


async def count_steers(database: Database, sentence: str = "tabs") -> tuple[int, int, int]:
    """Return how many steers the one fact about something rests on, and after how many the task succeeded, failed."""
    (fact,) = await list_facts(database, FactFilter(query=sentence))
    return fact.steers, fact.steers_succeeded, fact.steers_failed


async def test_the_outcome_of_a_steer_is_known_when_its_task_ends_also_on_a_later_night(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    await log_events(database, "s", [start(), steer()], project="shop")
    await run_next_night(database, clock, settings)
    assert await count_steers(database) == (1, 0, 0)
    await prune(database, older_than=timedelta(0))
    await log_events(database, "s", [end()])
    await run_next_night(database, clock, settings)
    assert await count_steers(database) == (1, 1, 0)
    (fact,) = await list_facts(database, FactFilter(query="tabs"))
    explanation = await explain(database, fact.id)
    assert "steered once; the task after it: 1 succeeded" in explanation["lines"]
    assert [proof["steer"] for proof in explanation["evidence"]] == ["succeeded"]


@pytest.mark.parametrize(
    ("events", "outcome"),
    [
        ([start(), steer(), end("failure")], (1, 0, 1)),
        ([start(), steer(), end("cancelled")], (1, 0, 0)),
        ([start(), steer(), end("abandoned")], (1, 0, 0)),
        ([start(), end(), steer(None)], (1, 0, 0)),  # after the task
        ([start(), end(), start("t2"), steer("t2"), end("failure", "t2")], (1, 0, 1)),
        ([start(), steer(), end(), start(), end("failure")], (1, 1, 0)),  # the id again: its next end counts
        ([start(), NewEvent(EventType.USER_MESSAGE, {"text": RULE}, task_id="t1"), end()], (0, 0, 0)),  # no steer
        ([start(), steer(), steer(), end()], (2, 2, 0)),
    ],
)
async def test_the_task_in_which_a_person_steered_tells_the_outcome(
    database: Database, clock: FrozenClock, settings: Settings, events: list[NewEvent], outcome: tuple[int, int, int]
) -> None:
    await log_events(database, "s", events, project="shop")
    await run_next_night(database, clock, settings)
    assert await count_steers(database) == outcome


async def test_a_failed_task_makes_no_constraint_of_a_person_unsaid(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    spaces = "From now on, always use spaces around operators."
    await log_events(database, "good", [start(), steer(text=spaces), end()], project="shop")
    await log_events(database, "bad", [start(), steer(), end("failure")], project="shop")
    await run_next_night(database, clock, settings)
    facts = await list_facts(database, FactFilter(query="always"))
    assert [(fact.steers_succeeded, fact.steers_failed) for fact in facts] == [(1, 0), (0, 1)]


async def test_what_is_steered_again_and_again_is_one_fact_with_all_outcomes(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    """B34."""
    for number, outcome in enumerate(("success", "failure", "success")):
        events = [start(), steer(text="always run the linter before you commit"), end(outcome)]
        await log_events(database, f"s{number}", events, project="shop")
    await run_next_night(database, clock, settings)
    assert await count_steers(database, "linter") == (3, 2, 1)
    news = await load_learned(database)
    assert news is not None
    assert str(news.steering) == "steered 3 times; the task after it: 2 succeeded, 1 failed"
    [proposal] = await list_rules(database)
    assert ("linter" in proposal.rule, proposal.sessions, len(proposal.quotes)) == (True, 3, 3)


async def test_deriving_again_comes_to_the_same(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_events(database, "s", [start(), steer(), end("failure")], project="shop")
    await run_next_night(database, clock, settings)
    before = await read_memory(database)
    await Backfill(database, settings, session_filter=BackfillFilter(reprocess=True)).run()
    assert await read_memory(database) == before


@pytest.mark.parametrize("is_pruned", [False, True])
@pytest.mark.parametrize("kind", [EventType.USER_MESSAGE, EventType.TASK_END])
async def test_whichever_event_is_read_last_the_outcome_is_known(
    database: Database,
    clock: FrozenClock,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    kind: EventType,
    *,
    is_pruned: bool,
) -> None:
    """An event that was set aside is learned from after those behind it, also where those before it are gone."""
    propose = rule_extraction.propose_candidates

    def fail_for(events: Any, *rest: Any) -> Any:
        if any(event.type is kind for event in events):
            raise ValueError("cannot be read tonight")
        return propose(events, *rest)

    await log_events(database, "s", [start(), steer(), end("failure")], project="shop")
    with monkeypatch.context() as patched:
        patched.setattr("consolidator.jobs.consolidation.learning.propose_candidates", fail_for)
        await run_next_night(database, clock, settings)
    if is_pruned:
        await prune(database, older_than=timedelta(0))
    assert (await retry_dead_letters(database, settings))["settled"] == 1
    assert await count_steers(database) == (1, 0, 1)


async def test_an_erased_session_takes_its_steers_with_it(
    database: Database, clock: FrozenClock, settings: Settings
) -> None:
    for name in ("s1", "s2"):
        await log_events(database, name, [start(), steer(), end("failure")], project="shop")
    await run_next_night(database, clock, settings)
    assert await count_steers(database) == (2, 0, 2)
    await erase_sessions(database, settings, await plan_erasure(database, session="s1"), reason="a test")
    assert await count_steers(database) == (1, 0, 1)
    for table in ("steer", "task_outcome"):
        assert [row["session_id"] for row in await query_rows(database, f"select session_id from {table}")] == ["s2"]
