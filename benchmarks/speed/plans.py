"""The plan of each hot query at a realistic size: its time, the pages it read, and its scans; for a person to read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString, NamedTuple
from unittest.mock import AsyncMock, patch

from benchmarks.harness import synthetic_sessions
from benchmarks.harness.log_database import create_log_database
from benchmarks.harness.report import Report
from benchmarks.harness.server import BenchmarkServer
from benchmarks.speed.consolidation import STAMP
from consolidator.clock import FrozenClock
from consolidator.database.partitions import Connection
from consolidator.jobs.nightly import JobRunner
from consolidator.models.memory_filter import ALL_AGENTS, FactFilter, SolutionFilter
from consolidator.store import queries
from consolidator.store.log import events
from consolidator.store.memory import listing, lookup
from consolidator.store.nights import runs
from consolidator.store.queries import fetch_one, load
from consolidator.store.sessions import sessions

TITLE = "the plans of hot queries"
SESSIONS = {"tiny": 6, "small": 600, "full": 10_000}
FACTS = {"tiny": 100, "small": 100_000, "full": 1_000_000}
LENGTH = 60
INSERT_FACTS = """
insert into fact (agent, level, subject, predicate, value, sentence, kind, confidence, trust, id, valid_from,
                  recorded_at, sessions, run_id)
select 'coder-' || n %% 100, 'agent', 'subject ' || n, 'uses', 'tool' || n %% 5000,
       'The project number ' || n || ' uses tool' || n %% 5000 || ' for its nightly build', 'environment', 'explicit',
       'user', 'fact-' || n, now(), now(), n %% 9, 'run' from generate_series(1, %s) as n"""


class HotQuery(NamedTuple):
    """A query with values for which it finds rows."""

    name: str
    query: LiteralString
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredError:
    """An error that a solution answers."""

    fingerprint: str
    headline: str


async def measure(server: BenchmarkServer, scale: str) -> Report:
    """Explain each hot query on a database with consolidated sessions, some new ones, and many facts."""
    report = Report("plans", TITLE, scale)
    clock = FrozenClock(datetime.now(UTC) - timedelta(days=1))
    count = SESSIONS[scale]
    name = await create_log_database(server, clock, range(count), LENGTH)
    clock.advance(timedelta(hours=1))
    database = server.connect(name, clock)
    await JobRunner(database, server.default_settings()).run_now("consolidation")
    clock.advance(timedelta(days=1))
    for number in range(count, count + max(count // 50, 2)):
        async with database.transaction() as conn:
            await synthetic_sessions.write_session(conn, number, LENGTH, now=clock.now())
    async with database.connection() as conn:
        await conn.execute(INSERT_FACTS, [FACTS[scale]])
        await conn.execute("vacuum analyze")
        for hot_query in await list_hot_queries(conn, clock, count):
            plan = await explain(conn, hot_query.query, hot_query.values)
            report.add(hot_query.name, plan.milliseconds, f"ms, {plan.pages:,} pages")
            report.notes.append(f"{hot_query.name}: {plan.scans}")
            report.details.setdefault("plans", {})[hot_query.name] = plan.lines
    await database.close()
    await server.drop_database(name)
    return report


@dataclass(frozen=True, slots=True)
class Plan:
    """The output of EXPLAIN for a query."""

    lines: list[str]
    milliseconds: float
    pages: int  # read or found in the cache, by the whole query

    @property
    def scans(self) -> str:
        """The scans in short; a sequential scan of a whole table stands out."""
        nodes = [re.sub(r"\s+\(.*", "", line).strip(" ->") for line in self.lines if "Scan" in line and "(" in line]
        distinct = dict.fromkeys(re.sub(r"event_\d{8}", "event_<day>", node) for node in nodes)
        return "; ".join(node for node in distinct if not node.startswith(("CTE Scan", "Function Scan", "Subquery")))


async def explain(conn: Connection, query: LiteralString, values: Mapping[str, Any]) -> Plan:
    """Run a query under EXPLAIN, and roll it back."""
    async with conn.transaction(force_rollback=True):
        cursor = await conn.execute("explain (analyze, buffers, costs off) " + query, values)
        lines = [line for (line,) in await cursor.fetchall()]
    buffers = next((line for line in lines if "Buffers" in line), "")
    counts = re.findall(r"shared (?:hit=(\d+))? ?(?:read=(\d+))?", buffers)
    pages = sum(int(number) for numbers in counts for number in numbers if number)
    milliseconds = next(float(line.split()[2]) for line in lines if line.startswith("Execution Time"))
    return Plan(lines, milliseconds, pages)


async def list_hot_queries(conn: Connection, clock: FrozenClock, count: int) -> list[HotQuery]:
    """Return the queries of each event, turn, night and answer, with `count` consolidated sessions and one new."""
    session = await sessions.get(conn, f"made-{count:07}")
    now = clock.now()
    return [
        *_list_log_queries(session.id, session.ingest_bounds, now),
        *await _list_run_queries(conn, count, now),
        *_list_memory_queries(),
        *await _capture_solution_queries(conn),
        await _capture_fact_query(conn, "facts by text", "tool77 nightly", "coder-7"),
        await _capture_fact_query(conn, "facts by text, of any agent", "tool77 nightly", None),
    ]


def _list_log_queries(session_id: str, bounds: tuple[datetime, datetime], now: datetime) -> list[HotQuery]:
    event_sql, session_sql, retention_sql = load("log/events"), load("sessions/sessions"), load("log/retention")
    row = events.prepare(synthetic_sessions.generate_tool_result(0))
    append_values: dict[str, Any] = {
        "session": session_id, "count": 1, "now": now, "ends": False,
        **dict.fromkeys(("occurred", "expected", "epoch", "key")),
        "types": [row.type], "datas": [row.data], "tasks": [row.task_id], "tools": [row.tool_name],
        "contents": bytes(32), "principals": [None], "counts_task": False, "open_task": None, "task_after": None,
    }  # fmt: skip
    bounded = events.Span(session_id, 0, LENGTH, bounds).values()
    unbounded = events.Span(session_id, 0, LENGTH).values()
    cutoff = now - timedelta(hours=12)
    prunable = {"cutoff": cutoff, "latest": cutoff, "agents": [], "cutoffs": [], "now": now, "window": 50}
    return [
        HotQuery("append", event_sql["append"], append_values),
        HotQuery("read a window", event_sql["read"], {**bounded, "after": 10, "limit": 50}),
        HotQuery("read a window, bounds unknown", event_sql["read"], {**unbounded, "limit": 50}),
        HotQuery("stamp", STAMP, bounded),  # what the owner's function runs
        HotQuery("due sessions", session_sql["list_due"], {}),
        HotQuery("prunable", retention_sql["list_prunable"], prunable),
    ]


async def _list_run_queries(conn: Connection, count: int, now: datetime) -> list[HotQuery]:
    sql = load("nights/runs")
    run = await runs.start(
        conn, job="consolidation", scheduled_at=now, trigger="manual", owner="me", now=now, arguments={}
    )
    await runs.add_units(conn, run.id, "session", [f"unit-{n:05}" for n in range(count)])
    lease = {"run": run.id, "phase": 0, "owner": "me", "now": now, "until": now + timedelta(minutes=5)}
    return [
        HotQuery("claim", sql["claim"], {**lease, "tried": False, "units": None, "limit": 16}),
        HotQuery("units waiting", sql["count_unfinished"], {"run_id": run.id, "phase": 0, "limit": None}),
    ]


def _list_memory_queries() -> list[HotQuery]:
    digests, errors, facts = load("calls/digests"), load("calls/error_records"), load("facts/facts")
    agent = {"agent": ALL_AGENTS}  # whose memory the sessions teach
    latest = {**agent, "sessions": 2000, "calls": 100_000}
    of_errors = {**agent, "latest": 1000}
    in_project = {**latest, "project": "/home/ada/work/project-0"}
    attribute = {**agent, "level": ["agent"], "owner": [""], "subject": ["user"], "predicate": ["uses"]}
    return [
        HotQuery("latest digests of an agent", digests["latest"], latest),
        HotQuery("latest digests of a project", digests["latest_of_project"], in_project),
        HotQuery("errors with news", errors["count_with_news"], of_errors),
        HotQuery("changed candidates", facts["lock_unreconciled"], agent),
        HotQuery("candidates of an attribute", facts["candidates"], attribute),
        HotQuery("undecided candidates", facts["undecided"], {**agent, "limit": 200}),
        HotQuery("facts of a candidate's attribute", facts["facts_by_attribute"], {**attribute, "ids": ["c"]}),
        HotQuery("facts as they are published", facts["published"], {**attribute, "believed": False}),
    ]


async def _capture_solution_queries(conn: Connection) -> list[HotQuery]:
    """Return the queries that looking for an error runs: by its fingerprint, then by its words."""
    error = await fetch_one(conn, StoredError, "select fingerprint, headline from solution order by id limit 1")
    assert error is not None
    with patch.object(queries, "fetch_all", AsyncMock(return_value=[])) as fetch_all:
        await lookup.find_solutions_for_error(
            conn,
            SolutionFilter(limit=5),
            fingerprint=error.fingerprint,
            signature=error.fingerprint.partition("|")[2],
            text=error.headline,
        )
    names = ("solutions by fingerprint", "solutions by text")
    return [HotQuery(name, *call.args[2:]) for name, call in zip(names, fetch_all.await_args_list, strict=True)]


async def _capture_fact_query(conn: Connection, name: str, words: str, agent: str | None) -> HotQuery:
    """Return the query that listing facts by words composes and runs first."""
    with patch.object(listing, "fetch_all", AsyncMock(return_value=[])) as fetch_all:
        await listing.list_facts(conn, FactFilter(query=words, agent=agent))
    return HotQuery(name, *fetch_all.await_args_list[0].args[2:])
