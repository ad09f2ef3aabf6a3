"""Each MCP tool over a large memory: one text within its budget of tokens, each line with its citation whole."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from consolidator.clock import FrozenClock
from consolidator.database import Database
from consolidator.memory.facts.remembered import MAX_STATEMENT_CHARS
from consolidator.memory.recall.block import estimate_tokens
from consolidator.settings import Settings
from tests.acceptance.test_mcp import TOOLS, call_tool, connect_over_stdio
from tests.lessons import LESSONS
from tests.nights import workday_events
from tests.support import later, log_events, run_job, user_message

COPIES = 300
CITATION = re.compile(r"\[\w+:\w+\]")
LONG = 'über tabs and spaces 制表符 \\"quoted\\" ' * 20
MULTIPLY = (
    """insert into procedure select (jsonb_populate_record(null::procedure, to_jsonb(p) || jsonb_build_object(
        'id', 'p_' || md5(n::text), 'title', p.title || n || ' → ' || %(long)s))).*
    from (select * from procedure order by id limit 1) p, generate_series(1, %(copies)s) n""",
    """insert into solution select (jsonb_populate_record(null::solution, to_jsonb(s) || jsonb_build_object(
        'id', 'sol_' || md5(n::text), 'body', jsonb_set(s.body, '{fixes,0,headline}', to_jsonb(%(long)s::text))))).*
    from (select * from solution where jsonb_array_length(body -> 'fixes') > 0 order by id limit 1) s,
        generate_series(1, %(copies)s) n""",
    """insert into fact select (jsonb_populate_record(null::fact, to_jsonb(f) || jsonb_build_object(
        'id', md5(n::text), 'subject', 's' || n, 'sentence', n || ' ' || %(long)s))).*
    from (select * from fact order by id limit 1) f, generate_series(1, %(copies)s) n""",
    """insert into lesson (id, person, project, kind, key, line, score, body, learned_at, updated_at, cause)
    select 'les_' || md5(n::text), '', '/srv/app', 'command', n::text, n || ' ' || %(long)s, n, %(lesson)s, now(),
        now(), 'person' from generate_series(1, %(copies)s) n""",
)
RECENT = [{"tool": "get_user", "arguments": {"user_id": f"user_{LONG}"}}]
# tool -> arguments, whether its answer can be longer than any budget here, its default budget
CALLS: dict[str, tuple[dict[str, Any], bool, int]] = {
    "recall": ({"query": "tabs and spaces", "everywhere": True}, True, 1500),
    "lookup_error": ({"error": "bash: pytets: command not found", "everywhere": True, "limit": 100}, True, 600),
    "how": ({"everywhere": True, "limit": 100}, True, 600),
    "suggest_next": ({"recent_calls": RECENT, "agent": "coder", "everywhere": True}, False, 600),
    "list_procedures": ({"everywhere": True, "include_unworthy": True, "limit": 100}, True, 1000),
    "learned": ({"everywhere": True, "limit": 100, "since": "2020-01-01T00:00:00Z"}, True, 1000),
}


@pytest.fixture
async def crowded(database: Database, clock: FrozenClock, settings: Settings) -> Database:
    """Three working days and a talkative one, the night after them, and many more memories of each kind."""
    for number in range(3):
        await log_events(database, f"day{number}", workday_events(number), peer="mara")
    await log_events(database, "talk", [user_message(f"{n} {LONG}") for n in range(50)], peer="mara")
    clock.set(later(clock.now(), hours=1))
    await run_job(database, settings)
    async with database.transaction() as conn:
        for statement in MULTIPLY:
            await conn.execute(statement, {"long": LONG, "copies": COPIES, "lesson": Jsonb(LESSONS[1].to_json())})
    return database


async def test_each_tool_keeps_to_its_budget_over_a_large_memory(
    crowded: Database, environment: dict[str, str]
) -> None:
    tried = set()
    async with connect_over_stdio(environment) as client:
        for tool, (arguments, is_long, default_budget) in CALLS.items():
            for budget in (None, 100, 5000):
                given = {} if budget is None else {"token_budget": budget}
                answer = await call_tool(client, tool, **arguments, **given)
                tokens = estimate_tokens(answer)
                assert tokens <= (budget or default_budget), tool
                if is_long and budget != 100:
                    assert tokens > 0.7 * (budget or default_budget), tool  # as much as fits
                    assert _uncited(answer) == [], tool
            tried.add(tool)
        cited = CITATION.search(await call_tool(client, "list_procedures", everywhere=True, include_unworthy=True))
        assert cited
        for budget in (100, 2000):
            explained = await call_tool(client, "explain", id=cited[0], token_budget=budget)
            assert estimate_tokens(explained) <= budget
        statement = "制" * MAX_STATEMENT_CHARS
        remembered = await call_tool(client, "remember", statement=statement)
        forgotten = await call_tool(client, "forget", fact=remembered[remembered.rindex("[") :])
        for answer in (remembered, forgotten):
            assert statement in answer
            assert estimate_tokens(answer) <= 600
            assert CITATION.search(answer)
        assert await call_tool(client, "follow_procedure", name="none") == "no procedure is compiled here"
        events = [{"type": "UserMessage", "data": {"text": LONG}}] * 500
        recorded = await call_tool(client, "record_events", session_key="main:cli:mara", events=events)
        assert estimate_tokens(recorded) <= 100
    assert tried | {"follow_procedure", "explain", "remember", "forget", "record_events"} == TOOLS


def _uncited(answer: str) -> list[str]:
    """Return the lines of an answer that tell something without a citation, or hold a part of a call."""
    lines = [line for line in answer.splitlines() if line.startswith("- ")]
    calls = [line.split(" ", 4)[4] for line in answer.splitlines() if line.startswith("  call: ")]
    assert lines
    assert all(isinstance(json.loads(call), dict) for call in calls)
    return [line for line in lines if not CITATION.search(line[-120:])]
