"""Sixty days: agents work, their logs grow, every night imports, consolidates and prunes, and nothing is forgotten.

On the twentieth day a model is configured; a fact is stated, and superseded. On the fortieth day a person has a
session and a peer erased. At the end all of it equals one batch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from consolidator.clock import FrozenClock
from consolidator.database import Database, partitions
from consolidator.jobs.nightly import JOBS, JobRunner
from consolidator.memory.facts.questions.extraction_prompt import PROMPT_VERSION
from consolidator.models.memory_filter import MemoryScope
from consolidator.service.log.erasure import erase_sessions, plan_erasure
from consolidator.service.memory.explain import explain
from consolidator.service.memory.recall import recall
from consolidator.settings import Settings
from consolidator.store.queries import fetch_value
from consolidator.testing import ModelServer
from tests.acceptance.agents import ClaudeCodeLog, LogFolder, stable_uuid
from tests.acceptance.diary import BRANCHED, ERASED, ERASED_PEER, FORGOTTEN, SHOP, write_diary
from tests.databases import Row, database_copy, fetch_dicts
from tests.oracle import oracle, with_model
from tests.support import assert_invariants, read_memory

DAYS = 60
ERASURE = 40
RETENTION = 21  # three weeks, and every week is like the one before: from then on nothing may grow
STEADY = 32
MODEL, STATED, CHANGED = 20, 21, 40  # days on which a model appears, and where staging lives is stated and changed
REREAD = 10  # old files a day that are read again as if they were new
AT = {"import": (2, 45), "consolidation": (3, 0), "retention": (3, 30)}

KNOWN = {
    "procedure": "select id, support as count, retired_at is null as live from procedure",
    "solution": """select agent || fingerprint as id, sum(occurrences) as count, bool_or(confirmed) as live
                   from solution group by 1""",
    "fact": "select id, sessions as count, superseded_at is null as live from fact",
    "digest": "select session_id as id, calls as count, true as live from digest",
    "candidate": "select session_id as id, count(*) as count, true as live from candidate group by 1",
}
SIZE = """
    select (select count(*) from event) as events, (select count(*) from blob) as blobs,
           (select coalesce(sum(size), 0)::bigint from blob) as bytes, count(*) as partitions,
           sum(pg_total_relation_size(inhrelid))::bigint as pages
    from pg_inherits where inhparent = 'event'::regclass
"""
TRACES = """
    select 'session' as what from session where id = any(%(ids)s)
    union all select 'event' from event where session_id = any(%(ids)s) or data::text ilike %(word)s
    union all select 'blob' from blob where convert_from(body, 'UTF8') ilike %(word)s
    union all select 'digest' from digest where session_id = any(%(ids)s) or summary::text ilike %(word)s
    union all select 'error' from error_record where session_id = any(%(ids)s) or record::text ilike %(word)s
    union all select 'candidate' from candidate where session_id = any(%(ids)s) or quote ilike %(word)s
    union all select 'fact' from fact where sentence ilike %(word)s
    union all select 'procedure' from procedure where body::text ilike %(word)s or body::text ~ %(any)s
    union all select 'profile' from tool_profile where body::text ilike %(word)s
    union all select 'solution' from solution where body::text ilike %(word)s or body::text ~ %(any)s
"""
UNCONSOLIDATED = "select coalesce(sum(head - consolidated_to), 0)::bigint from session"
RETURNED = "select session_id from event e join session s on s.id = session_id where e.seq <= s.pruned_to"
HEADS = "select id, head from session where agent <> 'pi' order by id"


@pytest.fixture
async def batch(server_dsn: str, template: str) -> AsyncIterator[Database]:
    """A second database, on the morning after the last night."""
    with database_copy(server_dsn, template) as address:
        opened = Database(address, FrozenClock(datetime.fromisoformat("2026-01-01T00:00Z")))
        yield opened
        await opened.close()


@dataclass(slots=True)
class Simulation:
    """The sixty days, and what was measured in them."""

    database: Database
    clock: FrozenClock
    settings: Settings
    office: LogFolder
    start: datetime
    known: dict[str, dict[str, Row]] = field(default_factory=dict)
    sizes: dict[int, Row] = field(default_factory=dict)
    erased: list[str] = field(default_factory=list)
    first_week: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    repeated: int = 0
    pruned: int = 0
    deferred: int = 0

    async def run_night(self, day: int) -> None:
        """Run a day's night, and check its reports."""
        for job in JOBS:
            hour, minute = AT[job]
            self.clock.set(self.start + timedelta(days=day + 1, hours=hour, minutes=minute))
            if job == "import":
                self.office.write(self.clock.now())
                self.office.touch(REREAD if day < DAYS - 1 else None)
            async with self.database.connection() as conn:
                unconsolidated = await fetch_value(conn, UNCONSOLIDATED)
            done = await JobRunner(self.database, self.settings).run_due(job)
            assert done is not None, f"{job} was not owed on day {day}"
            assert done["status"] == "done", done
            if job == "import":
                self.events += done["events"]
                self.repeated += done["repeated"]
            elif job == "consolidation":
                assert done["seen"] == done["learned"] + done["nothing"] + done["deferred"], done
                late = done["seen"] - unconsolidated
                assert late == 0 or (day == MODEL and late > 0)  # the model reads what was consolidated without it
                self.deferred += done["deferred"]
            else:
                self.pruned += done["events"]

    async def check_nothing_lost(self, day: int) -> None:
        """Assert that everything known the day before is still known, with counts no lower."""
        async with self.database.connection() as conn:
            now = {kind: {r["id"]: r for r in await fetch_dicts(conn, query)} for kind, query in KNOWN.items()}
            self.sizes[day] = (await fetch_dicts(conn, SIZE))[0]
        for kind, before in self.known.items() if day != ERASURE else ():
            for identity, previous in before.items():
                item = now[kind].get(identity)
                assert item is not None, f"day {day}: {kind} {identity} is gone"
                assert item["count"] >= previous["count"], f"day {day}: {kind} {identity} fell: {previous} {item}"
                if kind == "fact":
                    assert previous["live"] or not item["live"], f"day {day}: fact {identity} holds again"
        self.known = now

    async def staging_facts(self) -> list[str]:
        """Return the facts in recall's block on where staging lives."""
        result = await recall(self.database, "where does staging live?", MemoryScope(project=SHOP))
        assert all(item.line in result.block for item in result.items if item.kind == "fact")
        facts = [str(item.data["text"]) for item in result.items if item.kind == "fact"]
        return [text for text in facts if "staging" in text.lower()]

    async def erase(self) -> None:
        """Have a session and a peer erased."""
        session = ClaudeCodeLog(ERASED, self.start, "/").session
        for plan in (
            await plan_erasure(self.database, session=session),
            await plan_erasure(self.database, peer=ERASED_PEER),
        ):
            self.erased += [session.id for session in plan.sessions]
            await erase_sessions(self.database, self.settings, plan, reason="asked for")

    async def check_nothing_returned(self) -> None:
        """Assert that of the erased nothing is there, and of the pruned no event."""
        async with self.database.connection() as conn:
            values = {"ids": self.erased, "any": "|".join(self.erased), "word": f"%{FORGOTTEN}%"}
            assert not await fetch_dicts(conn, TRACES, values)
            assert not await fetch_dicts(conn, RETURNED)


async def test_sixty_days_lose_nothing_and_keep_nothing_too_long(
    database: Database, clock: FrozenClock, settings: Settings, tmp_path: Path, batch: Database
) -> None:
    start = clock.now().replace(hour=0)
    folder = tmp_path / "logs"
    sources = [f"claude-code:{folder}/claude", f"openai-messages:{folder}/support", f"claw0:{folder}/claw0"]
    settings = settings.model_copy(
        update={"sources": [*sources, f"pi:{folder}/pi"], "retention_days": RETENTION, "quiet_minutes": 10}
    )
    for name in ("claude", "support", "claw0", "pi"):
        (folder / name).mkdir(parents=True)
    simulation = Simulation(database, clock, settings, LogFolder(folder, write_diary(start, DAYS)), start)
    async with ModelServer(oracle) as server:
        await _run_days(simulation, server)
        _check_size_is_steady(simulation)
        await _check_first_week_is_explained(simulation)
        await _check_changed_minds(simulation)
        await _check_model_facts(simulation)
        await _check_equals_one_batch(simulation, batch)


async def _run_days(simulation: Simulation, server: ModelServer) -> None:
    """Let the sixty days pass."""
    for day in range(DAYS):
        if day == MODEL:
            assert not server.requests
            simulation.settings = with_model(simulation.settings, server)
        await simulation.run_night(day)
        await simulation.check_nothing_lost(day)
        if day == 6:
            simulation.first_week = await read_memory(simulation.database)
        if day in (STATED - 1, STATED, CHANGED):
            known = {STATED: ["Staging lives on box7."], CHANGED: ["Staging lives on box9."]}
            assert await simulation.staging_facts() == known.get(day, [])
        if day == ERASURE - 1:
            await simulation.erase()
        if day >= ERASURE - 1:
            await simulation.check_nothing_returned()
        if day % 10 == 9:
            await assert_invariants(simulation.database)


def _check_size_is_steady(simulation: Simulation) -> None:
    """Three weeks are kept, and every week is like the one before: after the first of them nothing grows."""
    then = simulation.sizes[STEADY]
    for day in range(STEADY + 3, DAYS):
        now = simulation.sizes[day]
        for measure in ("events", "blobs", "bytes", "pages"):
            assert now[measure] <= then[measure] * 1.05, f"{measure} grew: {then} on day {STEADY}, {now} on day {day}"
        # what is kept, a week of a session that was open all week, yesterday, today and what is made ahead
        assert now["partitions"] <= RETENTION + 7 + 2 + partitions.DAYS_AHEAD
    assert simulation.pruned > simulation.events / 2
    assert simulation.repeated > simulation.events  # what was imported was read again, also what had been pruned
    assert simulation.deferred >= DAYS  # a call was open every night


async def _check_first_week_is_explained(simulation: Simulation) -> None:
    """What was learned in the first week still shows its quotes, though the log has long lost the events."""
    for kind, least in (("fact", 5), ("procedure", 2), ("solution", 3)):
        learned = [identity for identity, *content in simulation.first_week[kind] if FORGOTTEN not in str(content)]
        logs = set()
        for identity in learned:
            explanation = await explain(simulation.database, identity)
            assert explanation["evidence"]
            # A quote of an installation is withheld: procedures cite their calls.
            assert all(proof["quote"].strip() or kind == "procedure" for proof in explanation["evidence"])
            logs |= {proof["log"] for proof in explanation["evidence"]}
        assert len(learned) >= least
        assert kind == "procedure" or "pruned" in logs  # procedures cite their latest sessions, which are there


async def _check_changed_minds(simulation: Simulation) -> None:
    """What was superseded a month ago, and has lost its events, is known as what was believed then."""
    async with simulation.database.connection() as conn:
        facts = await fetch_dicts(
            conn, "select value, superseded_by, valid_to from fact where predicate = 'package manager'"
        )
    assert {fact["value"]: fact["valid_to"] and (fact["valid_to"] - simulation.start).days for fact in facts} == {
        "npm": 20,
        "pnpm": None,
    }


async def _check_model_facts(simulation: Simulation) -> None:
    """What a model was told, and what took its place, is explained by both quotes when their events are gone."""
    simulation.clock.advance(timedelta(days=RETENTION))
    assert await JobRunner(simulation.database, simulation.settings).run_due("retention") is not None
    async with simulation.database.connection() as conn:
        facts = await fetch_dicts(
            conn, "select id, value from fact where predicate = 'staging_server' order by valid_from"
        )
    assert [fact["value"] for fact in facts] == ["box7", "box9"]
    for fact in facts:
        explanation = await explain(simulation.database, fact["id"])
        (proof,) = explanation["evidence"]
        assert (proof["quote"], proof["log"]) == (f"{fact['value']} is where staging lives", "pruned")
        assert f"model:gpt-4o-mini:{PROMPT_VERSION}" in explanation["extractors"]
    assert "box9" in str(await explain(simulation.database, facts[0]["id"]))


async def _check_equals_one_batch(simulation: Simulation, batch: Database) -> None:
    """A newcomer who imports the files as they are on the last day learns the same in one night.

    Left out: who was erased, and the tree, whose abandoned branch is a fork only to who sees it when it is abandoned.
    """
    session = ClaudeCodeLog(ERASED, simulation.start, "/").session
    names = (session, stable_uuid(f"{ERASED}-resumed"), f"/{ERASED_PEER}-", "pi/")
    simulation.office.remove(file.path for file in simulation.office.files if any(name in file.path for name in names))
    assert isinstance(batch.clock, FrozenClock)
    batch.clock.set(simulation.clock.now())
    async with batch.connection() as conn:
        await partitions.ensure_ahead(conn, batch.clock.now())
    for job in JOBS[:2]:
        assert await JobRunner(batch, simulation.settings).run_due(job) is not None
    # A month has passed: the call that was open in the last night is given up, and counts as made.
    await JobRunner(simulation.database, simulation.settings).run_now("consolidation")
    once, nightly = await read_memory(batch), await read_memory(simulation.database)
    for kind in once:
        assert [row for row in nightly[kind] if BRANCHED not in str(row)] == once[kind]
    async with batch.connection() as batch_conn, simulation.database.connection() as nightly_conn:
        assert await fetch_dicts(batch_conn, HEADS) == await fetch_dicts(nightly_conn, HEADS)
