"""A long list read page by page is the list read at once, whatever its filters, order and ties are."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.errors import InvalidCursor
from consolidator.models.memory_filter import FactFilter, Page, ProcedureFilter, SolutionFilter
from consolidator.service.encoding import decode_cursor, encode_cursor
from consolidator.service.memory.facts import list_facts, list_quarantined
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.rules import RULE_POSITION, list_rules
from consolidator.service.memory.solutions import list_solutions
from consolidator.service.nights.runs import list_runs
from consolidator.store.memory.listing import FACT_POSITION, PROCEDURE_POSITION, SOLUTION_POSITION
from tests.support import log_events, user_message

FACTS = """
insert into fact (agent, level, subject, predicate, value, sentence, kind, confidence, trust, id, valid_from,
                  recorded_at, sessions, run_id, last_recalled_at, steers_succeeded, steers_failed)
select 'coder', 'agent', 'subject ' || n, 'uses', 'tool' || n,
       case when n %% 2 = 0 then 'It builds by tool' else 'It runs unbuilt' end, 'environment', 'explicit', 'user',
       'fact_' || n, %(now)s - n %% 2 * interval '1 day', %(now)s - n %% 5 * interval '30 day', n %% 3, 'run',
       case when n %% 7 = 0 then %(now)s::timestamptz end, n %% 4, n %% 2
from generate_series(1, 40) as n"""
PROCEDURES = """
insert into procedure (id, agent, title, body, support, worth, rank, learned_at, updated_at, audience, cause)
select 'procedure_' || n, 'coder', 'Build ' || n, '{"success": {"alpha": 1, "beta": 1}}', 3, 1.5 + n %% 3, n %% 2 / 3.0,
       %(now)s, %(now)s, 'all', 'person'
from generate_series(1, 23) as n"""
SOLUTIONS = """
insert into solution (id, agent, tool, fingerprint, headline, body, search, confirmed, sessions, occurrences,
                      learned_at, updated_at, audience, cause)
select 'solution_' || n, 'coder', 'f', 'f|' || n, 'It broke', '{"fixes": [{}]}', 'It broke', n %% 2 = 0, n %% 3, n %% 4,
       %(now)s, %(now)s, 'all', 'person'
from generate_series(1, 23) as n"""
RUNS = """
insert into run (id, job, scheduled_at, trigger, started_at, heartbeat_at, owner, arguments, status, report)
select 'run_' || n, 'consolidation', %(now)s + n * interval '1 hour', 'manual', %(now)s + n / 2 * interval '1 hour',
       %(now)s, 'me', '{}', 'done', '{"seen": 1}'
from generate_series(1, 13) as n"""
CANDIDATES = """
insert into candidate (id, agent, level, owner, subject, predicate, value, sentence, kind, confidence, trust,
                       session_id, seq, occurred_at, quote, extractor, single_valued, evidence, revision, quarantined,
                       active, reconciled, run_id)
select 'candidate_' || s || '_' || n, 'coder', 'agent', '', 'user', 'instruction', 'run all of job ' || n,
       'Run all of job ' || n, 'constraint', 'explicit', 'user', 's' || s, 1, %(now)s, 'run all of job ' || n,
       'instructions:1', false, '[]', 0,
       case when n > 12 then 'a tool said it' end, true, true, ''
from generate_series(1, 3) as s, generate_series(1, 17) as n"""


async def insert(database: Database, *statements: str) -> None:
    """Write rows as a night would have."""
    async with database.transaction() as conn:
        for statement in statements:
            await conn.execute(statement, {"now": database.clock.now()})


async def read_pages(
    read: Callable[[list[Any] | None], Awaitable[Page[Any]]], kinds: Sequence[type], rows: int = 100
) -> list[Any]:
    """Return the ids of a list that is read page by page, its positions through cursors."""
    ids: list[Any] = []
    position = None
    while True:
        page = await read(position)
        ids += [row.id for row in page]
        assert len(ids) <= rows
        if page.position is None:
            return ids
        position = decode_cursor("list", encode_cursor("list", page.position), *kinds)


@pytest.mark.parametrize(
    "filters",
    [{}, {"query": "builds by"}, {"query": "uil"}, {"include_superseded": True}, {"as_of": 1}, {"valid_at": 1}],
    ids=str,
)
async def test_facts_read_by_pages_are_the_list(
    database: Database, clock: FrozenClock, filters: dict[str, Any]
) -> None:
    await insert(database, FACTS)
    moments = {name: clock.now() for name, value in filters.items() if value == 1 and name != "include_superseded"}
    given = filters | moments
    whole = [fact.id for fact in await list_facts(database, FactFilter(limit=100, **given))]
    assert len(whole) == (20 if "query" in filters and filters["query"] == "builds by" else 40)

    async def read(after: list[Any] | None) -> Page[Any]:
        if after is not None:
            clock.advance(timedelta(days=1))  # what counts as unused is the same on every page
        return await list_facts(database, FactFilter(limit=7, after=after, **given))

    assert await read_pages(read, FACT_POSITION) == whole


async def test_procedures_solutions_and_runs_read_by_pages_are_the_list(database: Database) -> None:
    await insert(database, PROCEDURES, SOLUTIONS, RUNS)
    lists: list[tuple[Any, Sequence[type], int]] = [
        (lambda **page: list_procedures(database, ProcedureFilter(**page)), PROCEDURE_POSITION, 23),
        (lambda **page: list_solutions(database, SolutionFilter(**page)), SOLUTION_POSITION, 23),
        (lambda **page: list_runs(database, **page), (str, str), 13),
    ]
    for listed, kinds, count in lists:
        whole = [row.id for row in await listed(limit=100)]
        assert len(whole) == count
        paged = await read_pages(lambda after, listed=listed: listed(limit=5, after=after), kinds)  # type: ignore[misc]
        assert paged == whole, listed


async def test_rules_and_statements_read_by_pages_are_the_list(database: Database) -> None:
    for number in (1, 2, 3):
        await log_events(database, f"s{number}", [user_message("Run it")], agent="coder")
    await insert(database, CANDIDATES)
    rules = [row.id for row in await list_rules(database, limit=100)]
    assert len(rules) == 12
    assert await read_pages(lambda after: list_rules(database, limit=5, after=after), RULE_POSITION) == rules
    waiting = [row.id for row in await list_quarantined(database, limit=100)]
    assert len(waiting) == 15
    by_pages = await read_pages(
        lambda after: list_quarantined(database, limit=4, after=(after[0], after[1]) if after else None), (str, str)
    )
    assert by_pages == waiting


async def test_a_position_of_another_list_is_refused(database: Database) -> None:
    await insert(database, FACTS)
    page = await list_facts(database, FactFilter(query="uil", limit=5))
    assert page.position is not None
    json.dumps(page.position)
    with pytest.raises(InvalidCursor):
        await list_facts(database, FactFilter(limit=5, after=page.position))
