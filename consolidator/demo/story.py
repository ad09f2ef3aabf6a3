"""Plays the demo's four weeks: log files grow, and every night imports, consolidates and prunes them.

It runs the product's own jobs under a simulated clock and reports only what they learned. Prints nothing.
"""

from __future__ import annotations

import asyncio
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
from consolidator.errors import DatabaseError, UsageError
from consolidator.jobs.nightly import JOBS, Job
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import FactFilter, ProcedureFilter, SolutionFilter
from consolidator.models.solution import SolutionRow
from consolidator.service.encoding import encode_json
from consolidator.service.memory.explain import explain
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.procedures import list_procedures
from consolidator.service.memory.solutions import find_solutions, list_solutions
from consolidator.service.memory.suggestions import suggest_next_calls
from consolidator.service.nights.imports import import_logs, select_sources
from consolidator.service.nights.runs import run_job
from consolidator.service.sessions.listing import list_sessions
from consolidator.settings import Settings

WEEKS = 4
NIGHTS = 7
RETENTION_DAYS = 14  # short, so that four weeks show what pruning leaves
SECRET = "fl_stg_T9x2LmQ8vR4nKc7WbZ1yHd63"  # typed by a person and used in commands of the samples
ERROR = "fatal: The current branch feat/loyalty-points has no upstream branch."
_ALL = 10_000
_JOB_TIMES: dict[Job, timedelta] = {
    "import": timedelta(hours=2, minutes=45),
    "consolidation": timedelta(hours=3),
    "retention": timedelta(hours=3, minutes=30),
}
LEDGER_COLUMNS = ("seen", "learned", "nothing", "deferred", "dead")


@dataclass(slots=True)
class DemoNight:
    """What one night did: what was imported and pruned, and the ledger of its consolidation."""

    day: datetime
    imported: int
    sessions: int
    ledger: dict[str, int]
    pruned: int

    @property
    def balanced(self) -> bool:
        """Whether the ledger accounts for every event that was seen."""
        return self.ledger["seen"] == sum(self.ledger[name] for name in LEDGER_COLUMNS[1:])


@dataclass(frozen=True, slots=True)
class SolvedError:
    """An error that occurred before, and what resolved it each time."""

    failed: str
    error: str
    fix: str
    worked: int
    tried: int
    sessions: int

    @classmethod
    def from_solution(cls, solution: SolutionRow) -> SolvedError:
        """Read the body of a published solution; one that was looked up for an error suggests a fix for it."""
        body = solution.body
        best = body["fixes"][0]
        suggestion = body.get("suggestion")
        told = best["description"] if best["confirmed"] else f"last time: {best['last_time']}"
        told = told if suggestion is None else suggestion["text"]
        return cls(body["failed"], body["headline"], told, best["worked"], best["tried"], best["sessions"])


@dataclass(slots=True)
class DemoWeek:
    """What was learned in one week."""

    number: int
    first: datetime
    last: datetime
    nights: list[DemoNight] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    superseded: list[tuple[str, str]] = field(default_factory=list)  # the old sentence, and the one that replaced it
    procedures: list[str] = field(default_factory=list)
    solutions: list[SolvedError] = field(default_factory=list)  # confirmed by a second session

    def total(self, name: str) -> int:
        """Return the week's sum of "imported", "sessions", "pruned", or a column of the ledger."""
        return sum(night.ledger[name] if name in LEDGER_COLUMNS else getattr(night, name) for night in self.nights)


@dataclass(slots=True)
class _SeenMemory:
    """The ids of what earlier weeks showed."""

    facts: set[str] = field(default_factory=set)
    superseded: set[str] = field(default_factory=set)
    procedures: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)


class Story:
    """The demo on an open database: play its weeks in order, then query what was learned."""

    def __init__(self, database: Database, settings: Settings, folder: Path) -> None:
        assert isinstance(database.clock, FrozenClock)
        self.database = database
        self.settings = settings
        self._clock: FrozenClock = database.clock
        self._start = self._clock.now()
        self._folder = folder
        self._seen = _SeenMemory()

    async def play_week(self, number: int, tick: Callable[[], None] = lambda: None) -> DemoWeek:
        """Play a week, from 1 to WEEKS in order; `tick` is called after each of its nights."""
        first = self._start + timedelta(days=NIGHTS * (number - 1))
        week = DemoWeek(number, first, first + timedelta(days=NIGHTS - 1))
        for day in range(NIGHTS):
            week.nights.append(await self._run_night(first + timedelta(days=day)))
            tick()
        await self._collect_new_memory(week)
        return week

    async def _run_night(self, day: datetime) -> DemoNight:
        """Let a day pass and run the jobs of the night after it."""
        midnight = day + timedelta(days=1)
        reports: dict[Job, dict[str, Any]] = {}
        for job in JOBS:
            self._clock.set(midnight + _JOB_TIMES[job])
            if job == "import":
                logs.write_logs(self._folder, self._start, self._clock.now() - self._start)
            reports[job] = await run_job(self.database, self.settings, job, asyncio.Event())
        ledger = {name: int(reports["consolidation"][name]) for name in LEDGER_COLUMNS}
        imported = reports["import"]
        return DemoNight(day, imported["events"], imported["sessions"], ledger, reports["retention"]["events"])

    async def _collect_new_memory(self, week: DemoWeek) -> None:
        """Add to a week what no earlier week showed."""
        facts = await list_facts(self.database, FactFilter(include_superseded=True, limit=_ALL))
        procedures = await list_procedures(self.database, ProcedureFilter(limit=_ALL))
        solutions = await list_solutions(self.database, SolutionFilter(limit=_ALL))
        seen = self._seen
        sentences = {fact.id: fact.sentence for fact in facts}
        for fact in facts:
            if fact.superseded_by in sentences and fact.id not in seen.superseded:
                week.superseded.append((fact.sentence, sentences[fact.superseded_by]))
                seen.superseded.add(fact.id)
        replacements = {after for _, after in week.superseded}
        new_facts = [fact for fact in facts if fact.id not in seen.facts and fact.sentence not in replacements]
        week.facts = [f"{fact.sentence} ({fact.agent})" for fact in _mix_kinds(new_facts)]
        week.procedures = [
            f"{procedure.title} ({procedure.agent}, {procedure.support} sessions)"
            for procedure in procedures
            if procedure.id not in seen.procedures
        ]
        confirmed = [solution for solution in solutions if solution.confirmed]
        week.solutions = [
            SolvedError.from_solution(solution) for solution in confirmed if solution.id not in seen.confirmed
        ]
        seen.facts |= sentences.keys()
        seen.procedures |= {procedure.id for procedure in procedures}
        seen.confirmed |= {solution.id for solution in confirmed}

    async def count_memory(self) -> dict[str, int]:
        """Return how many facts, procedures and solutions there are."""
        facts = await list_facts(self.database, FactFilter(include_superseded=True, limit=_ALL))
        solutions = await list_solutions(self.database, SolutionFilter(limit=_ALL))
        return {
            "facts": sum(fact.superseded_at is None for fact in facts),
            "superseded": sum(fact.superseded_at is not None for fact in facts),
            "procedures": len(await list_procedures(self.database, ProcedureFilter(limit=_ALL))),
            "solutions": len(solutions),
            "confirmed": sum(solution.confirmed for solution in solutions),
        }

    async def find_pruned_fact(self) -> dict[str, Any] | None:
        """Return the explanation of a fact that keeps its quotes although its events are pruned."""
        facts = await list_facts(self.database, FactFilter(limit=_ALL))
        for fact in sorted(facts, key=lambda fact: (fact.kind != "decision", fact.valid_from, fact.id)):
            explanation = await explain(self.database, fact.id)
            if explanation["evidence"] and all(proof["log"] == "pruned" for proof in explanation["evidence"]):
                return {"id": fact.id, **explanation}
        return None

    async def find_solved_error(self) -> SolvedError | None:
        """Return the solution of an error that a new branch meets."""
        solutions = await find_solutions(self.database, ERROR, SolutionFilter(limit=1))
        return SolvedError.from_solution(solutions[0]) if solutions else None

    @property
    def last_session(self) -> str:
        """The foreign id of the session that waits for its agent when the story ends."""
        return logs.list_session_names()[-1]

    async def suggest_next_call(self) -> dict[str, Any] | None:
        """Return the call that usually follows in the last session."""
        calls = await suggest_next_calls(self.database, self.last_session, limit=1)
        return calls[0] if calls else None

    async def find_secret(self) -> tuple[int, str | None]:
        """Return how often the secret occurs in memory, and a command in which it is redacted."""
        facts = await list_facts(self.database, FactFilter(include_superseded=True, limit=_ALL))
        procedures = await list_procedures(self.database, ProcedureFilter(include_unworthy=True, limit=_ALL))
        solutions = await list_solutions(self.database, SolutionFilter(limit=_ALL))
        commands = [fix["resolving"] for solution in solutions for fix in solution.body["fixes"]]
        redacted = next((command for command in commands if "[redacted:" in command), None)
        return json.dumps([facts, procedures, solutions], default=encode_json).count(SECRET), redacted

    async def import_again(self) -> int:
        """Import all four weeks again; return how many events are new: none, since pruned events do not come back."""
        sources = []
        for setting in self.settings.sources:
            format_name, _, path = setting.partition(":")
            sources += select_sources(format_name, [Path(path)])
        return (await import_logs(self.database, sources, asyncio.Event())).events


def _mix_kinds(facts: list[FactRow]) -> list[FactRow]:
    """Order facts for a reader: the earliest of each kind, then the next of each kind, and so on."""
    kinds = ("constraint", "decision", "environment", "preference", "profile", "project", "relation")
    counts: Counter[str] = Counter()
    ranked = []
    for fact in sorted(facts, key=lambda fact: (fact.valid_from, fact.id)):
        kind_rank = kinds.index(fact.kind) if fact.kind in kinds else len(kinds)
        ranked.append((counts[fact.kind], kind_rank, fact.id, fact))
        counts[fact.kind] += 1
    return [fact for *_, fact in sorted(ranked, key=lambda entry: entry[:3])]


def demo_home(settings: Settings) -> Path:
    """Return the demo's own home, separate from real memory."""
    return settings.home.expanduser().absolute() / "demo"


def story_start(now: datetime) -> datetime:
    """Return the midnight at which the story begins if its last night is the latest one that has passed."""
    latest = now.astimezone(UTC) - _JOB_TIMES["retention"]
    return latest.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=WEEKS * NIGHTS)


@asynccontextmanager
async def open_story(settings: Settings, now: datetime, *, keep: bool = True) -> AsyncIterator[Story]:
    """Yield the story on an empty database; without `keep` the demo's server is deleted at the end.

    Raises UsageError if the database holds sessions that are not the demo's.
    """
    clock = FrozenClock(story_start(now))
    if settings.database_url is None:
        settings = settings.model_copy(update={"home": demo_home(settings)})
        await clear_demo(settings, clock)
    with tempfile.TemporaryDirectory(prefix="consolidator-demo-") as folder:
        update = {
            "sources": logs.list_sources(Path(folder)),
            "retention_days": RETENTION_DAYS,
            "min_support": 3,
            "quiet_minutes": 15,
            "workers": 1,  # sessions this small are done before a second worker starts
            "timezone": "UTC",
            "digest_to": [],
            "find_model": False,
            "import_cron": "45 2 * * *",
            "consolidation_cron": "0 3 * * *",
            "retention_cron": "30 3 * * *",
        }
        demo_settings = settings.model_copy(update=update)
        async with open_database(demo_settings, clock) as database:
            await _refuse_foreign_sessions(database, set())
            try:
                yield Story(database, demo_settings, Path(folder))
            finally:
                if database.server is not None and not keep:
                    await database.engine.dispose()
                    await database.server.delete()
        if not keep:
            with suppress(OSError):  # it is not empty
                settings.home.rmdir()


async def clear_demo(settings: Settings, clock: FrozenClock) -> None:
    """Delete the server that an earlier demo left in its home, if there is one, and nothing else."""
    if not (settings.home / "postgres").exists():
        return
    async with open_database(settings, clock) as database:
        await _refuse_foreign_sessions(database, set(logs.list_session_names()))
        await database.engine.dispose()
        assert database.server is not None
        if not await database.server.delete():
            raise DatabaseError(f"another process uses the demo's database in {settings.home}: try again later")


async def _refuse_foreign_sessions(database: Database, own: set[str]) -> None:
    """Raise UsageError if the database holds a session whose foreign id is not in `own`."""
    for session in (await list_sessions(database, limit=_ALL)).sessions:
        if str(session.origin).partition(":")[2] not in own:
            where = "CONSOLIDATOR_DATABASE_URL" if database.server is None else database.server.info()["home"]
            raise UsageError(
                f"the database of {where} holds sessions that do not belong to the demo, such as "
                f"{session.origin or session.id}: the demo needs an empty one; name another with "
                "CONSOLIDATOR_HOME or CONSOLIDATOR_DATABASE_URL"
            )
