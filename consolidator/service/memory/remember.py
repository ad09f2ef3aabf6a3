"""Remembers and forgets what somebody says outright: in the log first, believed at once, by the night's own rules."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import asdict, dataclass

from consolidator.database import Database
from consolidator.errors import NotFound, UsageError
from consolidator.llm.redaction.redact import redact
from consolidator.memory.facts.candidates import Candidate, session_context
from consolidator.memory.facts.orders import overrides_instructions
from consolidator.memory.facts.relations import spellings_of
from consolidator.memory.facts.remembered import MAX_STATEMENT_CHARS as MAX_STATEMENT_CHARS
from consolidator.memory.facts.remembered import STATED, clean_statement, read_statement
from consolidator.models.fact import FactRow
from consolidator.models.memory_filter import ALL_AGENTS, FactFilter, MemoryScope
from consolidator.models.provenance import Provenance
from consolidator.models.session import has_controls
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.memory.decision_log import MemoryOwner, log_decision
from consolidator.service.memory.facts import correct_fact, forget_fact, list_facts, load_fact, reconcile_facts
from consolidator.service.memory.ids import read_citation
from consolidator.service.memory.lessons import forget_lesson, load_lesson
from consolidator.service.scope import narrow_scope
from consolidator.store.calls import scopes
from consolidator.store.facts import facts
from consolidator.store.facts.facts import OwnedAttribute
from consolidator.store.memory.lessons import LESSON_PREFIX
from consolidator.store.sessions import projects, sessions

DEFAULT_AGENT = "claude-code"  # where no agent has worked yet
MAX_MATCHES = 10  # facts that an error names

_ID_PREFIX = re.compile(r"[0-9a-f]{4,32}")


@dataclass(frozen=True, slots=True)
class Remembered:
    """A fact as it was remembered or forgotten."""

    id: str
    statement: str
    scope: str  # project | peer | agent: whom it belongs to
    agent: str
    project: str | None
    peer: str | None
    known: bool  # whether memory believed it before
    session: str | None = None  # where the log has it, at `seq`
    seq: int | None = None


async def remember(
    database: Database, statement: str, scope: MemoryScope = MemoryScope(), *, viewer: Viewer = OWNER
) -> Remembered:
    """Write a statement into the log and believe it: of the project if one is named, else of the peer, else the agent.

    It is a person's word for a viewer with the scope `write`, and an agent's with `record` alone. Without an agent it
    is of the one that worked last in the project, or anywhere. Raises UsageError for an empty or long statement, and
    for an agent's that commands its reader to drop instructions.
    """
    viewer.check_may("record")
    words = clean_statement(statement, redact)
    if not words or len(words) > MAX_STATEMENT_CHARS:
        raise UsageError(f"what memory remembers is one to {MAX_STATEMENT_CHARS} characters, not {len(words)}")
    if not viewer.may("write") and overrides_instructions(words):
        raise UsageError("this tells whoever reads it to drop instructions: only a person may have that remembered")
    owner = await _find_owner(database, viewer, scope)
    async with database.transaction() as conn:
        await scopes.lock_agents(conn, [owner.memory])
        now = database.clock.now()
        event = await log_decision(conn, owner, {"decision": STATED, "statement": words}, now=now, viewer=viewer)
        session = await sessions.get(conn, event.session_id)
        candidate = read_statement(event, session_context(session), redact)
        if candidate is None:  # the night reads the log as this does
            raise UsageError("there is nothing to remember in it")
        believed = set(await facts.list_published(conn, candidate.agent, _attributes_of(candidate), believed=True))
        await facts.save_candidates(conn, [asdict(candidate)], run_id="")
        if candidate.single_valued and candidate.trust == "user":
            await facts.end_stated(conn, candidate.agent, _attributes_of(candidate), candidate.id, now)
        await reconcile_facts(conn, owner.memory, Provenance(None, "person", now))
        fact = await facts.load_fact_of(conn, candidate.agent, _attributes_of(candidate), candidate.id)
    if fact is None:
        raise UsageError("this is not believed: a person said otherwise, see `consolidator facts --all`")
    return _remembered(fact, known=fact.id in believed, session=event.session_id, seq=event.seq)


async def forget(
    database: Database, words: str, scope: MemoryScope = MemoryScope(), *, viewer: Viewer = OWNER
) -> Remembered:
    """Stop believing the fact of an id, of the beginning of one, or the only one that has these words; or a lesson.

    Raises NotFound where there is none, UsageError that lists them where there are several, and Forbidden where the
    viewer may not: a person's word takes the scope `write`.
    """
    viewer.check_may("record")
    name = read_citation(" ".join(words.split()))
    if not name:
        raise UsageError("name what to forget: a fact's id, or its words; `consolidator facts` lists them")
    if name.startswith(LESSON_PREFIX):
        lesson = await forget_lesson(database, name, viewer=viewer)
        agent = next(iter(lesson.body["agents"]), DEFAULT_AGENT)
        return Remembered(lesson.id, lesson.line, "project", agent, lesson.project, lesson.person or None, known=True)
    fact_id = await _find_fact_id(database, name, scope, viewer)
    return _remembered(await forget_fact(database, fact_id, viewer=viewer), known=True)


async def correct(database: Database, memory_id: str, text: str, *, viewer: Viewer = OWNER) -> FactRow:
    """Put a person's sentence in place of a fact, or of a lesson, which is not learned again; return the new fact.

    Raises what `correct_fact`, `remember` and `forget_lesson` raise.
    """
    memory_id = read_citation(memory_id)
    if not memory_id.startswith(LESSON_PREFIX):
        return await correct_fact(database, memory_id, text, viewer=viewer)
    async with database.connection() as conn:
        lesson = await load_lesson(conn, memory_id, viewer)
    scope = MemoryScope(project=lesson.project, peer=lesson.person or None)
    stated = await remember(database, text, scope, viewer=viewer)
    await forget_lesson(database, lesson.id, viewer=viewer)
    async with database.connection() as conn:
        return await load_fact(conn, stated.id, viewer)


def _remembered(fact: FactRow, *, known: bool, session: str | None = None, seq: int | None = None) -> Remembered:
    return Remembered(
        fact.id, fact.sentence, fact.level, fact.agent, fact.project, fact.peer, known, session=session, seq=seq
    )


async def _find_owner(database: Database, viewer: Viewer, scope: MemoryScope) -> MemoryOwner:
    for name in (scope.agent, scope.project, scope.peer):
        if name is not None and has_controls(name):
            raise UsageError(f"{name[:80]!r} is no agent, project or person")
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, scope)
        project, peer = scope.project or None, scope.peer or None  # one that is "" is none
        if scope.agent:
            return MemoryOwner(scope.agent, project, peer)
        if database.share_between_agents and peer is None:
            return MemoryOwner(ALL_AGENTS, project)
        latest = await projects.find_latest_agent(conn, project)
    return MemoryOwner(latest or DEFAULT_AGENT, project, peer)


def _attributes_of(candidate: Candidate) -> list[OwnedAttribute]:
    owner = (candidate.project if candidate.level == "project" else candidate.peer) or ""
    if candidate.level == "agent":
        owner = ""
    return [
        OwnedAttribute(candidate.level, owner, candidate.subject, spelling)
        for spelling in spellings_of(candidate.predicate)
    ]


async def _find_fact_id(database: Database, name: str, scope: MemoryScope, viewer: Viewer) -> str:
    """Return the id of the one fact that a person means."""
    if _ID_PREFIX.fullmatch(name):
        async with database.connection() as conn:
            with suppress(NotFound):
                return (await load_fact(conn, name, viewer)).id
    filters = FactFilter(scope.agent, scope.project, scope.peer, query=name, limit=MAX_MATCHES + 1)
    rows = await list_facts(database, filters, viewer=viewer)
    if len(rows) == 1:
        return rows[0].id
    if not rows:
        raise NotFound(f"no fact has this id or these words: {name[:80]!r}; `consolidator facts` lists them")
    listed = "\n".join(f"  {row.id[:12]}  {row.sentence}" for row in rows[:MAX_MATCHES])
    more = "\n  ..." if len(rows) > MAX_MATCHES else ""
    raise UsageError(f"several facts have these words; say which by its id, `consolidator forget ID`:\n{listed}{more}")
