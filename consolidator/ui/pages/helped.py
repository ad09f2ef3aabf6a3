"""Did it help: week by week what came back told and untold, how often commands worked, and what briefs cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from starlette.responses import Response

from consolidator.service.memory.learned import WeekRow, list_weeks
from consolidator.ui.view import Entry, PageModule, PageRequest, count_of, route

WEEKS, FEWEST = 26, 12  # that are drawn
WIDTH, LEFT, TOP, BOTTOM = 560, 44, 14, 150  # units of a chart, and of its axes in it
BAR, GAP = 16, 2  # units; the widest bar, and what parts two of a week


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure of one week."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One of the three drawings."""

    title: str
    words: str  # what it says, and what it says of all weeks
    legend: dict[str, str]  # words by the kind of its bars
    bars: list[Bar]
    top: str  # the figure at its upper end


async def show_helped(page: PageRequest) -> Response:
    """Show what came of memory in the last half year."""
    today = page.database.clock.now()
    rows = await list_weeks(page.database, today - timedelta(weeks=WEEKS), viewer=page.viewer)
    last = today.date() - timedelta(days=today.weekday())
    first = min((row.monday for row in rows), default=last)
    first = min(first, last - timedelta(weeks=FEWEST - 1))
    count = (last - first).days // 7 + 1
    row_of = {row.monday: row for row in rows}
    mondays = [first + timedelta(weeks=number) for number in range(count)]
    weeks = [row_of.get(monday, WeekRow(monday, *(0,) * 8)) for monday in mondays]
    marks = [(LEFT + (WIDTH - LEFT) * number / count, monday) for number, monday in enumerate(mondays)]
    return page.show(
        "memory/helped.html",
        charts=draw_weeks(weeks) if rows else [],
        weeks=rows,
        marks=[mark for number, mark in enumerate(marks) if number % max(1, count // 6) == 0],
        box=(WIDTH, TOP, BOTTOM, LEFT),
    )


def draw_weeks(weeks: Sequence[WeekRow]) -> list[Chart]:
    """Return the charts of weeks that follow each other."""

    def total(name: str) -> int:
        return sum(getattr(row, name) for row in weeks)

    untold = _bars(weeks, "untold", 0, 2, [(row.untold_failed, row.untold) for row in weeks], "came back untold")
    told = _bars(weeks, "told", 1, 2, [(row.told_failed, row.told) for row in weeks], "came back though it was told")
    ran = [(row.runs - row.runs_failed, row.runs) for row in weeks]
    most = max((row.tokens for row in weeks), default=0)
    return [
        Chart(
            "Failures that came back",
            f"A failure that memory knows came back in {_of(total('untold_failed'), total('untold'))} where nobody was "
            + (
                f"told of it, and in {_of(total('told_failed'), total('told'))} after it was told."
                if total("told")
                else "told of it. No session that could meet one was told yet: install memory in your agents."
            ),
            {"untold": "not told", "told": "told"},
            [*untold, *told],
            "100%",
        ),
        Chart(
            "Commands that ran at the first try",
            "Commands that memory knows how to run worked at once in "
            f"{_of(total('runs') - total('runs_failed'), total('runs'))}.",
            {},
            _bars(weeks, "ran", 0, 1, ran, "worked at once"),
            "100%",
        ),
        Chart(
            "Tokens spent on telling",
            f"{count_of(total('tokens'), 'token')} in {count_of(total('sessions'), 'session')}, "
            "a session counted in each of its weeks."
            if most
            else "No session was told anything yet.",
            {},
            _bars(weeks, "spent", 0, 1, [(row.tokens, most if row.tokens else 0) for row in weeks]),
            f"{most:,}",
        ),
    ]


def _of(count: int, whole: int) -> str:
    share = f" ({count / whole:.0%})" if whole else ""
    return f"{count:,} of {count_of(whole, 'chance')}{share}"


def _bars(
    weeks: Sequence[WeekRow], kind: str, place: int, places: int, shares: Sequence[tuple[int, int]], words: str = ""
) -> list[Bar]:
    """Return a bar for each week that has anything: at one of so many places of the week, as high as its share."""
    step = (WIDTH - LEFT) / max(1, len(weeks))
    width = min(BAR, (step - 2 * GAP) / places)
    bars = []
    for number, (row, (count, whole)) in enumerate(zip(weeks, shares, strict=True)):
        if whole:
            height = round(max(1.5, count / whole * (BOTTOM - TOP)), 1)
            sentence = f"{words} in {_of(count, whole)}" if words else count_of(count, "token")
            x = round(LEFT + step * number + place * (width + GAP), 1)
            bars.append(Bar(kind, x, BOTTOM - height, round(width, 1), height, f"{row.monday}: {sentence}"))
    return bars


HELPED = PageModule(Entry("/helped", "Did it help?"), (route("/helped", show_helped),))
