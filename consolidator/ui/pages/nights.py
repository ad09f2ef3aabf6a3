"""Nights and the system: the ledger as a calendar, one run drawn, what was set aside; health and settings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from types import MappingProxyType
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from starlette.responses import Response

from consolidator.service.memory.learned import count_by_day, load_run_memory
from consolidator.service.nights import runs
from consolidator.service.nights.runs import ListedRun, due_days
from consolidator.service.system import load_system
from consolidator.ui.view import Entry, PageModule, PageRequest, count_of, redirect, route

LEARNING_JOBS, SUMMARIZED_JOBS = ("consolidation", "backfill", "retry"), ("import", "retention")
RUNS_READ = 500  # for the calendar
RUNS_LISTED = 30  # on a page
WEEKS = 26
HEAT = (1, 5, 20, 50)  # from how much that was learned a day is drawn warmer
OUTCOMES = (
    ("learned", "learned from"),
    ("nothing", "nothing to learn"),
    ("deferred", "left for later"),
    ("dead", "set aside"),
)
DRAWN_WIDTH = 600  # units of a drawing of what a run saw


@dataclass(slots=True)
class Night:
    """A day of the calendar."""

    day: date
    runs: list[ListedRun] = field(default_factory=list)  # consolidations, the latest first
    learned: int = 0  # how much of what is remembered came
    state: str = "before"  # before | coming | missed | failed | running | dead | empty | learned

    @property
    def heat(self) -> int:
        """How warm its cell is drawn."""
        return sum(self.learned >= least for least in HEAT)

    @property
    def words(self) -> str:
        """What is said of the day."""
        seen = sum(run.seen for run in self.runs)
        read = f"{self.learned:,} learned, from {count_of(seen, 'event')}" if self.runs else ""
        reasons = {"missed": "no night ran", "failed": "the night failed", "dead": "events were set aside"}
        return "; ".join(filter(None, (reasons.get(self.state, ""), read)))


async def show_nights(page: PageRequest) -> Response:
    """Show the nights of the last weeks, and all jobs' latest runs."""
    services = page.services
    page.viewer.check_may("admin")
    nights = await runs.list_runs(services.database, job="consolidation", limit=RUNS_READ)
    cursor = page.read_cursor("runs", str, str)
    after = None if cursor is None else (datetime.fromisoformat(cursor[0]), str(cursor[1]))
    latest = await runs.list_runs(services.database, after=after, limit=RUNS_LISTED)
    zone = ZoneInfo(services.settings.timezone)
    today = services.database.clock.now().astimezone(zone).date()
    due = due_days(services.settings, today - timedelta(weeks=WEEKS), today)
    since = datetime.combine(today - timedelta(weeks=WEEKS), time.min, zone)
    learned = await count_by_day(services.database, since, zone.key, viewer=page.viewer)
    calendar = make_calendar(nights, today, zone, due, learned)
    missed = [night for week in calendar for night in week if night.state == "missed"]
    values: dict[str, Any] = {"zone": zone.key, "summarize": summarize, "summarized": SUMMARIZED_JOBS}
    values |= page.list_values("runs", latest, latest.position)
    return page.show("nights/nights.html", calendar=calendar, missed=missed, last=nights[:1], **values)


def make_calendar(
    nights: Sequence[ListedRun],
    today: date,
    zone: ZoneInfo,
    due: Collection[date],
    learned: Mapping[date, int] = MappingProxyType({}),
) -> list[list[Night]]:
    """Return the last weeks, each from Monday on.

    A night is missed where one was due and none ran, since the first one that did.
    """
    by_day: dict[date, list[ListedRun]] = defaultdict(list)
    for run in nights:
        by_day[run.started_at.astimezone(zone).date()].append(run)
    first = min(by_day, default=today)
    monday = today - timedelta(days=today.weekday(), weeks=WEEKS - 1)
    days = [monday + timedelta(days=number) for number in range(7 * WEEKS)]
    cells = [
        Night(
            day,
            by_day.get(day, []),
            learned.get(day, 0) if day in by_day else 0,
            _state(by_day.get(day, []), day, first, today, day in due),
        )
        for day in days
    ]
    return [cells[start : start + 7] for start in range(0, len(cells), 7)]


def _state(of_day: Sequence[ListedRun], day: date, first: date, today: date, is_due: bool) -> str:
    if not of_day:
        if day > today:
            return "coming"
        return "missed" if is_due and first < day < today else "before"
    states = {run.status for run in of_day}
    if "failed" in states:
        return "failed"
    if states & {"running", "interrupted"}:
        return "running"
    if any(run.dead for run in of_day):
        return "dead"
    return "learned" if any(run.seen for run in of_day) else "empty"


def summarize(job: str, report: dict[str, Any]) -> str:
    """Return one line about what a run did; nothing of a report that lacks what its job counts."""
    try:
        return runs.summarize({**report, "job": job})
    except KeyError:
        return ""


async def show_night(page: PageRequest) -> Response:
    """Show one run: what it saw and what came of it, its units, and its dead letters."""
    services = page.services
    page.viewer.check_may("admin")
    run = await runs.load_run(services.database, page.path_params["run_id"], limit=100)
    if run["id"] != page.path_params["run_id"]:
        return redirect(f"/nights/{quote(run['id'])}")

    counts = {name: int(run.get(name) or 0) for name, _ in OUTCOMES}
    seen, place, bars = int(run.get("seen") or 0), 0.0, []
    for name, words in OUTCOMES:
        width = round(DRAWN_WIDTH * counts[name] / seen, 1) if seen else 0.0
        bars.append((name, words, counts[name], round(place, 1), width))
        place += width

    open_letters = [letter for letter in run["dead_letters"] if letter["settled_at"] is None]
    remembered = await load_run_memory(
        services.database, started_at=run["started_at"], finished_at=run["finished_at"], viewer=page.viewer
    )

    return page.show(
        "nights/night.html",
        run=run,
        seen=seen,
        bars=bars,
        width=DRAWN_WIDTH,
        open_letters=open_letters,
        remembered=remembered if run["job"] in LEARNING_JOBS else {},
        changes=run.get("memory") or {},
        summary=summarize(run["job"], run) if run["status"] == "done" and run["job"] in SUMMARIZED_JOBS else "",
    )


async def retry(page: PageRequest) -> Response:
    """Learn again from what a run set aside, or one event of it, or discard it."""
    page.viewer.check_may("admin")
    requested = page.services.runs
    form, run_id = page.form_fields, page.path_params["run_id"]
    letters, discard = form.get("id") or run_id, form.get("decision") == "discard"
    await requested.start(
        lambda: runs.retry_dead_letters(
            requested.database, requested.settings, run_or_letter_id=letters, discard=discard
        )
    )
    return redirect(f"/nights/{quote(run_id)}")


NIGHTS = PageModule(
    Entry("/nights", "Nights"),
    (
        route("/nights", show_nights),
        route("/nights/{run_id}", show_night),
        route("/nights/{run_id}/retry", retry, methods=["POST"]),
    ),
)


async def show_system(page: PageRequest) -> Response:
    """Show the state of the installation."""
    services = page.services
    system = await load_system(services.database, services.settings, viewer=page.viewer)
    return page.show("nights/system.html", system=system)


SYSTEM = PageModule(Entry("/system", "Health and settings"), (route("/system", show_system),))
