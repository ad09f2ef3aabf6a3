"""Explanations: the quotes, sessions and run that anything learned rests on, and its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from consolidator.database import Connection, Database
from consolidator.errors import NotFound
from consolidator.llm.redaction.redact import redact
from consolidator.memory.facts.corrections import is_correction
from consolidator.memory.facts.steering import count_steers
from consolidator.memory.procedures.digest import unpack_quotes
from consolidator.memory.solutions.fix_harm import quote_harm
from consolidator.memory.solutions.solution import count_support
from consolidator.models.audience import describe_peer
from consolidator.models.fact import UNKNOWN_START, CitedCandidateRow, FactRow, FactVersionRow
from consolidator.models.memory_filter import ALL_AGENTS
from consolidator.models.procedure import ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.service.memory.ids import MEMORY, resolve_id
from consolidator.service.memory.lessons import describe_worth, is_reached, read_lesson
from consolidator.service.memory.withheld import find_withheld_facts
from consolidator.service.scope import reaches_memory, sees_memory
from consolidator.service.sessions.listing import read_titles
from consolidator.service.viewer import OWNER, Viewer
from consolidator.store.calls import digests
from consolidator.store.facts import facts
from consolidator.store.facts.visibility import find_reached_facts, find_reached_sessions
from consolidator.store.log import events
from consolidator.store.log.events import Span
from consolidator.store.memory import lessons, lookup
from consolidator.store.memory.lessons import LessonRow
from consolidator.store.memory.lookup import SessionOriginRow
from consolidator.store.sessions import sessions
from consolidator.store.sessions import sessions as session_store

Cut = TypeVar("Cut", FactRow, CitedCandidateRow)

_NOTHING = "nothing learned has the id {!r}; `facts`, `commands`, `procedures` and `solutions` list them"
_BY_CAUSE = {"person": "by a person", "review": "after a review", "erasure": "after an erasure"}


async def explain(
    database: Database, memory_id: str, *, peer: str | None = None, viewer: Viewer = OWNER
) -> dict[str, Any]:
    """Return the title, lines and evidence of something learned or of a candidate; raise NotFound for none.

    `memory_id` may be the beginning of an id; raises UsageError where it begins several that the viewer reaches.
    For a peer there is none, too, where it may not see it; for a viewer where it lies outside its reach.
    """
    scope = viewer.narrow(peer=peer)
    async with database.connection() as conn:

        async def is_explained(whole_id: str) -> bool:
            return await _explain_reached(conn, whole_id, scope, viewer) is not None

        whole_id = await resolve_id(conn, memory_id, MEMORY, is_explained)
        explanation = await _explain_reached(conn, whole_id, scope, viewer)
    if explanation is None:
        raise NotFound(_NOTHING.format(memory_id))
    return explanation


async def _explain_reached(conn: Connection, memory_id: str, scope: Viewer, viewer: Viewer) -> dict[str, Any] | None:
    """Return an explanation; None where nothing has the id, or nothing that the viewer reaches within this scope."""
    row = await lookup.load_by_id(conn, memory_id, scope.peer)
    if row is None and (lesson := await lessons.load_lesson(conn, memory_id, scope.peer or "")) is not None:
        return await _explain_lesson(conn, lesson) if is_reached(lesson, scope) else None
    if row is None or not await _is_of_scope(conn, row, viewer) or not await _is_visible(conn, row, scope):
        return None
    explanation = await _explain(conn, row, scope)
    return explanation if await _is_evidence_reached(conn, explanation, viewer) else None


async def _is_of_scope(
    conn: Connection, row: FactRow | ProcedureRow | SolutionRow | CitedCandidateRow, viewer: Viewer
) -> bool:
    """Whether something learned belongs to the viewer's agent and project; a fact of none is judged by its quotes."""
    projects = (None, viewer.project) if isinstance(row, FactRow | CitedCandidateRow) else (viewer.project,)
    is_of_project = viewer.project is None or row.project in projects
    return is_of_project and await sees_memory(conn, viewer, row.agent, row.project)


async def _is_evidence_reached(conn: Connection, explanation: Mapping[str, Any], viewer: Viewer) -> bool:
    """Whether every session that an explanation quotes is of the viewer's agent and project."""
    if viewer.agent is None and viewer.project is None:
        return True
    rows = await session_store.get_each(conn, sorted({str(proof["session_id"]) for proof in explanation["evidence"]}))
    reached = [
        viewer.reaches(agent=row.agent, project=row.project, peer=viewer.peer)
        or await reaches_memory(conn, viewer, row.memory, row.project, viewer.peer)
        for row in rows
    ]
    return all(reached)


async def _explain(
    conn: Connection, row: FactRow | ProcedureRow | SolutionRow | CitedCandidateRow, scope: Viewer
) -> dict[str, Any]:
    if isinstance(row, FactRow):
        explanation = await _explain_fact(conn, row, scope)
    elif isinstance(row, ProcedureRow):
        explanation = await _explain_procedure(conn, row)
    elif isinstance(row, SolutionRow):
        explanation = await _explain_solution(conn, row)
    else:
        return {**await _explain_candidate(conn, _cut(row) if _is_cut(scope) else row), "by": f"by run {row.run_id}"}
    return {**explanation, "by": _BY_CAUSE.get(row.cause, f"by run {row.run_id}")}


async def _is_visible(
    conn: Connection, row: FactRow | ProcedureRow | SolutionRow | CitedCandidateRow, scope: Viewer
) -> bool:
    """Whether a scope's person and project may see it; procedures and solutions are found only where they may."""
    if isinstance(row, FactRow):
        return row.id in await find_reached_facts(conn, {row.id}, peer=scope.peer, project=scope.project)
    if isinstance(row, ProcedureRow | SolutionRow):
        return True
    return row.session_id in await _reached_sessions(conn, {row.session_id}, scope)


async def _reached_sessions(conn: Connection, ids: set[str], scope: Viewer) -> set[str]:
    return await find_reached_sessions(conn, ids, peer=scope.peer, project=scope.project)


def _is_cut(scope: Viewer) -> bool:
    """Whether what a candidate was compared with may be another person's or project's."""
    return scope.peer is not None or scope.project is not None


def _cut(row: Cut) -> Cut:
    """Return a fact or candidate without what was decided about it by comparing it with others."""
    if isinstance(row, FactRow):
        return replace(row, flagged=None, steers=0, steers_succeeded=0, steers_failed=0)
    return replace(row, flagged=None, target=None, why=None)


async def _explain_fact(conn: Connection, fact: FactRow, scope: Viewer) -> dict[str, Any]:
    cited = await lookup.load_cited_candidates(conn, fact.evidence)
    history = await lookup.load_fact_history(conn, fact)
    if _is_cut(scope):
        fact = _cut(fact)
        own = await _reached_sessions(conn, {candidate.session_id for candidate in cited}, scope)
        others = {other.id for other in history}
        visible = await find_reached_facts(conn, others, peer=scope.peer, project=scope.project)
        cited = [_cut(candidate) for candidate in cited if candidate.session_id in own]
        history = [other for other in history if other.id in visible]
    withheld = await find_withheld_facts(conn, {fact.id: fact.sentence})
    lines = [
        *(f"hostile: told to no agent unasked, since it {harm}" for harm in withheld.values()),
        f"{fact.kind}, {fact.confidence}, trusted as said by the {fact.trust}, "
        f"in {fact.sessions} session{'s' if fact.sessions != 1 else ''}",
        f"belongs to {fact.agent if fact.agent == ALL_AGENTS else f'agent {fact.agent}'}"
        + (f", {fact.level} {fact.project or describe_peer(fact.peer or '')}" if fact.level != "agent" else ""),
        "true"
        + (f" since {fact.valid_from:%Y-%m-%d %H:%M}" if fact.valid_from != UNKNOWN_START else "")
        + (f" until {fact.valid_to:%Y-%m-%d %H:%M}" if fact.valid_to else ""),
        *([str(counts)] if (counts := count_steers(cited)).steers else []),
        *_predecessors(fact, history),
        *_superseded(fact, history),
        *(
            f"not believed from {version.superseded_at:%Y-%m-%d %H:%M} to {version.until:%Y-%m-%d %H:%M}: {reason}"
            for version in await facts.load_versions(conn, [fact.id])
            if version.superseded_at is not None
            for reason in _superseded(version, history)
        ),
        *(_decision(candidate, fact) for candidate in cited if _is_notable(candidate) and not _is_cut(scope)),
    ]
    if not _is_cut(scope) and (rejections := await lookup.count_rejections(conn, fact)):
        reasons = ", ".join(f"{rejection.count} {rejection.reason}" for rejection in rejections)
        lines.append(f"of the same subject, {sum(rejection.count for rejection in rejections)} rejected: {reasons}")
    origins = await lookup.load_session_origins(conn, [candidate.session_id for candidate in cited])
    return {
        "kind": "fact",
        "title": fact.sentence,
        "lines": lines,
        "evidence": [proof for candidate in cited for proof in _quotes(candidate, origins)],
        "extractors": sorted({candidate.extractor for candidate in cited}),
        "learned_at": fact.recorded_at,
        "run_id": fact.run_id,
        "row": fact,
    }


def _predecessors(fact: FactRow, history: Iterable[FactRow]) -> list[str]:
    return [
        f"before: {other.sentence} (until {other.valid_to:%Y-%m-%d}, {other.id})"
        for other in history
        if other.id != fact.id and other.valid_to is not None and other.superseded_reason is not None
    ]


def _superseded(fact: FactRow | FactVersionRow, history: Iterable[FactRow]) -> list[str]:
    if fact.superseded_reason is None:
        return []
    if fact.superseded_reason == "forgotten":
        return ["forgotten by a person"]
    if fact.superseded_by is None:
        return ["superseded by another revision"]
    for other in history:
        if other.id == fact.superseded_by and isinstance(fact, FactRow) and is_correction(fact, other):
            return [f"a person took this correction back: {other.sentence} ({other.id})"]
        if other.id == fact.superseded_by:
            return [f"superseded by {other.sentence} (since {other.valid_from:%Y-%m-%d}, {other.id})"]
    return ["superseded by another fact"]


def _is_notable(candidate: CitedCandidateRow) -> bool:
    return candidate.operation not in (None, "add") or candidate.flagged is not None


def _decision(candidate: CitedCandidateRow, fact: FactRow) -> str:
    """Return what was decided about a candidate that a fact cites."""
    by = "code" if candidate.decided_by == "code" else f"model {candidate.decided_by}"
    if candidate.flagged:
        return f"kept beside what it resembles ({by}): {candidate.flagged}"
    target = "" if candidate.target == fact.id else f" {candidate.target}"
    return f"{candidate.operation}{target} by {by}: {candidate.sentence} ({candidate.why})"


async def _explain_candidate(conn: Connection, candidate: CitedCandidateRow) -> dict[str, Any]:
    origins = await lookup.load_session_origins(conn, [candidate.session_id])
    return {
        "kind": "candidate",
        "title": candidate.sentence,
        "lines": [_outcome(candidate)],
        "evidence": _quotes(candidate, origins),
        "extractors": [candidate.extractor],
        "learned_at": candidate.occurred_at,
        "run_id": candidate.run_id,
        "row": candidate,
    }


def _outcome(candidate: CitedCandidateRow) -> str:
    """Return what became of a candidate."""
    if candidate.rejected:
        return f"rejected: {candidate.rejected}"
    if candidate.quarantined:
        return f"in quarantine: {candidate.quarantined}; `consolidator facts --review` accepts or rejects it"
    if not candidate.active:
        return "does not count: its revision is a draft, or another revision replaced it"
    if candidate.operation and candidate.target:
        return f"{candidate.operation} {candidate.target}: {candidate.why}"
    return "counts"


async def _explain_procedure(conn: Connection, procedure: ProcedureRow) -> dict[str, Any]:
    body = procedure.body
    success = body["success"]
    lines = [f"{number}. {_step(step)}" for number, step in enumerate(body["steps"], 1)]
    lines.append(
        f"seen in {count_support(procedure.support, body.get('people', 1))}; worked {success['mean']:.0%} "
        f"(by the outcome of {success['basis']}, {success['alpha'] + success['beta'] - 2:.0f} known)"
    )
    origins = await lookup.load_session_origins(conn, [session_id for session_id, _, _ in body["evidence"]])
    return {
        "kind": "procedure",
        "title": procedure.title,
        "lines": lines,
        "evidence": [_proof(origins, session_id, seq, quote, None) for session_id, seq, quote in body["evidence"]],
        "learned_at": procedure.learned_at,
        "run_id": procedure.run_id,
        "row": procedure,
    }


async def _explain_lesson(conn: Connection, row: LessonRow) -> dict[str, Any]:
    lesson = read_lesson(row)
    quotes: dict[tuple[str, int], str] = {}
    for packed in await digests.get_quotes(conn, sorted({session_id for session_id, _ in lesson.evidence})):
        seqs = memoryview(packed.seqs).cast("q").tolist()
        quotes |= zip(((packed.session_id, seq) for seq in seqs), unpack_quotes(packed.quotes), strict=True)
    origins = await lookup.load_session_origins(conn, [session_id for session_id, _ in lesson.evidence])
    return {
        "kind": "lesson",
        "title": lesson.line,
        "lines": [
            *([f"hostile: told to no agent, since it {row.harm}"] if row.harm else []),
            f"{lesson.kind.replace('_', ' ')} in {row.project}, shown by sessions of {', '.join(lesson.agents) or '-'}",
            f"in {lesson.sessions} session{'s' if lesson.sessions != 1 else ''}: "
            f"worked {lesson.successes} times, failed {lesson.failures} times",
            *([f"instead: {lesson.instead}"] if lesson.instead else []),
            *([figure] if (figure := describe_worth(row)) else []),
            *([f"told no more, since {row.withheld}"] if row.withheld and not row.harm else []),
            *(["pinned: told whatever came of it"] if row.pinned else []),
            *([f"retired on {row.retired_at:%Y-%m-%d}"] if row.retired_at else []),
        ],
        "evidence": [
            _proof(origins, *call, "" if quote_harm(quote := quotes.get(call, "")) else quote, None)
            for call in lesson.evidence
        ],
        "learned_at": row.learned_at,
        "run_id": row.run_id,
        "by": _BY_CAUSE.get(row.cause, f"by run {row.run_id}"),
        "row": row,
    }


def _step(step: dict[str, Any]) -> str:
    """Return a step of a procedure in one line."""
    repeated = " (several times)" if step["repeats"] else ""
    if step["command"]:
        return f"{step['tool']}: {step['command']}{repeated}"
    arguments = ", ".join(
        f"{argument['path']} = {argument['text']}"
        + (f" ({argument['precision']:.0%} of {argument['n']})" if argument["kind"] != "free" else "")
        for argument in step["arguments"]
    )
    return f"{step['tool']}({arguments}){repeated}"


async def _explain_solution(conn: Connection, solution: SolutionRow) -> dict[str, Any]:
    body = solution.body
    lines = [body["line"]]
    for fix in body["fixes"]:
        confirmed = "confirmed" if fix["confirmed"] else "unconfirmed"
        tried = fix.get("tried", fix["worked"])
        told = fix["description"]
        if fix.get("form") and fix["last_time"] not in ("", told):
            told += f"; last time: {fix['last_time']}"
        support = count_support(fix["sessions"], fix.get("people", 1))
        lines += [
            f"fix ({confirmed}, worked in {fix['worked']} of {tried}, in {support}): {told}",
            *(f"  {name + ':':10} {fix[name]}" for name in ("failing", "resolving") if fix[name]),
            *(f"  between:   {step['symbol']} {step['argument']}" for step in fix["steps"]),
        ]
    lines += [f"tried in vain: {attempt}" for attempt in body["tried"]]
    quotes = {(quote["session_id"], quote["seq"]): quote for fix in body["fixes"] for quote in fix["evidence"]}
    quotes |= {(quote["session_id"], quote["seq"]): quote for quote in body["evidence"]}
    origins = await lookup.load_session_origins(conn, [session_id for session_id, _ in quotes])
    return {
        "kind": "solution",
        "title": solution.headline,
        "lines": lines,
        "evidence": [
            _proof(origins, session_id, seq, quote["quote"], quote["occurred_at"])
            for (session_id, seq), quote in sorted(quotes.items())
        ],
        "fingerprint": solution.fingerprint,
        "learned_at": solution.learned_at,
        "run_id": solution.run_id,
        "row": solution,
    }


def _quotes(candidate: CitedCandidateRow, origins: Mapping[str, SessionOriginRow]) -> list[dict[str, Any]]:
    """Return the quotes of a candidate: its own, then those of the events that also prove it.

    That of a steer has `steer`: what became of the task after it.
    """
    quotes = [(candidate.seq, candidate.quote), *candidate.evidence]
    return [
        _proof(origins, candidate.session_id, seq, quote, candidate.occurred_at)
        | ({"steer": candidate.steer} if candidate.steer is not None and seq == candidate.seq else {})
        for seq, quote in quotes
    ]


def _proof(
    origins: Mapping[str, SessionOriginRow], session_id: str, seq: int, quote: str, when: datetime | str | None
) -> dict[str, Any]:
    """Return one piece of evidence, and whether the log still has its event: there | pruned | erased."""
    session = origins.get(session_id)
    log = "erased" if session is None else "pruned" if seq <= session.pruned_to else "there"
    origin, agent = (session.origin, session.agent) if session else (None, None)
    place = {"session_id": session_id, "origin": origin, "agent": agent, "seq": seq}
    return {**place, "quote": quote, "when": when, "log": log}


AROUND = 240  # characters on each side
MAX_TEXT = 100_000  # characters of an event's text in which a quote is looked for
_TEXTS = ("text", "content", "message", "arguments")  # of an event's payload


@dataclass(frozen=True, slots=True)
class QuotedPlace:
    """What stands around a quote in its event; "" where the quote is all that is said, or the log has it no more."""

    title: str | None  # of the session, where the log has its first words
    before: str
    after: str


async def find_places(
    database: Database, evidence: Sequence[Mapping[str, Any]], *, read: int = 5, viewer: Viewer = OWNER
) -> list[QuotedPlace]:
    """Return the place of each quote of an explanation's evidence; of the first `read` ones with what is around them.

    Raises Forbidden for a viewer who does not reach everything: others are told no more than the quotes.
    """
    viewer.check_may("read")
    viewer.check_unnarrowed()
    there = [proof for proof in evidence if proof["log"] == "there"]
    cited = [(str(proof["session_id"]), int(proof["seq"])) for proof in there[:read] if proof["quote"]]
    async with database.connection() as conn:
        titles = await read_titles(conn, sorted({str(proof["session_id"]) for proof in there}))
        rows = await sessions.get_each(conn, sorted({session for session, _ in cited}))
        bounds = {row.id: row.ingest_bounds for row in rows}
        spans = [Span(session, seq - 1, seq, bounds[session]) for session, seq in cited]
        read_events = await events.read_each(conn, spans, limit=1)
    texts = {place: _text_of(found[0].data) for place, found in zip(cited, read_events, strict=True) if found}
    return [
        QuotedPlace(
            titles.get(str(proof["session_id"])),
            *_cut_around(texts.get((str(proof["session_id"]), int(proof["seq"])), ""), str(proof["quote"] or "")),
        )
        for proof in evidence
    ]


def _text_of(data: Mapping[str, Any]) -> str:
    """Return an event's text as memory reads it: without secrets."""
    for name in _TEXTS:
        if isinstance(text := data.get(name), str) and text:
            return redact(text[:MAX_TEXT])
    return ""


def _cut_around(text: str, quote: str) -> tuple[str, str]:
    """Return what stands before and after a quote in a text, cut at words; nothing where the text lacks it."""
    begin, found, end = text.partition(quote)
    if not quote or not found:
        return "", ""
    before, after = begin[-AROUND:], end[:AROUND]
    if len(begin) > AROUND:
        before = "…" + before.partition(" ")[2]
    if len(end) > AROUND:
        after = after.rpartition(" ")[0] + "…"
    return before, after
