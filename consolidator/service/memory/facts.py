"""Facts: list them, and what a person tells memory about them: forget, correct, accept, reject. Nothing is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from consolidator.database import Connection, Database
from consolidator.database.jsonb import escape
from consolidator.errors import Forbidden, NotFound, UsageError
from consolidator.models.fact import CandidateRow, ChainedFactRow, CitedCandidateRow, FactRow, FactVersionRow
from consolidator.models.memory_filter import FactFilter, MemoryFilter, MemoryScope, Page
from consolidator.models.provenance import Provenance
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.memory.ids import find_by_id
from consolidator.service.scope import narrow_scope, reaches_memory, sees_memory
from consolidator.store.calls import scopes
from consolidator.store.facts import facts
from consolidator.store.facts.facts import OwnedAttribute
from consolidator.store.facts.visibility import find_reached_facts, find_reached_sessions
from consolidator.store.memory import listing, lookup
from consolidator.store.memory.listing import FACT_POSITION as FACT_POSITION

F = TypeVar("F", bound=FactRow)
REJECTED = "rejected by a person"
MAX_CORRECTION_LENGTH = 400  # characters
MAX_QUARANTINED_READ = 1000  # candidates, the latest, of which those are listed that a viewer may decide
UNUSED_AFTER = timedelta(days=60)  # a fact that nobody said or recalled for so long is listed after the others


async def list_facts(
    database: Database, filters: FactFilter = FactFilter(), *, viewer: Viewer = OWNER
) -> Page[FactRow]:
    """Return a page of facts, those in use and with most sessions first: as believed or as true at a time.

    A viewer for one person or project gets what that person may see, and what rests on that project's sessions alone,
    without what others' words decided about it. Such a viewer cannot ask for another time than now's belief: raises
    UsageError.
    """
    is_cut = viewer.peer is not None or viewer.is_of_project
    if is_cut and filters.as_of is not None:
        raise UsageError("this credential is for one peer or project: leave as_of out")
    is_of_now = filters.as_of is None and filters.valid_at is None
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, filters)
        project = None if viewer.is_of_project else scope.project
        rows = await listing.list_facts(
            conn,
            replace(scope, project=project, peer=filters.peer, flagged=filters.flagged and not is_cut),
            unused_since=database.clock.now() - UNUSED_AFTER if is_of_now else None,
            visible_to=viewer.peer,
            of_project=viewer.project,
        )
    return Page((cut_fact(row) for row in rows), rows.position) if is_cut else rows


def cut_fact(fact: F) -> F:
    """Return a fact without what may be of others: what it was compared with, and what else it rests on."""
    cut = replace(fact, evidence=[], flagged=None, superseded_by=None)
    return replace(cut, steers=0, steers_succeeded=0, steers_failed=0)


async def list_rejected(database: Database, filters: MemoryFilter = MemoryFilter()) -> list[CandidateRow]:
    """Return the candidates that may not become facts, with the reason, the latest first."""
    async with database.connection() as conn:
        return await listing.list_rejected(conn, await narrow_scope(conn, OWNER, filters))


async def list_quarantined(
    database: Database,
    *,
    agent: str | None = None,
    after: tuple[datetime, str] | None = None,
    limit: int = 50,
    viewer: Viewer = OWNER,
) -> Page[CitedCandidateRow]:
    """Return a page of the candidates that wait for a person's review, the latest first: what the viewer may decide.

    `after` is when the last one of the page before was said, and its id; so is a position.
    """
    async with database.connection() as conn:
        scope = await narrow_scope(conn, viewer, MemoryScope(agent))
        if not viewer.is_narrowed:
            rows = await facts.list_quarantined(conn, scope, after=after, limit=limit + 1)
        else:
            rows = await facts.list_quarantined(conn, scope, after=after, limit=MAX_QUARANTINED_READ)
            decidable = await _find_decidable(conn, rows, viewer)
            rows = [row for row in rows if row.id in decidable]
    return Page.cut(rows, limit, lambda row: [row.occurred_at.isoformat(), row.id])


async def forget_fact(database: Database, fact_id: str, *, viewer: Viewer = OWNER) -> FactRow:
    """Stop believing a fact, and whatever says the same later; its history stays. Return the fact as it is now.

    `fact_id` may be the beginning of an id. Raises NotFound for what the viewer may not see, Forbidden for what is of
    more than the viewer, and UsageError where the id begins several.
    """
    from consolidator.memory.facts.remembered import FORGOTTEN

    viewer.check_may("record")
    async with database.transaction() as conn:
        fact = await _lock_fact(conn, fact_id, viewer)
        if not viewer.may("write") and fact.trust != "agent":
            raise Forbidden("a person's word is forgotten by a person: `consolidator forget` or the scope write")
        await _log_decision(conn, database, fact, FORGOTTEN, viewer)
        await _supersede_fact(conn, database, fact, superseded_by=None)
        await _index(conn, fact.agent, [fact.id])
        return await _lock_fact(conn, fact.id)


async def correct_fact(database: Database, fact_id: str, text: str, *, viewer: Viewer = OWNER) -> FactRow:
    """Put a person's sentence in place of a fact; no other evidence outranks it. Return the new fact.

    `fact_id` may be the beginning of an id. Raises NotFound for what the viewer may not see, Forbidden for what is of
    more than the viewer, and UsageError where the id begins several.
    """
    from consolidator.llm.redaction.redact import redact  # listing facts loads no rules of redaction or correction
    from consolidator.memory.facts.corrections import correction_id

    sentence = redact(" ".join(text.split()))
    if not sentence or len(sentence) > MAX_CORRECTION_LENGTH:
        raise UsageError(f"a correction is a sentence of at most {MAX_CORRECTION_LENGTH} characters")
    async with database.transaction() as conn:
        fact = await _lock_fact(conn, fact_id, viewer)
        new_id = correction_id(fact.id, escape(sentence))
        if new_id == fact.id or sentence == fact.sentence:
            return fact
        await _supersede_fact(conn, database, fact, superseded_by=new_id)
        stated = {**asdict(fact), "new_id": new_id, "sentence": escape(sentence), "now": database.clock.now()}
        await facts.save_stated_fact(conn, stated)
        await _index(conn, fact.agent, [fact.id, new_id])
        return await _lock_fact(conn, new_id)


async def undo_change(database: Database, fact_id: str, *, viewer: Viewer = OWNER) -> FactRow:
    """Take back that a person forgot or corrected a fact: it is believed again as it was. Return it.

    `fact_id` is the fact's or its correction's id, or the beginning of one. Corrections of it are believed no more.
    Raises NotFound for what the viewer may not see, Forbidden for what is of more than the viewer, and UsageError where
    there is nothing to take back, or a person has said otherwise since.
    """
    from consolidator.memory.facts.corrections import is_correction
    from consolidator.memory.facts.relations import spellings_of
    from consolidator.memory.facts.remembered import RESTORED

    viewer.check_may("write")
    async with database.transaction() as conn:
        fact = await _lock_fact(conn, fact_id, viewer)
        history = await lookup.load_fact_history(conn, fact)
        if fact.superseded_at is None:
            corrected = [each.id for each in history if is_correction(fact, each)]
            fact = await load_fact(conn, corrected[0], viewer) if corrected else fact
        now = database.clock.now()
        values = _correction_values(fact) | {
            "owner": fact.project or fact.peer or "",
            "predicates": spellings_of(fact.predicate),
            "now": now,
        }
        if fact.superseded_at is None or not await facts.restore_fact(conn, values):
            raise UsageError("nobody forgot or corrected this fact: there is nothing to undo")
        if fact.superseded_reason == "forgotten":
            await _log_decision(conn, database, fact, RESTORED, viewer)
        corrections = _list_corrections(fact, history)
        for each in corrections:
            await facts.supersede(conn, each.id, fact.id, now)
        await reconcile_facts(conn, fact.agent, Provenance(None, "person", now))
        await _index(conn, fact.agent, [fact.id, *(each.id for each in corrections)])
        restored = await _lock_fact(conn, fact.id)
        if restored.superseded_at is not None:
            raise UsageError("a person has said otherwise since: correct or forget that first")
        return restored


def _list_corrections(fact: FactRow, history: Sequence[FactRow]) -> list[FactRow]:
    """Return those of a fact's attribute that are believed as its correction, or as a correction of its correction."""
    from consolidator.memory.facts.corrections import is_correction

    chain = [fact]
    for corrected in chain:  # which grows by what corrects it
        chain += [each for each in history if is_correction(each, corrected)]
    return [each for each in chain[1:] if each.superseded_at is None]


async def review_candidate(
    database: Database, candidate_id: str, *, accept: bool, viewer: Viewer = OWNER
) -> CandidateRow:
    """Let a candidate in quarantine be believed, or reject it for good; raise NotFound if none has this id.

    It may be the beginning of an id; raises UsageError where it begins several that wait for the viewer's word.
    """
    not_quarantined = NotFound(
        f"nothing in quarantine has the id {candidate_id!r}; `consolidator facts --review` lists it"
    )
    async with database.transaction() as conn:

        async def find(whole_id: str) -> CandidateRow | None:
            row = await facts.get_quarantined(conn, whole_id)
            return row if row is not None and await _find_decidable(conn, [row], viewer) else None

        candidate = await find_by_id(conn, candidate_id, ("candidate",), find)
        if candidate is None:
            raise not_quarantined
        await scopes.lock_agents(conn, [candidate.agent])
        if not await facts.end_quarantine(conn, candidate.id, rejected=None if accept else REJECTED):
            raise not_quarantined
        await reconcile_facts(conn, candidate.agent, Provenance(None, "review", database.clock.now()))
    return candidate


async def reopen_review(database: Database, candidate_id: str, *, viewer: Viewer = OWNER) -> CandidateRow:
    """Take back that a person rejected a candidate: it waits for a word again. Raises NotFound if none has this id."""
    async with database.transaction() as conn:
        candidate = await facts.reopen_review(conn, candidate_id, REJECTED)
        if candidate is None or not await _find_decidable(conn, [candidate], viewer):
            raise NotFound(f"nothing that a person rejected has the id {candidate_id!r}")
    return candidate


async def find_believed(database: Database, candidate: CandidateRow, *, viewer: Viewer = OWNER) -> FactRow | None:
    """Return the fact that is believed and rests on a candidate; None where there is none.

    Raises Forbidden for a viewer who does not reach everything.
    """
    viewer.check_reads_all()
    subject, predicate = candidate.as_subject or candidate.subject, candidate.as_predicate or candidate.predicate
    attribute = OwnedAttribute(candidate.level, candidate.owner, subject, predicate)
    async with database.connection() as conn:
        return await facts.load_fact_of(conn, candidate.agent, [attribute], candidate.id)


async def _find_decidable(conn: Connection, candidates: Sequence[CandidateRow], viewer: Viewer) -> set[str]:
    """Return the ids of those candidates that belong to the viewer's agent, project and peer, as do their sessions."""
    sessions = await find_reached_sessions(
        conn, {row.session_id for row in candidates}, peer=viewer.peer, project=viewer.project
    )
    own = [row for row in candidates if row.session_id in sessions]
    return {row.id for row in own if await reaches_memory(conn, viewer, row.agent, row.project, row.peer)}


async def reconcile_facts(conn: Connection, agent: str, provenance: Provenance) -> None:
    """Decide anew what is believed of an agent's candidates; the caller holds the agent's lock."""
    from consolidator.jobs.merging.reconciling import reconcile_agent
    from consolidator.models.provenance import Changes  # what only lists facts does not load the rules of merging

    await reconcile_agent(conn, agent, provenance, Changes())


async def _index(conn: Connection, agent: str, ids: Sequence[str]) -> None:
    from consolidator.jobs.indexing.indexer import index_facts

    await index_facts(conn, agent, ids)


async def _lock_fact(conn: Connection, fact_id: str, viewer: Viewer = OWNER) -> FactRow:
    """Lock a fact's agent and return the fact, which may have changed or gone while we waited."""
    fact = await load_fact(conn, fact_id, viewer)
    await scopes.lock_agents(conn, [fact.agent])
    return await load_fact(conn, fact.id, viewer)


async def load_fact(conn: Connection, fact_id: str, viewer: Viewer) -> FactRow:
    """Return the fact of an id, or of the beginning of one; raise NotFound where the viewer reaches none."""

    async def find(whole_id: str) -> FactRow | None:
        row = await lookup.load_fact(conn, whole_id)
        if row is None or not await sees_memory(conn, viewer, row.agent, row.project):
            return None
        return row if await find_reached_facts(conn, {row.id}, peer=viewer.peer, project=viewer.project) else None

    fact = await find_by_id(conn, fact_id, ("fact",), find)
    if fact is None:
        raise NotFound(f"no fact has the id {fact_id!r}; `consolidator facts` lists them")
    if not await reaches_memory(conn, viewer, fact.agent, fact.project, fact.peer):
        raise Forbidden("this fact is not only of the agent, project or peer that the credential is for")
    return fact


async def _supersede_fact(conn: Connection, database: Database, fact: FactRow, *, superseded_by: str | None) -> None:
    """Stop believing a fact, and whatever says the same later."""
    values = _correction_values(fact) | {"superseded_by": superseded_by, "now": database.clock.now()}
    await facts.forget_fact(conn, values)


def _correction_values(fact: FactRow) -> dict[str, Any]:
    """Return a fact's columns, its value and predicate as tombstones have them."""
    from consolidator.memory.facts.reconcile import normalize_value

    return asdict(fact) | {"value": normalize_value(fact.value), "predicate": normalize_value(fact.predicate)}


async def _log_decision(conn: Connection, database: Database, fact: FactRow, decision: str, viewer: Viewer) -> None:
    """Log that somebody forgot a fact, or took that back."""
    from consolidator.service.memory.decision_log import MemoryOwner, log_decision

    owner = MemoryOwner(fact.agent, fact.project, fact.peer) if fact.level != "agent" else MemoryOwner(fact.agent)
    data = {key: value for key, value in _correction_values(fact).items() if key in ("subject", "predicate", "value")}
    data |= {"decision": decision, "fact_id": fact.id}
    await log_decision(conn, owner, data, now=database.clock.now(), viewer=viewer)


MAX_CHAIN = 20  # facts of a chain to each side, and others of the attribute


@dataclass(frozen=True, slots=True)
class FactChain:
    """A fact among those that took each other's place."""

    facts: list[ChainedFactRow]  # in the order in which they became true
    versions: dict[str, list[FactVersionRow]]  # by fact: what was believed of it before, in the order of time
    others: list[FactRow]  # of the same attribute, believed no more and replaced by none of these, in the order of time
    is_cut: bool  # there are more


async def load_fact_chain(database: Database, fact: FactRow, *, viewer: Viewer = OWNER) -> FactChain:
    """Return the chain of a fact that the viewer reaches, of what it may see, at most MAX_CHAIN facts to each side."""
    scope = viewer.narrow()
    async with database.connection() as conn:
        chain = await facts.load_chain(conn, fact.id, MAX_CHAIN + 2)
        history = await lookup.load_fact_history(conn, fact)
        ids = {each.id for each in chain} | {each.id for each in history}
        visible = await find_reached_facts(conn, ids, peer=scope.peer, project=scope.project)
        chain = [each for each in chain if each.id in visible]
        middle = next((number for number, each in enumerate(chain) if each.id == fact.id), 0)
        shown = chain[max(0, middle - MAX_CHAIN) : middle + MAX_CHAIN + 1]
        versions = await facts.load_versions(conn, [each.id for each in shown])
    linked = {each.id for each in chain}
    others = [each for each in history if each.superseded_at and each.id in visible and each.id not in linked]
    return FactChain(
        shown,
        {each.id: [version for version in versions if version.fact_id == each.id] for each in shown},
        others[-MAX_CHAIN:],
        is_cut=len(shown) < len(chain) or len(others) > MAX_CHAIN,
    )
