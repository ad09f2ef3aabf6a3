"""What the agents learned since a moment, and what each run, day and week brought into memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime

from consolidator.database import Connection, Database
from consolidator.memory.calls.argument_summary import MAX_SUMMARY, shorten
from consolidator.memory.lessons.trace import Trace
from consolidator.memory.procedures.digest import unpack_quotes
from consolidator.memory.solutions.fix_description import quote_harm
from consolidator.models.audience import pluralize
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import MemoryScope
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.memory.facts import cut_fact
from consolidator.service.memory.lessons import read_lesson
from consolidator.service.memory.rules import count_rules
from consolidator.service.scope import narrow_scope
from consolidator.store.calls import digests
from consolidator.store.memory import learned, lessons, lookup
from consolidator.store.memory.learned import KINDS as KINDS
from consolidator.store.memory.learned import MEMORY_KINDS, MemoryKind, RememberedRow
from consolidator.store.memory.learned import ChangedFactRow as ChangedFactRow
from consolidator.store.memory.learned import FailedAgainRow as FailedAgainRow
from consolidator.store.memory.learned import LearnedNews as LearnedNews
from consolidator.store.memory.learned import NightSumsRow as NightSumsRow
from consolidator.store.memory.learned import WaitingCountsRow as WaitingCountsRow
from consolidator.store.memory.learned import WeekRow as WeekRow
from consolidator.store.memory.lessons import LessonRow


async def load_learned(
    database: Database,
    since: datetime | None = None,
    scope: MemoryScope = MemoryScope(),
    *,
    limit: int = 10,
    counts_waiting: bool = True,
    viewer: Viewer = OWNER,
) -> LearnedNews | None:
    """Return what was learned since a moment, or else since the latest night that learned; None before the first.

    For a peer, what that person may see; for a viewer of one project, what rests on that project's sessions alone. For
    any viewer who is narrowed, without what the nights saw in all and what waits. Raises Forbidden, and UsageError for
    what the viewer does not reach.
    """
    viewer.check_may("read")
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, scope)
        since = since or await learned.find_latest_night(conn)
        if since is None:
            return None
        news = await learned.load_learned(conn, since, scope, limit=limit, counts_waiting=counts_waiting)
        if news.waiting is not None and not viewer.is_narrowed:
            news = replace(news, waiting=replace(news.waiting, rules=await count_rules(conn)))
    if not viewer.is_narrowed:
        return news
    news = replace(news, sums=None, steering=None, failed_again=[], waiting=None)
    if viewer.peer is None and not viewer.is_of_project:
        return news
    return replace(
        news, facts=[cut_fact(fact) for fact in news.facts], changed=[cut_fact(fact) for fact in news.changed]
    )


async def count_waiting(database: Database, *, viewer: Viewer = OWNER) -> WaitingCountsRow:
    """Return how much waits for a person. Raises Forbidden for a viewer who does not reach everything."""
    viewer.check_reads_all()
    async with database.connection() as conn:
        return replace(await learned.count_waiting(conn), rules=await count_rules(conn))


_WAITING = {  # by kind, in the order in which they are told: what waits, and the command that shows it
    "rules": ("rule", "that people repeat, to accept or dismiss", "consolidator rules"),
    "calls": ("session", "with a call that waits", "consolidator session list --attention"),
    "to_review": ("statement", "to accept or reject", "consolidator facts --review"),
    "flagged": ("fact", "kept beside similar ones", "consolidator facts --flagged"),
    "dead_letters": ("event", "that could not be learned from", "consolidator runs --retry"),
}


def count_by_kind(waiting: WaitingCountsRow | None) -> dict[str, int]:
    """Return how much waits for a person, by kind; without the kinds of which nothing does."""
    return {} if waiting is None else {name: count for name, count in asdict(waiting).items() if count}


def describe_waiting(counts: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Return (kind, how many of what, the command that shows them) of what waits."""
    named = [(kind, counts[kind], *words) for kind, words in _WAITING.items() if counts.get(kind)]
    return [(kind, f"{pluralize(count, noun)} {what}", command) for kind, count, noun, what, command in named]


@dataclass(frozen=True, slots=True)
class Quote:
    """The latest words that something learned rests on, and where its session's log has them."""

    session_id: str
    seq: int
    text: str  # "" where nothing is quoted


async def load_quotes(
    database: Database, facts: Iterable[FactRow], lessons: Iterable[LessonRow], *, viewer: Viewer = OWNER
) -> dict[str, Quote]:
    """Return a quote of each fact and lesson by its id. Raises Forbidden for a viewer who does not reach everything."""
    viewer.check_unnarrowed()
    cited = {fact.evidence[-1]: fact.id for fact in facts if fact.evidence}
    calls = {row.id: read_lesson(row).evidence[0] for row in lessons if row.body.get("evidence")}
    async with database.connection() as conn:
        candidates = await lookup.load_cited_candidates(conn, list(cited)) if cited else []
        texts = await load_call_quotes(conn, calls.values())
    quotes = {cited[row.id]: Quote(row.session_id, row.seq, row.quote) for row in candidates}
    return quotes | {id: Quote(*call, texts[call]) for id, call in calls.items()}


@dataclass(frozen=True, slots=True)
class LearnedLine:
    """One thing that was learned."""

    text: str
    sessions: int
    owner: tuple[str | None, ...]  # its project, peer and agent: the first that is there names it best
    id: str


@dataclass(frozen=True, slots=True)
class LearnedSection:
    """What was learned of one kind."""

    kind: str
    title: str
    lines: list[LearnedLine]
    more: int = 0  # how many the limit left out


def list_sections(news: LearnedNews) -> list[LearnedSection]:
    """Return what was learned by kind, without the kinds of which nothing was."""
    lasting, once = list[LearnedLine](), list[LearnedLine]()
    for fact in news.facts:
        holds_beyond = fact.sessions > 1 or fact.trust == "person" or fact.kind == "constraint"  # its session
        line = LearnedLine(fact.sentence, fact.sessions, _owner(fact), fact.id)
        (lasting if holds_beyond else once).append(line)

    failed_again = [
        LearnedLine(
            f"{row.body['line']} (again {pluralize(row.times, 'time')})",
            row.in_sessions,
            (row.project, row.agent),
            row.id,
        )
        for row in news.failed_again
    ]
    again_ids = {row.id for row in news.failed_again}  # an error that another project met is a new solution, too
    solutions = [
        LearnedLine(row.body["line"], row.sessions, (row.project, row.agent), row.id)
        for row in news.solutions
        if row.id not in again_ids
    ]
    lessons = [LearnedLine(row.line, row.body["sessions"], (row.project,), row.id) for row in news.lessons]
    procedures = [LearnedLine(row.title, row.support, (row.project, row.agent), row.id) for row in news.procedures]
    changed = [
        LearnedLine(f"{fact.before} → {fact.sentence}", fact.sessions, _owner(fact), fact.id) for fact in news.changed
    ]

    more = news.more.get
    sections = [
        LearnedSection(
            "failed_again", "Failed again, though a fix had worked before", failed_again, more("failed_again", 0)
        ),
        LearnedSection(
            "lessons", "How things are run here, what fails, and what then works", lessons, more("lessons", 0)
        ),
        LearnedSection("facts", "New facts", lasting, 0 if once else more("facts", 0)),
        LearnedSection("changed", "Changed facts", changed, more("changed", 0)),
        LearnedSection("solutions", "New solutions: what failed, and what fixed it", solutions, more("solutions", 0)),
        LearnedSection("procedures", "New procedures: what is done again and again", procedures, more("procedures", 0)),
        LearnedSection("facts", "New facts, said in one session", once, more("facts", 0) if once else 0),
    ]
    return [section for section in sections if section.lines]


def _owner(fact: FactRow) -> tuple[str | None, ...]:
    return fact.project, fact.peer, fact.agent


async def load_call_quotes(conn: Connection, calls: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return what calls are quoted with, by session and seq; "" where nothing is, or what is hostile."""
    quotes = dict.fromkeys(calls, "")
    for packed in await digests.get_quotes(conn, sorted({session for session, _ in quotes})) if quotes else ():
        seqs = memoryview(packed.seqs).cast("q").tolist()
        for seq, quote in zip(seqs, unpack_quotes(packed.quotes), strict=True):
            if (packed.session_id, seq) in quotes and not quote_harm(quote):
                quotes[packed.session_id, seq] = quote
    silent = sorted({session for (session, _), quote in quotes.items() if not quote})  # of calls that failed, say
    for row in await lessons.list_traces_of(conn, silent) if silent else ():
        for call in Trace.unpack(row.session_id, row.root_id, row.agent, row.trace).calls:
            text = shorten(call.line or call.path or "", MAX_SUMMARY)
            if quotes.get((row.session_id, call.seq)) == "" and not quote_harm(text):
                quotes[row.session_id, call.seq] = text
    return quotes


RUN_KINDS = ("command", "first_run_fails", "commit_check")  # of lessons: how a command is run that works


async def find_first_fact(database: Database, *, viewer: Viewer = OWNER) -> datetime | None:
    """Return when memory came to believe its first fact. Raises Forbidden for who does not reach everything."""
    viewer.check_reads_all()
    async with database.connection() as conn:
        return await learned.find_first_fact(conn)


async def load_run_memory(
    database: Database, *, started_at: datetime, finished_at: datetime | None, limit: int = 10, viewer: Viewer = OWNER
) -> dict[MemoryKind, list[RememberedRow]]:
    """Return what came into memory from a run's beginning to its end, the best of each kind; no kind is empty.

    Raises Forbidden for a viewer who does not reach everything.
    """
    viewer.check_reads_all()
    end = finished_at or database.clock.now()
    async with database.connection() as conn:
        remembered = {
            kind: await learned.list_remembered(conn, kind, begin=started_at, end=end, limit=limit)
            for kind in MEMORY_KINDS
        }
    return {kind: rows for kind, rows in remembered.items() if rows}


async def count_by_day(database: Database, since: datetime, zone: str, *, viewer: Viewer = OWNER) -> dict[date, int]:
    """Return how much was learned on each day of a time zone. Raises Forbidden for who does not reach everything."""
    viewer.check_reads_all()
    async with database.connection() as conn:
        return await learned.list_days(conn, since, zone)


async def list_weeks(database: Database, since: datetime, *, viewer: Viewer = OWNER) -> list[WeekRow]:
    """Return what came of memory, week by week. Raises Forbidden for who does not reach everything."""
    viewer.check_reads_all()
    async with database.connection() as conn:
        return await learned.list_weeks(conn, since, RUN_KINDS)
