"""How PostgreSQL runs each hot query at a realistic size: its time, what it read, and how; for a person to look at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from unittest.mock import AsyncMock, patch

from sqlalchemy.dialects.postgresql import psycopg as dialect

from benchmarks import made
from benchmarks.consolidation import written
from benchmarks.report import Report
from benchmarks.server import Server
from consolidator.clock import FrozenClock
from consolidator.database.partitions import Connection
from consolidator.jobs.nightly import JobRunner
from consolidator.store.log import events, sessions
from consolidator.store.memory import lookup
from consolidator.store.nights import runs
from consolidator.store.queries import Row, load, rows

TITLE = "the plans of hot queries"
SESSIONS = {"tiny": 6, "small": 600, "full": 10_000}
FACTS = {"tiny": 100, "small": 100_000, "full": 1_000_000}
LENGTH = 60
FACT_ROWS = """
insert into fact (agent, level, subject, predicate, value, sentence, kind, confidence, trust, id, valid_from,
                  recorded_at, sessions, run_id)
select 'coder-' || n %% 100, 'agent', 'subject ' || n, 'uses', 'tool' || n %% 5000,
       'The project number ' || n || ' uses tool' || n %% 5000 || ' for its nightly build', 'environment', 'explicit',
       'user', 'fact-' || n, now(), now(), n %% 9, 'run' from generate_series(1, %s) as n"""


async def measure(server: Server, scale: str) -> Report:
    """Explain each hot query on a database with consolidated sessions, some new ones, and many facts."""
    report = Report("plans", TITLE, scale)
    clock = FrozenClock(datetime.now(UTC) - timedelta(days=1))
    count = SESSIONS[scale]
    name = await written(server, clock, range(count), LENGTH)
    clock.advance(timedelta(hours=1))
    database = server.opened(name, clock)
    await JobRunner(database, server.settings()).run_now("consolidation")
    clock.advance(timedelta(days=1))
    for number in range(count, count + max(count // 50, 2)):
        async with database.transaction() as conn:
            await made.write(conn, number, LENGTH, now=clock.now())
    async with database.connection() as conn:
        await conn.execute(FACT_ROWS, [FACTS[scale]])
        await conn.execute("vacuum analyze")
        for what, query, values in await _hot(conn, clock, count):
            plan = await explain(conn, query, values)
            report.add(what, plan.milliseconds, f"ms, {plan.pages:,} pages")
            report.notes.append(f"{what}: {plan.how}")
            report.details.setdefault("plans", {})[what] = plan.lines
    await database.close()
    await server.drop(name)
    return report


@dataclass(frozen=True, slots=True)
class Plan:
    """What EXPLAIN told of a query."""

    lines: list[str]
    milliseconds: float
    pages: int  # read or found in memory, by the whole query

    @property
    def how(self) -> str:
        """Name the scans, shortly; a whole table that is read stands out."""
        found = [re.sub(r"\s+\(.*", "", line).strip(" ->") for line in self.lines if "Scan" in line and "(" in line]
        named = dict.fromkeys(re.sub(r"event_\d{8}", "event_<day>", one) for one in found)
        return "; ".join(one for one in named if not one.startswith(("CTE Scan", "Function Scan", "Subquery")))


async def explain(conn: Connection, query: LiteralString, values: Mapping[str, Any]) -> Plan:
    """Run a query under EXPLAIN, and undo what it did."""
    async with conn.transaction(force_rollback=True):
        cursor = await conn.execute("explain (analyze, buffers, costs off) " + query, values)
        lines = [line for (line,) in await cursor.fetchall()]
    pages = re.findall(r"shared (?:hit=(\d+))? ?(?:read=(\d+))?", next((one for one in lines if "Buffers" in one), ""))
    read = sum(int(part) for found in pages for part in found if part)
    took = next(float(one.split()[2]) for one in lines if one.startswith("Execution Time"))
    return Plan(lines, took, read)


async def _hot(conn: Connection, clock: FrozenClock, count: int) -> list[tuple[str, LiteralString, dict[str, Any]]]:
    """Return the hot queries by name, with values that find something."""
    others = ("sessions", "runs", "retention", "memory", "sums", "facts")
    log, rest = load("events"), {name: load(name) for name in others}
    new = await sessions.get(conn, f"made-{count:07}")
    bounds = {"low": new.created_at, "high": new.last_event_at}
    span = {"session": new.id, "after": 0, "upto": LENGTH, **bounds}
    now = clock.now()
    run = await runs.start(
        conn, job="consolidation", scheduled_at=now, trigger="manual", owner="me", now=now, arguments={}
    )
    await runs.add_units(conn, run.id, "session", [f"unit-{n:05}" for n in range(count)])
    lease = {"run": run.id, "phase": 0, "owner": "me", "now": now, "until": now + timedelta(minutes=5)}
    known = (await rows(conn, "select * from solution order by id limit 1"))[0]
    by_fingerprint, by_text = await _solved(conn, known)
    return [
        ("append", log["append"], _appended(new.id, now)),
        ("read a window", log["read"], {**span, "after": 10, "limit": 50}),
        (
            "read a window, bounds unknown",
            log["read"],
            {**span, "low": events.BEGINNING, "high": events.END, "limit": 50},
        ),
        ("stamp", log["stamp"], {**span, "now": now, "dead": []}),
        ("unconsolidated", log["unconsolidated"], {"session": "", "after": 0, "limit": 1000}),
        ("due sessions", rest["sessions"]["due"], {}),
        ("claim", rest["runs"]["claim"], {**lease, "tried": False, "limit": 16}),
        ("units waiting", rest["runs"]["count_unfinished"], {**lease, "limit": None}),
        ("prunable", rest["retention"]["prunable"], {"cutoff": now - timedelta(hours=12)}),
        ("digests with news", rest["sums"]["news"], {"agent": "coder-0", "every": False}),
        ("sequences of an agent", rest["sums"]["placed"], {"agent": "coder-0"}),
        ("errors with news", rest["memory"]["news_of_errors"], {"agent": "coder-0"}),
        ("changed candidates", rest["facts"]["lock_unreconciled"], {"agent": "coder-0"}),
        (
            "candidates of an attribute",
            rest["facts"]["candidates"],
            {"agent": "coder-0", **_attribute()},
        ),
        ("undecided candidates", rest["facts"]["undecided"], {"agent": "coder-0", "limit": 200}),
        (
            "facts of a candidate's attribute",
            rest["facts"]["facts_by_attribute"],
            {"agent": "coder-0", "ids": ["c"], **_attribute()},
        ),
        ("facts as they are published", rest["facts"]["published"], {"agent": "coder-0", **_attribute()}),
        ("solutions by fingerprint", *by_fingerprint),
        ("solutions by text", *by_text),
        ("facts by text", *await _asked(conn, "tool77 nightly", "coder-7")),
        ("facts by text, of any agent", *await _asked(conn, "tool77 nightly", None)),
    ]


def _attribute() -> dict[str, Any]:
    """Return the parameters of one owner's attribute."""
    return {"levels": ["agent"], "owners": [""], "subjects": ["user"], "predicates": ["uses"]}


async def _solved(conn: Connection, known: Row) -> list[tuple[LiteralString, dict[str, Any]]]:
    """Return what looking for an error runs: by its fingerprint, then by its words."""
    with patch.object(lookup, "rows", AsyncMock(return_value=[])) as ran:
        named = known["fingerprint"]
        signature = named.partition("|")[2]
        await lookup.find_solutions_for_error(conn, fingerprint=named, signature=signature, text=known["headline"])
    return [(call.args[1], call.args[2]) for call in ran.await_args_list]


async def _asked(conn: Connection, words: str, agent: str | None) -> tuple[LiteralString, dict[str, Any]]:
    """Return what listing facts by words runs, which is composed."""
    with patch.object(lookup, "fetch", AsyncMock(return_value=[])) as fetch:
        await lookup.list_facts(conn, query=words, agent=agent)
    assert fetch.await_args is not None
    psycopg3 = dialect.dialect()  # type: ignore[no-untyped-call]
    compiled = fetch.await_args.args[1].compile(dialect=psycopg3, compile_kwargs={"render_postcompile": True})
    return str(compiled), dict(compiled.params)


def _appended(session: str, now: datetime) -> dict[str, Any]:
    row = events.prepare(made.tool_result(0))
    nothing: dict[str, Any] = dict.fromkeys(("occurred", "expected", "epoch", "key"))
    lists = {"types": [row.type], "datas": [row.data], "tasks": [row.task_id], "tools": [row.tool_name]}
    return {"session": session, "count": 1, "now": now, "ends": False, **nothing, **lists}
