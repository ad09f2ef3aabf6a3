"""Today: what the agents learned since the latest night or another moment, as three cards, each by project."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from starlette.responses import Response

from consolidator.models.solution import SolutionRow
from consolidator.service.memory.learned import KINDS, LearnedNews, Quote, load_learned, load_quotes
from consolidator.service.memory.lessons import FRICTION_KINDS, is_said, read_lesson
from consolidator.service.nights.runs import list_runs
from consolidator.service.sessions.listing import list_sessions
from consolidator.ui.view import Entry, PageModule, PageRequest, count_of, route

SPANS = {"1": "the last day", "7": "the last week", "30": "the last month"}  # days
WIDEST = list(SPANS)[-1]
ROWS = 30  # of each kind that are read
ON_CARD = 12  # lines
MAX_QUOTE = 240  # characters
_TAG = re.compile(r"</?[a-z_]+>")  # around the errors of some agents' tools
SESSIONS = 5  # the latest ones


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was learned, as it stands on a card."""

    id: str
    text: str
    project: str | None
    learned_at: datetime
    sessions: int
    mark: str = ""
    before: str = ""  # what it replaced
    quote: Quote | None = None
    can_change: bool = True

    def shown_quote(self, quotes: Mapping[str, Quote]) -> Quote | None:
        """Return what it rests on, where that is short enough to read and says more than the line."""
        quote = self.quote or quotes.get(self.id)
        words = "" if quote is None else _TAG.sub("", quote.text).strip()
        if quote is None or not words or len(words) > MAX_QUOTE or words[:40] in self.text:
            return None
        return replace(quote, text=words)


@dataclass(slots=True)
class Card:
    """One of the three cards."""

    title: str
    path: str  # of the page with all
    words: str  # of the link to it
    lines: list[Line]
    more: int = 0  # that were learned besides
    repeated: dict[str, int] = field(default_factory=dict)  # by line: in how many other projects it was learned

    @property
    def groups(self) -> dict[str | None, list[Line]]:
        """The lines by project, in the order in which they stand."""
        groups: dict[str | None, list[Line]] = {}
        for line in self.lines:
            groups.setdefault(line.project, []).append(line)
        return groups


async def show_today(page: PageRequest) -> Response:
    """Show what was learned; where the latest night learned nothing new, what the last month did."""
    database, viewer = page.database, page.viewer
    days = page.query_params.get("days", "")
    span = days if days in SPANS else ""
    news = await _load_news(page, span)
    is_widened = not span and news is not None and not any(getattr(news, kind) for kind in KINDS)
    if is_widened:
        news = await _load_news(page, WIDEST)

    nights = await list_runs(database, job="consolidation", limit=1)
    night = next(iter(nights), None)
    cards: list[Card] = []
    quotes: dict[str, Quote] = {}
    if news is not None:
        failing = [row for row in news.lessons if row.kind in FRICTION_KINDS]  # of a command, the line quotes it
        quotes = await load_quotes(database, [*news.facts, *news.changed], failing, viewer=viewer)
        cards = make_cards(news, night.started_at if night else news.since)
    sessions = await list_sessions(database, limit=SESSIONS, viewer=viewer)

    return page.show(
        "today.html",
        news=news,
        cards=cards,
        quotes=quotes,
        span=WIDEST if is_widened else span,
        spans=SPANS,
        is_widened=is_widened,
        night=night,
        latest=[(row, sessions.titles.get(row.id)) for row in sessions.sessions],
    )


async def _load_news(page: PageRequest, span: str) -> LearnedNews | None:
    database = page.database
    since = database.clock.now() - timedelta(days=int(span)) if span else None
    # The badge beside the navigation has counted what waits.
    return await load_learned(database, since, limit=ROWS, counts_waiting=False, viewer=page.viewer)


def make_cards(news: LearnedNews, latest: datetime) -> list[Card]:
    """Return what people said, what broke with its fix, and how things run; what is newest first."""
    changed = {fact.id: fact.before for fact in news.changed}
    facts = [
        Line(row.id, row.sentence, row.project, row.recorded_at, row.sessions, "", changed.get(row.id, ""))
        for row in sorted([*news.changed, *news.facts], key=lambda row: row.cause != "person")
    ]

    of_lessons = {
        row.id: Line(row.id, row.line, row.project, row.learned_at, row.body["sessions"]) for row in news.lessons
    }
    orders = [of_lessons[row.id] for row in news.lessons if row.kind == "order"]
    broke = [of_lessons[row.id] for row in news.lessons if row.kind in FRICTION_KINDS]
    runs = [of_lessons[row.id] for row in news.lessons if row.kind not in ("order", *FRICTION_KINDS)]

    lessons = [read_lesson(row) for row in news.lessons]
    again = {row.id: row.times for row in news.failed_again}
    new = [row for row in news.solutions if row.id not in again and not is_said(row, lessons)]
    fixes = [row for row in new if row.confirmed]
    broke = [
        *(_solution_line(row, again[row.id]) for row in news.failed_again),
        *broke,
        *(_solution_line(row) for row in fixes),
    ]
    runs += [
        Line(row.id, row.title, row.project, row.learned_at, row.support, "steps", can_change=False)
        for row in news.procedures
    ]

    more = {kind: news.more.get(kind, 0) for kind in KINDS}
    weak = more["solutions"] + len(new) - len(fixes)
    cards = [
        _make_card("You said", "/facts", "all facts", [*facts, *orders], more["facts"] + more["changed"], latest),
        _make_card("It broke, this fixed it", "/solutions", "all fixes", broke, weak, latest),
        _make_card("How things run here", "/procedures", "all procedures", runs, more["procedures"], latest),
    ]
    return sorted(cards, key=lambda card: not card.lines)  # an empty one takes the last place


def _make_card(
    title: str,
    path: str,
    words: str,
    lines: Iterable[Line],
    more: int,
    latest: datetime,
) -> Card:
    """Return a card of lines, without those that say the same of another project."""
    card, seen = Card(title, path, words, []), dict[str, str]()
    for line in sorted(lines, key=lambda each: (each.learned_at < latest, each.project is None)):
        masked = re.sub(r"[\d(),]+", "", line.text)
        if masked in seen:
            card.repeated[seen[masked]] = card.repeated.get(seen[masked], 0) + 1
        elif len(card.lines) < ON_CARD:
            seen[masked] = line.id
            card.lines.append(line)
        else:
            more += 1
    card.more = more
    return card


def _solution_line(row: SolutionRow, again: int = 0) -> Line:
    mark = f"failed again {count_of(again, 'time')}" if again else ""
    proof = next(iter(row.body.get("evidence", ())), None)
    quote = Quote(str(proof["session_id"]), int(proof["seq"]), str(proof["quote"])) if proof else None
    return Line(row.id, str(row.body["line"]), row.project, row.learned_at, row.sessions, mark, "", quote, False)


TODAY = PageModule(Entry("/today", "Learned"), (route("/today", show_today),))
