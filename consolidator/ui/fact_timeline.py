"""Lays out a chain of facts in time: when each was true above, when each was believed below, on one axis. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from consolidator.models.fact import UNKNOWN_START, ChainedFactRow, FactVersionRow

WIDTH, LEFT, RIGHT = 900, 290, 14  # units of the drawing; what each fact says stands left of the bars
ROW_HEIGHT, HEAD_HEIGHT, AXIS_HEIGHT = 30, 30, 26
_TICKS = 4
_MIN_BAR = 3.0  # units: a moment is seen, too


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of time on the axis."""

    x: float
    width: float
    is_open: bool = False  # it lasts
    has_unknown_start: bool = False
    is_withdrawn: bool = False  # a person forgot or corrected it


@dataclass(frozen=True, slots=True)
class Line:
    """One fact in one of the two panels."""

    fact: ChainedFactRow
    y: int
    bars: list[Bar]
    changes: list[float] = field(default_factory=list)  # x where it came to say something else


@dataclass(frozen=True, slots=True)
class Panel:
    """When the facts were true, or when they were believed."""

    y: int
    lines: list[Line]
    arrows: list[str]  # paths from a fact to what took its place


@dataclass(frozen=True, slots=True)
class Timeline:
    """A drawing of facts that took each other's place."""

    true: Panel
    believed: Panel
    ticks: list[tuple[float, datetime]]
    has_hours: bool  # the ticks are so near each other that days do not tell them apart
    end: datetime | None  # of the axis; None: now
    height: int
    width: int = WIDTH


@dataclass(frozen=True, slots=True)
class _Axis:
    first: datetime
    seconds: float  # from its first to its last moment

    def place(self, moment: datetime) -> float:
        share = min(1.0, max(0.0, (moment - self.first).total_seconds() / self.seconds))
        return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)

    def make_bar(self, begin: datetime, end: datetime | None, *, is_withdrawn: bool = False) -> Bar:
        is_unknown = begin == UNKNOWN_START
        x = float(LEFT) if is_unknown else self.place(begin)
        last = float(WIDTH - RIGHT) if end is None else self.place(end)
        x = min(x, WIDTH - RIGHT - _MIN_BAR)
        return Bar(x, round(max(last - x, _MIN_BAR), 1), end is None, is_unknown, is_withdrawn)


def draw_timeline(
    facts: Sequence[ChainedFactRow], versions: Mapping[str, Sequence[FactVersionRow]], now: datetime
) -> Timeline:
    """Return the drawing of a chain, the facts from above in their order; `versions` are by fact, in order of time."""
    moments = [now]
    for fact in facts:
        moments += [fact.recorded_at, fact.valid_from, *filter(None, (fact.valid_to, fact.superseded_at))]
    stated = [moment for moment in moments if moment != UNKNOWN_START]
    first, last = min(stated), max(stated)
    if last - first < timedelta(minutes=1):
        first = last - timedelta(minutes=1)
    axis = _Axis(first, (last - first).total_seconds())
    panel_height = HEAD_HEIGHT + ROW_HEIGHT * len(facts)
    true = _draw_panel(facts, 0, lambda fact: ([_true_bar(axis, fact)], []))
    believed = _draw_panel(
        facts,
        panel_height + AXIS_HEIGHT,
        lambda fact: (
            [axis.make_bar(begin, end) for begin, end in believed_spans(fact, versions.get(fact.id, ()))],
            [axis.place(each.until) for each in list_rewordings(fact, versions.get(fact.id, ()))],
        ),
    )
    step = (last - first) / _TICKS
    ticks = [(axis.place(first + step * number), (first + step * number).astimezone(UTC)) for number in range(_TICKS)]
    end = None if last == now else last.astimezone(UTC)
    return Timeline(true, believed, ticks, step < timedelta(days=1), end, 2 * (panel_height + AXIS_HEIGHT))


def believed_spans(fact: ChainedFactRow, versions: Iterable[FactVersionRow]) -> list[tuple[datetime, datetime | None]]:
    """Return from when to when a fact was believed; None for the end of one that still is."""
    spans: list[tuple[datetime, datetime | None]] = []
    begin = fact.recorded_at
    states = [(each.until, each.superseded_at) for each in versions]
    for until, superseded_at in [*states, (None, fact.superseded_at)]:
        end = until if superseded_at is None or (until is not None and until < superseded_at) else superseded_at
        if end is None or end > begin:
            if spans and spans[-1][1] == begin:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((begin, end))
        if until is not None:
            begin = max(begin, until)
    return spans or [(fact.recorded_at, fact.recorded_at)]


def list_rewordings(fact: ChainedFactRow, versions: Sequence[FactVersionRow]) -> list[FactVersionRow]:
    """Return the versions after which a fact said something else."""
    sentences = [*(each.sentence for each in versions), fact.sentence]
    return [each for each, following in zip(versions, sentences[1:], strict=True) if each.sentence != following]


def _true_bar(axis: _Axis, fact: ChainedFactRow) -> Bar:
    return axis.make_bar(fact.valid_from, fact.valid_to, is_withdrawn=fact.is_withdrawn)


def _draw_panel(
    facts: Sequence[ChainedFactRow], top: int, place: Callable[[ChainedFactRow], tuple[list[Bar], list[float]]]
) -> Panel:
    lines = []
    for number, fact in enumerate(facts):
        bars, changes = place(fact)
        lines.append(Line(fact, top + HEAD_HEIGHT + ROW_HEIGHT * number + ROW_HEIGHT // 2, bars, changes))
    by_id = {line.fact.id: line for line in lines}
    arrows = [
        _arrow(line, by_id[line.fact.superseded_by])
        for line in lines
        if line.fact.superseded_by in by_id and line.fact.superseded_by != line.fact.id
    ]
    return Panel(top, lines, arrows)


def _arrow(ended: Line, following: Line) -> str:
    """Return the path from the end of a fact's last bar to the beginning of the first of what took its place."""
    last, first = ended.bars[-1], following.bars[0]
    x2 = first.x
    x1 = min(max(x2, last.x), last.x + last.width)  # straight down where they overlap
    down = 1 if following.y > ended.y else -1
    y1, y2 = ended.y + 7 * down, following.y - 8 * down
    if abs(x2 - x1) < 4:
        return f"M{x1} {y1} V{y2}"
    return f"M{x1} {y1} C{x1} {(y1 + y2) / 2} {x2} {(y1 + y2) / 2} {x2} {y2}"
