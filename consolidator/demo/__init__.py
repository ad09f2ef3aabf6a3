"""Plays the demo's four weeks: log files grow, and every night imports, consolidates and prunes them.

It runs the product's own jobs under a simulated clock, and reports what `consolidator learned` would show. The logs
beside this module hold four weeks from `FIRST_DAY` on. A copy of them begins on another day, and ends at a moment; day
by day it grows, and never changes what it said. `release/demo_logs` makes them from scripts.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from consolidator.clock import FrozenClock
from consolidator.database import Database, open_database
from consolidator.errors import DatabaseError, UsageError
from consolidator.jobs.nightly import JOBS, Job
from consolidator.models.memory_filter import FactFilter
from consolidator.service.memory.facts import list_facts
from consolidator.service.memory.learned import list_sections, load_learned
from consolidator.service.nights.runs import JobContext, run_job
from consolidator.service.sessions.listing import list_sessions
from consolidator.settings import Settings

FIRST_DAY = datetime(2026, 1, 5, tzinfo=UTC)
_FORMATS = {"claude": "claude-code", "support": "openai-messages", "ops": "consolidator"}  # folder -> format
_TIME = re.compile(r'(?<=")2026-[0-9-]{5}T[0-9:]{8}\.000Z(?=")')


def list_sources(folder: Path) -> list[str]:
    """Return the sources in a folder, each as "format:path" for CONSOLIDATOR_SOURCES."""
    return [f"{name}:{folder / part}" for part, name in _FORMATS.items()]


def write_logs(folder: Path, start: datetime, until: timedelta) -> None:
    """Write what the agents had logged `until` then, counted from `start`; an unchanged file is not touched."""
    for part in _FORMATS:
        (folder / part).mkdir(parents=True, exist_ok=True)
    for path, lines in _read_logs():
        read = _cut_chat if path.parts[0] == "support" else _cut_line
        logged = [line for line in (read(line, FIRST_DAY + until) for line in lines) if line is not None]
        if any(_TIME.search(line) for line in logged):
            text = _TIME.sub(_shifter(start - FIRST_DAY), "\n".join(logged) + "\n")
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                target.write_text(text, encoding="utf-8")


def list_session_names() -> list[str]:
    """Return the ids that the agents themselves gave the sessions, the one with the latest event last."""
    last: dict[str, str] = {}
    for _, lines in _read_logs():
        records = [json.loads(line) for line in lines]
        for line, record in zip(lines, records, strict=True):
            name = record.get("session_id") or record.get("sessionId") or records[0]["session"]["id"]
            last[name] = max([last.get(name, ""), *_TIME.findall(line)])
    return sorted(last, key=last.__getitem__)


def _read_logs() -> Iterator[tuple[Path, list[str]]]:
    """Yield each log's path in its folder, and its lines."""
    root = Path(str(files("consolidator.demo") / "logs"))
    for path in sorted(root.rglob("*.jsonl")):
        yield path.relative_to(root), path.read_text(encoding="utf-8").splitlines()


def _cut_line(line: str, end: datetime) -> str | None:
    """Return a line that was written before a moment, or a header; None for a later one."""
    time = _TIME.search(line)
    return line if time is None or datetime.fromisoformat(time[0]) < end else None


def _cut_chat(line: str, end: datetime) -> str | None:
    """Return a chat with the messages from before a moment, and with its reward if these are all."""
    chat = json.loads(line)
    messages = [message for message in chat["messages"] if _cut_line(json.dumps(message), end)]
    if not any("timestamp" in message for message in messages):
        return None
    reward = {"reward": chat["reward"]} if "reward" in chat and len(messages) == len(chat["messages"]) else {}
    chat.pop("reward", None)
    return json.dumps(chat | {"messages": messages} | reward, ensure_ascii=False)


def _shifter(span: timedelta) -> Callable[[re.Match[str]], str]:
    return lambda time: (datetime.fromisoformat(time[0]) + span).strftime("%Y-%m-%dT%H:%M:%S.000Z")


WEEKS = 4
NIGHTS = 7
RETENTION_DAYS = 14  # short, so that four weeks show what pruning leaves
_ALL = 10_000
_LINES = 5  # of each kind in a week
_JOB_TIMES: dict[Job, timedelta] = {
    "import": timedelta(hours=2, minutes=45),
    "consolidation": timedelta(hours=3),
    "retention": timedelta(hours=3, minutes=30),
}
LEDGER_COLUMNS = ("seen", "learned", "nothing", "deferred", "dead")


class Story:
    """The demo on an open database: play its weeks in order."""

    def __init__(self, database: Database, settings: Settings, folder: Path) -> None:
        assert isinstance(database.clock, FrozenClock)
        self.database = database
        self.settings = settings
        self._clock: FrozenClock = database.clock
        self._start = self._clock.now()
        self._folder = folder

    async def play_week(self, number: int, tick: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Play a week, from 1 to WEEKS in order; return its nights, their sums, and lines of what was learned by kind.

        `tick` is called after each of its nights.
        """
        since, first = self._clock.now(), self._start + timedelta(days=NIGHTS * (number - 1))
        nights = []
        for day in range(NIGHTS):
            nights.append(await self._run_night(first + timedelta(days=day)))
            tick()
        news = await load_learned(self.database, since, limit=_LINES)
        sections = [] if news is None else list_sections(news)
        learned: dict[str, list[str]] = {}
        for section in sections:  # two are of facts: those that last, and what was said once
            lines = learned.setdefault(section.kind, [])
            lines += [line.text for line in section.lines][: _LINES - len(lines)]
        sums = {name: sum(night[name] for night in nights) for name in ("imported", "sessions", "pruned")}
        ledger = {name: sum(night["ledger"][name] for night in nights) for name in LEDGER_COLUMNS}
        last = first + timedelta(days=NIGHTS - 1)
        return {
            "number": number, "first": first, "last": last, **sums, "ledger": ledger, "learned": learned,
            "nights": nights,
        }  # fmt: skip

    async def _run_night(self, day: datetime) -> dict[str, Any]:
        """Let a day pass and run the jobs of the night after it; return what it imported and pruned, and its ledger."""
        midnight = day + timedelta(days=1)
        reports: dict[Job, dict[str, Any]] = {}
        for job in JOBS:
            self._clock.set(midnight + _JOB_TIMES[job])
            if job == "import":
                write_logs(self._folder, self._start, self._clock.now() - self._start)
            reports[job] = await run_job(JobContext(self.database, self.settings), job)
        ledger = {name: int(reports["consolidation"][name]) for name in LEDGER_COLUMNS}
        imported = {"imported": reports["import"]["events"], "sessions": reports["import"]["sessions"]}
        return {"day": day, **imported, "ledger": ledger, "pruned": reports["retention"]["events"]}

    async def find_old_fact(self) -> str:
        """Return the id of the oldest fact: it outlives the events that it rests on."""
        facts = await list_facts(self.database, FactFilter(limit=_ALL))
        return min(facts, key=lambda fact: (fact.valid_from, fact.id)).id


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
            "sources": list_sources(Path(folder)),
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
                    await database.close_idle()
                    await database.server.delete()
        if not keep:
            with suppress(OSError):  # it is not empty
                settings.home.rmdir()


async def clear_demo(settings: Settings, clock: FrozenClock) -> None:
    """Delete the server that an earlier demo left in its home, if there is one, and nothing else."""
    if not (settings.home / "postgres").exists():
        return
    async with open_database(settings, clock) as database:
        await _refuse_foreign_sessions(database, set(list_session_names()))
        await database.close_idle()
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
