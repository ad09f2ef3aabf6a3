"""A context's cost depends on its window, not on the length of the log: measured by query plans, not by a clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from consolidator.context.build import ContextRequest, advance_history, build_context
from consolidator.database import Database
from consolidator.models.event import NewEvent
from consolidator.models.payload import EventType
from consolidator.store.log import events
from consolidator.store.sessions import lineage, sessions
from consolidator.store.turns import context as store
from tests.nights import query_rows

LONG = 100_000


@pytest.fixture
async def long_logs(database: Database) -> Database:
    """One short log and one of 100,000 events."""
    talk = [
        NewEvent(EventType.USER_MESSAGE, {"text": "Again?"}),
        NewEvent(EventType.ASSISTANT_RESPONSE, {"text": "Yes."}),
    ]
    prepared = [events.prepare(event) for event in talk]
    for name, count in (("short", 100), ("long", LONG)):
        async with database.transaction() as conn:
            await sessions.open_session(conn, {"id": name, "agent": "coder"}, now=database.clock.now())
            await events.load_each(conn, {name: prepared * (count // 2)}, now=database.clock.now())
    async with database.connection() as conn:
        await conn.execute("vacuum analyze event")
    return database


async def count_touched_blocks(database: Database, query: str, values: dict[str, Any]) -> tuple[int, int]:
    """Return how many rows a query's scans read or dropped, and how many pages it touched."""
    async with database.connection() as conn:
        cursor = await conn.execute(f"explain (analyze, buffers, format json) {query}", values)
        row = await cursor.fetchone()
    assert row is not None
    plan = row[0][0]["Plan"] if isinstance(row[0], list) else json.loads(row[0])[0]["Plan"]
    rows = sum(
        node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0)
        for node in list_plan_nodes(plan)
        if "Scan" in node["Node Type"]
    )
    return int(rows), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def list_plan_nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a plan's nodes."""
    return [plan, *(child for node in plan.get("Plans", ()) for child in list_plan_nodes(node))]


async def test_the_last_fifty_of_a_hundred_thousand_events_cost_what_they_cost_of_a_hundred(
    long_logs: Database,
) -> None:
    cost = {}
    for name in ("short", "long"):
        (row,) = await query_rows(long_logs, "select head, created_at, last_event_at from session where id = %s", name)
        span = events.Span(name, row["head"] - 50, row["head"], (row["created_at"], row["last_event_at"]))
        rows, pages = await count_touched_blocks(long_logs, events._SQL["read"], {**span.values(), "limit": None})
        view, _ = await count_touched_blocks(long_logs, store._SQL["load_view"], {"session": name})
        bounds = {"session": name, "low": row["created_at"], "high": row["last_event_at"], "limit": 1}
        question_cost, _ = await count_touched_blocks(
            long_logs,
            store._SQL["read_last_user_message"],
            {**bounds, "after": 0, "upto": row["head"] - 50},
        )
        cost[name] = (rows, view, question_cost, pages)
    assert cost["long"][:3] == cost["short"][:3]
    assert cost["short"][0] == 50
    assert cost["long"][3] <= cost["short"][3] + 10


async def test_a_context_reads_the_same_rows_however_long_the_log(
    long_logs: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    row_counts: list[int] = []

    async def count_rows(conn: Any, part: Any, **named: Any) -> Any:
        rows = await read_rows(conn, part, **named)
        row_counts.append(len(rows))
        return rows

    read_rows = lineage.read_rows
    for module in (lineage, store):
        monkeypatch.setattr(module, "read_rows", count_rows)
    async with long_logs.connection() as conn:
        context = await build_context(conn, "long", ContextRequest("window", last=50))
        assert (context.first_seq, context.upto_seq, sum(row_counts)) == (LONG - 49, LONG, 50)
        row_counts.clear()
        await build_context(conn, "long", ContextRequest("budget", 2000))
        assert sum(row_counts) <= 500
        row_counts.clear()
        assert await advance_history(conn, "long", limit=100) == LONG - 100
        assert sum(row_counts) == 100
