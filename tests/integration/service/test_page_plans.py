"""What the page and recall ask is answered by indexes, however long the log and however large the memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.models.memory_filter import FactFilter
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.learned import load_learned
from consolidator.service.memory.recall import recall
from consolidator.service.memory.rules import list_accepted_rules, list_rules
from consolidator.service.memory.solutions import find_solutions
from consolidator.service.sessions.listing import list_sessions
from consolidator.settings import Settings
from consolidator.store.queries import fetch_value
from tests.nights import failed_command_events, log_workdays, run_next_night
from tests.plans import indexes, plans_of_action
from tests.support import log_events, user_message

Ask = Callable[[Database], Awaitable[Any]]
LARGE = ("event", "session", "fact", "candidate", "posting", "episode", "error_record")


def read_whole(plan: list[dict[str, Any]]) -> list[str]:
    """The large tables that a plan reads without an index."""
    scans = [node["Relation Name"] for node in plan if node["Node Type"] == "Seq Scan"]
    return [name for name in scans if name.startswith(LARGE)]


ASKED: dict[str, tuple[Ask, set[str]]] = {
    "an answer": (
        lambda database: recall(database, "which package manager do we use in the build", occasion="page"),
        {"posting_pkey", "procedure_worth"},
    ),
    "the solutions of an error": (lambda database: find_solutions(database, "no tests were found by pytest"), set()),
    "what was learned": (load_learned, {"fact_superseded_at", "fact_rule", "candidate_instruction"}),
    "rules": (list_rules, {"fact_rule", "candidate_instruction"}),
    "the rules of a project": (lambda database: list_accepted_rules(database, project="/src"), {"candidate_accepted"}),
    "sessions": (list_sessions, {"session_last_day"}),
    "the facts of a person": (lambda database: list_facts(database, FactFilter(peer="ada")), {"candidate_pkey"}),
}


async def test_what_is_asked_is_read_by_an_index(database: Database, clock: FrozenClock, settings: Settings) -> None:
    await log_workdays(database, 3)
    for number in range(2):
        await log_events(database, f"failed{number}", failed_command_events(number), project="/src")
    await log_events(database, "one", [user_message("Our package manager is npm.")], project="/src")
    await run_next_night(database, clock, settings)
    async with database.owner_connection() as conn:
        await conn.execute("analyze")
    for name, (ask, used) in ASKED.items():
        plans = await plans_of_action(database, partial(ask, database))
        assert {query: whole for query, plan in plans.items() if (whole := read_whole(plan))} == {}, name
        assert used <= set().union(*map(indexes, plans.values())), name


async def test_an_append_changes_no_index_of_its_session_but_for_the_first_of_a_day(
    database: Database, clock: FrozenClock
) -> None:
    await log_events(database, "s", [user_message("x")])
    counted = [0]
    async with database.owner_connection() as conn, conn.transaction():
        for later in ("1 second", "1 second", "1 day"):
            await conn.execute(
                f"update session set last_occurred_at = last_occurred_at + interval '{later}', head = head".encode()
            )
            counted.append(await fetch_value(conn, "select pg_stat_get_xact_tuples_hot_updated('session'::regclass)"))
    assert [after - before for before, after in pairwise(counted)] == [1, 1, 0]


async def test_the_latest_sessions_are_listed_by_day_and_time_page_by_page(
    database: Database, clock: FrozenClock
) -> None:
    for number in range(9):
        await log_events(database, f"s{number % 6}", [user_message("x")])
        clock.advance(timedelta(hours=11))
    listed: list[str] = []
    page = await list_sessions(database, limit=2)
    while page.next is not None:
        listed += [session.id for session in page.sessions]
        page = await list_sessions(database, after=page.next, limit=2)
    listed += [session.id for session in page.sessions]
    assert listed == ["s2", "s1", "s0", "s5", "s4", "s3"]
