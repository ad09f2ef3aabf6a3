"""Plays the four weeks: the files grow, every night imports, consolidates and prunes, and a clock moves on its own.

It is the product's own code under a clock; nothing is shown that was not learned. Prints nothing.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from consolidator.clock import FrozenClock
from consolidator.database import Database, open_database
from consolidator.demo import logs
from consolidator.demo.script import samples
from consolidator.errors import DatabaseError, UsageError
from consolidator.jobs.importing.importer import import_sources
from consolidator.jobs.nightly import JobRunner, configured_sources
from consolidator.models.fact import FactRow
from consolidator.models.solution import SolutionRow
from consolidator.service.explain import explain
from consolidator.service.facts import list_facts
from consolidator.service.json_encoding import encode_json
from consolidator.service.procedures import list_procedures
from consolidator.service.solutions import find_solutions, list_solutions
from consolidator.service.suggestions import suggest_next_calls
from consolidator.settings import Settings
from consolidator.store.log import sessions

WEEKS = 4
NIGHTS = 7
RETENTION_DAYS = 14  # short, so that four weeks show what pruning leaves
SECRET = "fl_stg_T9x2LmQ8vR4nKc7WbZ1yHd63"  # typed by a person and used in commands of the samples
ERROR = "fatal: The current branch feat/loyalty-points has no upstream branch."
_ALL = 10_000
_ROLL = {"import": timedelta(hours=2, minutes=45), "consolidation": timedelta(hours=3)}
_ROLL["retention"] = timedelta(hours=3, minutes=30)
LEDGER = ("seen", "learned", "nothing", "deferred", "dead")


@dataclass(slots=True)
class Night:
    """What one night did: the ledger of its consolidation, and what came in and went."""

    day: datetime
    imported: int
    sessions: int
    ledger: dict[str, int]
    pruned: int

    @property
    def balanced(self) -> bool:
        """Whether every event that was seen is accounted for."""
        return self.ledger["seen"] == sum(self.ledger[name] for name in LEDGER[1:])


@dataclass(frozen=True, slots=True)
class Fixed:
    """An error that was met before, and what resolved it each time."""

    failed: str
    error: str
    fix: str
    sessions: int

    @classmethod
    def of(cls, solution: SolutionRow) -> Fixed:
        """Read what is published of a solution."""
        body = solution.body
        best = body["fixes"][0]
        return cls(body["failed"], body["headline"], best["description"], best["sessions"])


@dataclass(slots=True)
class Week:
    """What one week taught."""

    number: int
    first: datetime
    last: datetime
    nights: list[Night] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    superseded: list[tuple[str, str]] = field(default_factory=list)  # what was believed, and what took its place
    procedures: list[str] = field(default_factory=list)
    solutions: list[Fixed] = field(default_factory=list)  # those that a second session confirmed

    def total(self, name: str) -> int:
        """Return the week's sum of "imported", "sessions", "pruned", or of a column of the ledger."""
        return sum(night.ledger[name] if name in LEDGER else getattr(night, name) for night in self.nights)


@dataclass(slots=True)
class _Known:
    """What was known when the last week ended, by id."""

    facts: set[str] = field(default_factory=set)
    superseded: set[str] = field(default_factory=set)
    procedures: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)


class Story:
    """The demo on an open database; play its weeks in order, then ask for the proofs."""

    def __init__(self, database: Database, settings: Settings, folder: Path) -> None:
        assert isinstance(database.clock, FrozenClock)
        self.database = database
        self.settings = settings
        self._clock: FrozenClock = database.clock
        self._start = self._clock.now()
        self._folder = folder
        self._samples = samples()
        self._known = _Known()

    async def week(self, number: int, tick: Callable[[], None] = lambda: None) -> Week:
        """Play a week, from 1 to WEEKS in order; `tick` is called after each of its nights."""
        first = self._start + timedelta(days=NIGHTS * (number - 1))
        week = Week(number, first, first + timedelta(days=NIGHTS - 1))
        nights = JobRunner(self.database, self.settings)
        for day in range(NIGHTS):
            week.nights.append(await self._night(nights, first + timedelta(days=day)))
            tick()
        await self._tell(week)
        return week

    async def _night(self, nights: JobRunner, day: datetime) -> Night:
        """Let a day pass and run the night that follows it."""
        midnight = day + timedelta(days=1)
        done: dict[str, dict[str, Any]] = {}
        for job in ("import", "consolidation", "retention"):
            self._clock.set(midnight + _ROLL[job])
            if job == "import":
                logs.write(self._samples, self._folder, self._start, self._clock.now() - self._start)
            done[job] = await nights.run_due(job) or {}
        ledger = {name: int(done["consolidation"][name]) for name in LEDGER}
        imported = done["import"]
        return Night(day, imported["events"], imported["sessions"], ledger, done["retention"]["events"])

    async def _tell(self, week: Week) -> None:
        """Find what is known now and was not known a week ago."""
        facts = await list_facts(self.database, superseded_too=True, limit=_ALL)
        procedures = await list_procedures(self.database, limit=_ALL)
        solutions = await list_solutions(self.database, limit=_ALL)
        known = self._known
        sentences = {fact.id: fact.sentence for fact in facts}
        for fact in facts:
            if fact.superseded_by in sentences and fact.id not in known.superseded:
                week.superseded.append((fact.sentence, sentences[fact.superseded_by]))
                known.superseded.add(fact.id)
        replaced = {after for _, after in week.superseded}
        new_facts = [fact for fact in facts if fact.id not in known.facts and fact.sentence not in replaced]
        week.facts = [f"{fact.sentence} ({fact.agent})" for fact in _varied(new_facts)]
        week.procedures = [
            f"{procedure.title} ({procedure.agent}, {procedure.support} sessions)"
            for procedure in procedures
            if procedure.id not in known.procedures
        ]
        confirmed = [solution for solution in solutions if solution.confirmed]
        week.solutions = [Fixed.of(solution) for solution in confirmed if solution.id not in known.confirmed]
        known.facts |= sentences.keys()
        known.procedures |= {procedure.id for procedure in procedures}
        known.confirmed |= {solution.id for solution in confirmed}

    async def memory(self) -> dict[str, int]:
        """Return how much is known at the end."""
        facts = await list_facts(self.database, superseded_too=True, limit=_ALL)
        solutions = await list_solutions(self.database, limit=_ALL)
        return {
            "facts": sum(fact.superseded_at is None for fact in facts),
            "superseded": sum(fact.superseded_at is not None for fact in facts),
            "procedures": len(await list_procedures(self.database, limit=_ALL)),
            "solutions": len(solutions),
            "confirmed": sum(solution.confirmed for solution in solutions),
        }

    async def pruned_fact(self) -> dict[str, Any] | None:
        """Return the explanation of a fact that still has its quotes, though its events are gone."""
        facts = await list_facts(self.database, limit=_ALL)
        for fact in sorted(facts, key=lambda fact: (fact.kind != "decision", fact.valid_from, fact.id)):
            explanation = await explain(self.database, fact.id)
            if explanation["evidence"] and all(proof["log"] == "pruned" for proof in explanation["evidence"]):
                return {"id": fact.id, **explanation}
        return None

    async def solved(self) -> Fixed | None:
        """Return what is known of an error that a branch nobody has heard of meets."""
        solutions = await find_solutions(self.database, ERROR, limit=1)
        return Fixed.of(solutions[0]) if solutions else None

    @property
    def last_session(self) -> str:
        """The session that waits for its agent when the story ends, as a person would type it."""
        return logs.session_of(max(self._samples, key=lambda sample: sample.items[-1].at))

    async def following(self) -> dict[str, Any] | None:
        """Return what usually comes next in the last session."""
        calls = await suggest_next_calls(self.database, self.last_session, limit=1)
        return calls[0] if calls else None

    async def secret(self) -> tuple[int, str | None]:
        """Return how often the secret stands in what memory answers, and a command as memory has it."""
        facts = await list_facts(self.database, superseded_too=True, limit=_ALL)
        procedures = await list_procedures(self.database, limit=_ALL)
        solutions = await list_solutions(self.database, limit=_ALL)
        commands = [fix["resolving"] for solution in solutions for fix in solution.body["fixes"]]
        hidden = next((command for command in commands if "[redacted:" in command), None)
        return json.dumps([facts, procedures, solutions], default=encode_json).count(SECRET), hidden

    async def again(self) -> int:
        """Import all four weeks once more, and return how many events are new; pruned ones do not come back."""
        report = await import_sources(self.database, configured_sources(self.settings))
        return report.events


def _varied(facts: list[FactRow]) -> list[FactRow]:
    """Order facts for a reader: one of each kind, then another one of each; within a kind by time."""
    kinds = ("constraint", "decision", "environment", "preference", "profile", "project", "relation")
    taken: Counter[str] = Counter()
    placed = []
    for fact in sorted(facts, key=lambda fact: (fact.valid_from, fact.id)):
        place = kinds.index(fact.kind) if fact.kind in kinds else len(kinds)
        placed.append((taken[fact.kind], place, fact.id, fact))
        taken[fact.kind] += 1
    return [fact for *_, fact in sorted(placed, key=lambda entry: entry[:3])]


def home_of(settings: Settings) -> Path:
    """Return the demo's own home, apart from real memory."""
    return settings.home.expanduser().absolute() / "demo"


def begins(now: datetime) -> datetime:
    """Return the midnight on which the story begins, so that its last night is the latest that has passed."""
    latest = now.astimezone(UTC) - _ROLL["retention"]
    return latest.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=WEEKS * NIGHTS)


@asynccontextmanager
async def staged(settings: Settings, now: datetime, *, keep: bool = True) -> AsyncIterator[Story]:
    """Yield the story on a database with nothing else in it; without `keep` the demo's server is deleted at the end.

    Raises UsageError where the database has sessions that the demo did not bring.
    """
    clock = FrozenClock(begins(now))
    if settings.database_url is None:
        settings = settings.model_copy(update={"home": home_of(settings)})
        await clear(settings, clock)
    with tempfile.TemporaryDirectory(prefix="consolidator-demo-") as name:
        update = {
            "sources": logs.sources(Path(name)),
            "retention_days": RETENTION_DAYS,
            "min_support": 3,
            "quiet_minutes": 15,
            "workers": 1,  # two would wait for one another, as sessions so small are done before they are shared out
            "timezone": "UTC",
            "import_cron": "45 2 * * *",
            "consolidation_cron": "0 3 * * *",
            "retention_cron": "30 3 * * *",
        }
        played = settings.model_copy(update=update)
        async with open_database(played, clock) as database:
            await _refuse_strangers(database, set())
            try:
                yield Story(database, played, Path(name))
            finally:
                if database.server is not None and not keep:
                    await database.engine.dispose()
                    await database.server.delete()
        if not keep:
            with suppress(OSError):  # somebody keeps something else in it
                settings.home.rmdir()


async def clear(settings: Settings, clock: FrozenClock) -> None:
    """Delete what an earlier demo left in its home, if there is anything, and nothing else."""
    if not (settings.home / "postgres").exists():
        return
    async with open_database(settings, clock) as database:
        await _refuse_strangers(database, {logs.session_of(sample) for sample in samples()})
        await database.engine.dispose()
        assert database.server is not None
        if not await database.server.delete():
            raise DatabaseError(f"somebody else is just using the demo's database in {settings.home}: try again later")


async def _refuse_strangers(database: Database, known: set[str]) -> None:
    async with database.connection() as conn:
        found = await sessions.list_latest(conn, limit=_ALL)
    for session in found:
        if str(session.origin).partition(":")[2] not in known:
            where = "CONSOLIDATOR_DATABASE_URL" if database.server is None else database.server.info()["home"]
            raise UsageError(
                f"the database of {where} holds sessions that are not this demo's to touch, such as "
                f"{session.origin or session.id}: the demo wants an empty one; name another with "
                "CONSOLIDATOR_HOME or CONSOLIDATOR_DATABASE_URL"
            )
