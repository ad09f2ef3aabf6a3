"""Sixty days: agents work, their logs grow, every night imports, consolidates and prunes, and nothing is forgotten.

On the twentieth day a model is configured; a fact is told to it, and superseded. On the fortieth day a person has a
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
from consolidator.service.erasure import erase_sessions, plan_erasure
from consolidator.service.explain import explain
from consolidator.service.recall import recall
from consolidator.settings import Settings
from consolidator.store.queries import Row, rows
from consolidator.testing import ModelServer
from tests.acceptance.agents import Claude, Office, named
from tests.acceptance.diary import BRANCHED, ERASED, ERASED_PEER, FORGOTTEN, SHOP, diary
from tests.databases import copied
from tests.oracle import configured, oracle
from tests.support import assert_invariants, read_memory

DAYS = 60
ERASURE = 40
RETENTION = 21  # three weeks, and every week is like the one before: from then on nothing may grow
STEADY = 32
MODEL, TOLD, CHANGED = 20, 21, 40  # days on which a model appears, and is told where staging lives
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
LEFT = "select coalesce(sum(head - consolidated_to), 0)::bigint as events from session"
RETURNED = "select session_id from event e join session s on s.id = session_id where e.seq <= s.pruned_to"
HEADS = "select id, head from session where agent <> 'pi' order by id"


@pytest.fixture
async def batch(server_dsn: str, template: str) -> AsyncIterator[Database]:
    """A second database, on the morning after the last night."""
    with copied(server_dsn, template) as address:
        opened = Database(address, FrozenClock(datetime.fromisoformat("2026-01-01T00:00Z")))
        yield opened
        await opened.close()


@dataclass(slots=True)
class Life:
    """The sixty days, and what was seen in them."""

    database: Database
    clock: FrozenClock
    settings: Settings
    office: Office
    start: datetime
    known: dict[str, dict[str, Row]] = field(default_factory=dict)
    sizes: dict[int, Row] = field(default_factory=dict)
    erased: list[str] = field(default_factory=list)
    first_week: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    repeated: int = 0
    pruned: int = 0
    deferred: int = 0

    async def night(self, day: int) -> None:
        """Let a day's night run, and hold it to the ledger."""
        for job in JOBS:
            hour, minute = AT[job]
            self.clock.set(self.start + timedelta(days=day + 1, hours=hour, minutes=minute))
            if job == "import":
                self.office.write(self.clock.now())
                self.office.touch(REREAD if day < DAYS - 1 else None)
            async with self.database.connection() as conn:
                left = (await rows(conn, LEFT))[0]["events"]
            done = await JobRunner(self.database, self.settings).run_due(job)
            assert done is not None, f"{job} was not owed on day {day}"
            assert done["status"] == "done", done
            if job == "import":
                self.events += done["events"]
                self.repeated += done["repeated"]
            elif job == "consolidation":
                assert done["seen"] == done["learned"] + done["nothing"] + done["deferred"], done
                assert left == done["seen"] or (day == MODEL and left < done["seen"])  # it read what was kept, too
                self.deferred += done["deferred"]
            else:
                self.pruned += done["events"]

    async def nothing_fell(self, day: int) -> None:
        """Hold what is known to what was known the day before."""
        async with self.database.connection() as conn:
            now = {kind: {r["id"]: r for r in await rows(conn, query)} for kind, query in KNOWN.items()}
            self.sizes[day] = (await rows(conn, SIZE))[0]
        for kind, before in self.known.items() if day != ERASURE else ():
            for identity, was in before.items():
                found = now[kind].get(identity)
                assert found is not None, f"day {day}: {kind} {identity} is gone"
                assert found["count"] >= was["count"], f"day {day}: {kind} {identity} fell: {was} {found}"
                if kind == "fact":
                    assert was["live"] or not found["live"], f"day {day}: fact {identity} holds again"
        self.known = now

    async def staging(self) -> list[str]:
        """Return the facts in recall's block on where staging lives."""
        found = await recall(self.database, "where does staging live?", project=SHOP)
        assert all(item.line in found.block for item in found.items if item.kind == "fact")
        facts = [str(item.data["text"]) for item in found.items if item.kind == "fact"]
        return [text for text in facts if "staging" in text.lower()]

    async def erase(self) -> None:
        """Have a session and a peer erased."""
        session = Claude(ERASED, self.start, "/").session
        for plan in (
            await plan_erasure(self.database, session=session),
            await plan_erasure(self.database, peer=ERASED_PEER),
        ):
            self.erased += [session.id for session in plan.sessions]
            await erase_sessions(self.database, self.settings, plan, reason="asked for")

    async def nothing_returned(self) -> None:
        """Assert that of the erased nothing is there, and of the pruned no event."""
        async with self.database.connection() as conn:
            values = {"ids": self.erased, "any": "|".join(self.erased), "word": f"%{FORGOTTEN}%"}
            assert not await rows(conn, TRACES, values)
            assert not await rows(conn, RETURNED)


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
    life = Life(database, clock, settings, Office(folder, diary(start, DAYS)), start)
    async with ModelServer(oracle) as server:
        await _live(life, server)
        _stayed_flat(life)
        await _first_week_is_still_explained(life)
        await _minds_changed(life)
        await _the_loop_closed(life)
        await _equals_one_batch(life, batch)


async def _live(life: Life, server: ModelServer) -> None:
    """Let the sixty days pass."""
    for day in range(DAYS):
        if day == MODEL:
            assert not server.requests
            life.settings = configured(life.settings, server)
        await life.night(day)
        await life.nothing_fell(day)
        if day == 6:
            life.first_week = await read_memory(life.database)
        if day in (TOLD - 1, TOLD, CHANGED):
            known = {TOLD: ["Staging lives on box7."], CHANGED: ["Staging lives on box9."]}
            assert await life.staging() == known.get(day, [])
        if day == ERASURE - 1:
            await life.erase()
        if day >= ERASURE - 1:
            await life.nothing_returned()
        if day % 10 == 9:
            await assert_invariants(life.database)


def _stayed_flat(life: Life) -> None:
    """Three weeks are kept, and every week is like the one before: after the first of them nothing grows."""
    then = life.sizes[STEADY]
    for day in range(STEADY + 3, DAYS):
        now = life.sizes[day]
        for measure in ("events", "blobs", "bytes", "pages"):
            assert now[measure] <= then[measure] * 1.05, f"{measure} grew: {then} on day {STEADY}, {now} on day {day}"
        # what is kept, a week of a session that was open all week, yesterday, today and what is made ahead
        assert now["partitions"] <= RETENTION + 7 + 2 + partitions.DAYS_AHEAD
    assert life.pruned > life.events / 2
    assert life.repeated > life.events  # what was imported was read again, also what had been pruned
    assert life.deferred >= DAYS  # a call was open every night


async def _first_week_is_still_explained(life: Life) -> None:
    """What was learned in the first week still shows its quotes, though the log has long lost the events."""
    for kind, least in (("fact", 5), ("procedure", 2), ("solution", 3)):
        learned = [identity for identity, *told in life.first_week[kind] if FORGOTTEN not in str(told)]
        logs = set()
        for identity in learned:
            told = await explain(life.database, identity)
            assert told["evidence"]
            assert all(proof["quote"].strip() for proof in told["evidence"])
            logs |= {proof["log"] for proof in told["evidence"]}
        assert len(learned) >= least
        assert kind == "procedure" or "pruned" in logs  # procedures cite their latest sessions, which are there


async def _minds_changed(life: Life) -> None:
    """What was superseded a month ago, and has lost its events, is known as what was believed then."""
    async with life.database.connection() as conn:
        found = await rows(conn, "select value, superseded_by, valid_to from fact where predicate = 'package manager'")
    assert {one["value"]: one["valid_to"] and (one["valid_to"] - life.start).days for one in found} == {
        "npm": 20,
        "pnpm": None,
    }


async def _the_loop_closed(life: Life) -> None:
    """What a model was told, and what took its place, is explained by both quotes when their events are gone."""
    life.clock.advance(timedelta(days=RETENTION))
    assert await JobRunner(life.database, life.settings).run_due("retention") is not None
    async with life.database.connection() as conn:
        found = await rows(conn, "select id, value from fact where predicate = 'staging_server' order by valid_from")
    assert [one["value"] for one in found] == ["box7", "box9"]
    for one in found:
        told = await explain(life.database, one["id"])
        (proof,) = told["evidence"]
        assert (proof["quote"], proof["log"]) == (f"{one['value']} is where staging lives", "pruned")
        assert "model:gpt-4o-mini:1" in told["extractors"]
    assert "box9" in str(await explain(life.database, found[0]["id"]))


async def _equals_one_batch(life: Life, batch: Database) -> None:
    """A newcomer who imports the files as they are on the last day learns the same in one night.

    Left out: who was erased, and the tree, whose abandoned branch is a fork only to who sees it when it is abandoned.
    """
    session = Claude(ERASED, life.start, "/").session
    names = (session, named(f"{ERASED}-resumed"), f"/{ERASED_PEER}-", "pi/")
    life.office.remove(file.path for file in life.office.files if any(name in file.path for name in names))
    assert isinstance(batch.clock, FrozenClock)
    batch.clock.set(life.clock.now())
    async with batch.connection() as conn:
        await partitions.ensure_ahead(conn, batch.clock.now())
    for job in JOBS[:2]:
        assert await JobRunner(batch, life.settings).run_due(job) is not None
    once, nightly = await read_memory(batch), await read_memory(life.database)
    for kind in once:
        assert [row for row in nightly[kind] if BRANCHED not in str(row)] == once[kind]
    async with batch.connection() as one, life.database.connection() as other:
        assert await rows(one, HEADS) == await rows(other, HEADS)
