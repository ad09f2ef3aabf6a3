"""Did it help: week by week what came back told and untold, how often commands worked, and what briefs cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from starlette.responses import Response

from consolidator.service.memory.daily import WeekRow, list_weeks
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


@dataclass(frozen=True, slots=True)
class _Figure:
    """A value of one week, as a share of the chart's height."""

    kind: str
    share: float | None  # None where there was nothing
    title: str


async def show_helped(page: PageRequest) -> Response:
    """Show what came of memory in the last half year."""
    today = page.database.clock.now()
    rows = await list_weeks(page.database, today - timedelta(weeks=WEEKS), viewer=page.viewer)
    last = today.date() - timedelta(days=today.weekday())
    first = min((row.monday for row in rows), default=last)
    first = min(first, last - timedelta(weeks=FEWEST - 1))
    count = (last - first).days // 7 + 1
    known = {row.monday: row for row in rows}
    mondays = [first + timedelta(weeks=number) for number in range(count)]
    weeks = [known.get(monday, WeekRow(monday, *(0,) * 8)) for monday in mondays]
    marks = [(LEFT + (WIDTH - LEFT) * number / count, monday) for number, monday in enumerate(mondays)]
    return page.show(
        "helped.html",
        charts=draw_weeks(weeks) if rows else [],
        weeks=rows,
        marks=[mark for number, mark in enumerate(marks) if number % max(1, count // 6) == 0],
        box=(WIDTH, TOP, BOTTOM, LEFT),
    )


def draw_weeks(weeks: Sequence[WeekRow]) -> list[Chart]:
    """Return the charts of weeks that follow each other."""
    told, told_failed = (sum(getattr(row, name) for row in weeks) for name in ("told", "told_failed"))
    untold, untold_failed = (sum(getattr(row, name) for row in weeks) for name in ("untold", "untold_failed"))
    runs, failed = (sum(getattr(row, name) for row in weeks) for name in ("runs", "runs_failed"))
    tokens, sessions = (sum(getattr(row, name) for row in weeks) for name in ("tokens", "sessions"))
    most = max((row.tokens for row in weeks), default=0)
    failures = [
        [
            _share("untold", row.untold_failed, row.untold, "came back where nobody was told", row),
            _share("told", row.told_failed, row.told, "came back though it was told", row),
        ]
        for row in weeks
    ]
    tries = [[_share("ran", row.runs - row.runs_failed, row.runs, "ran at the first try", row)] for row in weeks]
    spent = [
        [_Figure("spent", row.tokens / most if row.tokens else None, f"{row.monday}: {count_of(row.tokens, 'token')}")]
        for row in weeks
    ]
    return [
        Chart(
            "Failures that came back",
            f"A failure that memory knows came back in {_of(told_failed, told)} after it was told, "
            f"and in {_of(untold_failed, untold)} without.",
            {"untold": "not told", "told": "told"},
            _place(failures),
            "100%",
        ),
        Chart(
            "Commands that ran at the first try",
            f"Commands that memory knows how to run worked at once in {_of(runs - failed, runs)}.",
            {},
            _place(tries),
            "100%",
        ),
        Chart(
            "Tokens spent on telling",
            f"{count_of(tokens, 'token')} in {count_of(sessions, 'session')}, a session counted in each of its weeks.",
            {},
            _place(spent),
            f"{most:,}",
        ),
    ]


def _of(count: int, total: int) -> str:
    share = f" ({count / total:.0%})" if total else ""
    return f"{count:,} of {count_of(total, 'chance')}{share}"


def _share(kind: str, count: int, total: int, words: str, row: WeekRow) -> _Figure:
    return _Figure(kind, count / total if total else None, f"{row.monday}: {words} in {_of(count, total)}")


def _place(weeks: Sequence[Iterable[_Figure]]) -> list[Bar]:
    """Return the bars of each week side by side; a share of nothing is a line at the bottom."""
    bars: list[Bar] = []
    step = (WIDTH - LEFT) / max(1, len(weeks))
    for number, figures in enumerate(map(list, weeks)):
        width = min(BAR, (step - 2 * GAP) / len(figures))
        for place, figure in enumerate(figures):
            if figure.share is not None:
                height = round(max(1.5, figure.share * (BOTTOM - TOP)), 1)
                x = round(LEFT + step * number + place * (width + GAP), 1)
                bars.append(Bar(figure.kind, x, BOTTOM - height, round(width, 1), height, figure.title))
    return bars


HELPED = PageModule(Entry("/helped", "Did it help?"), (route("/helped", show_helped),))
