"""Explanations: the quotes, sessions and run that anything learned rests on, and its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from consolidator.database import Connection, Database
from consolidator.errors import NotFound
from consolidator.llm.redaction.redact import redact
from consolidator.memory.calls.symbols import display_name, is_shell_symbol
from consolidator.memory.facts.candidates import count_steers
from consolidator.memory.facts.corrections import is_correction
from consolidator.memory.solutions.error_line import truncate_middle
from consolidator.memory.solutions.solution import count_support
from consolidator.models.audience import describe_peer, pluralize
from consolidator.models.fact import UNKNOWN_START, CitedCandidateRow, FactRow, FactVersionRow
from consolidator.models.memory_filter import ALL_AGENTS
from consolidator.models.procedure import ProcedureRow
from consolidator.models.solution import SolutionRow
from consolidator.models.viewer import OWNER, Viewer
from consolidator.service.memory.ids import MEMORY, find_by_id
from consolidator.service.memory.learned import load_call_quotes
from consolidator.service.memory.lessons import describe_worth, is_reached, read_lesson
from consolidator.service.memory.telling.withheld import find_withheld_facts
from consolidator.service.scope import reaches_memory, sees_memory
from consolidator.service.sessions.listing import read_titles
from consolidator.store.facts import facts
from consolidator.store.facts.visibility import find_reached_facts, find_reached_sessions
from consolidator.store.log import events
from consolidator.store.log.events import Span
from consolidator.store.memory import injections, lessons, lookup
from consolidator.store.memory.lessons import LessonRow
from consolidator.store.sessions import sessions

_NOTHING = "nothing learned has the id {!r}; `facts`, `lessons`, `procedures` and `solutions` list them"
_BY_CAUSE = {"person": "by a person", "review": "after a review", "erasure": "after an erasure"}
_CALLS = ("command", "finds_more")  # lessons that say which call to make, in place of no other
_Explained = FactRow | ProcedureRow | SolutionRow | CitedCandidateRow | LessonRow


class _Proof(NamedTuple):
    """A quote that something learned rests on, and the event that has it."""

    session_id: str
    seq: int
    quote: str
    when: datetime | str | None = None
    steer: Any = None  # what became of the task after a steer


async def explain(
    database: Database, memory_id: str, *, peer: str | None = None, viewer: Viewer = OWNER
) -> dict[str, Any]:
    """Return the title, lines and evidence of something learned or of a candidate; raise NotFound for none.

    `memory_id` may be the beginning of an id; raises UsageError where it begins several that the viewer reaches.
    For a peer there is none, too, where it may not see it; for a viewer where it lies outside its reach.
    """
    scope = viewer.narrow(peer=peer)
    async with database.connection() as conn:
        find = partial(_explain_reached, conn, scope=scope, viewer=viewer)
        explanation = await find_by_id(conn, memory_id, MEMORY, find)
    if explanation is None:
        raise NotFound(_NOTHING.format(memory_id))
    return explanation


async def _explain_reached(conn: Connection, memory_id: str, scope: Viewer, viewer: Viewer) -> dict[str, Any] | None:
    """Return an explanation; None where nothing has the id, or nothing that the viewer reaches within this scope."""
    row = await lookup.load_by_id(conn, memory_id, scope.peer)
    if row is None:
        lesson = await lessons.load_lesson(conn, memory_id, scope.peer or "")
        return await _explain_lesson(conn, lesson) if lesson is not None and is_reached(lesson, scope) else None

    is_of_fact = isinstance(row, FactRow | CitedCandidateRow)  # one of no project is judged by its quotes
    is_of_project = viewer.project is None or row.project in (
        (None, viewer.project) if is_of_fact else (viewer.project,)
    )
    if not is_of_project or not await sees_memory(conn, viewer, row.agent, row.project):
        return None

    reach = {"peer": scope.peer, "project": scope.project}
    if isinstance(row, FactRow):
        explanation = (
            await _explain_fact(conn, row, scope) if await find_reached_facts(conn, {row.id}, **reach) else None
        )
    elif isinstance(row, ProcedureRow):  # which is found only where it may be seen, as a solution is
        explanation = await _explain_procedure(conn, row.as_seen_by(scope.peer or ""))
    elif isinstance(row, SolutionRow):
        explanation = await _explain_solution(conn, row)
    elif await find_reached_sessions(conn, {row.session_id}, **reach):
        row = _cut(row) if _is_cut(scope) else row
        proofs = _quotes(row)
        more = {"extractors": [row.extractor], "learned_at": row.occurred_at}
        explanation = await _build(conn, row, "candidate", row.sentence, [_outcome(row)], proofs, **more)
    else:
        explanation = None

    return explanation if explanation and await _is_evidence_reached(conn, explanation, viewer) else None


async def _build(
    conn: Connection, row: _Explained, kind: str, title: str, lines: list[str], proofs: Sequence[_Proof], **more: Any
) -> dict[str, Any]:
    """Return an explanation; a piece of evidence says whether the log still has its event: there | pruned | erased."""
    origins = await lookup.load_session_origins(conn, [proof.session_id for proof in proofs])
    evidence = []
    for proof in proofs:
        session = origins.get(proof.session_id)
        log = "erased" if session is None else "pruned" if proof.seq <= session.pruned_to else "there"
        origin, agent = (session.origin, session.agent) if session else (None, None)
        place = {"session_id": proof.session_id, "origin": origin, "agent": agent, "seq": proof.seq}
        steer = {} if proof.steer is None else {"steer": proof.steer}
        evidence.append({**place, "quote": proof.quote, "when": proof.when, "log": log, **steer})
    by = None if isinstance(row, CitedCandidateRow) else _BY_CAUSE.get(row.cause)
    learned = {"run_id": row.run_id, "row": row, "by": by or f"by run {row.run_id}", **more}
    return {"kind": kind, "title": title, "lines": lines, "evidence": evidence, **learned}


async def _is_evidence_reached(conn: Connection, explanation: Mapping[str, Any], viewer: Viewer) -> bool:
    """Whether every session that an explanation quotes is of the viewer's agent and project."""
    if viewer.agent is None and viewer.project is None:
        return True
    rows = await sessions.get_each(conn, sorted({str(proof["session_id"]) for proof in explanation["evidence"]}))
    reached = [
        viewer.reaches(agent=row.agent, project=row.project, peer=viewer.peer)
        or await reaches_memory(conn, viewer, row.memory, row.project, viewer.peer)
        for row in rows
    ]
    return all(reached)


def _is_cut(scope: Viewer) -> bool:
    """Whether what a candidate was compared with may be another person's or project's."""
    return scope.peer is not None or scope.project is not None


def _cut(row: CitedCandidateRow) -> CitedCandidateRow:
    """Return a candidate without what was decided about it by comparing it with others."""
    return replace(row, flagged=None, target=None, why=None)


async def _explain_fact(conn: Connection, fact: FactRow, scope: Viewer) -> dict[str, Any]:
    cited = await lookup.load_cited_candidates(conn, fact.evidence)
    history = await lookup.load_fact_history(conn, fact)

    if _is_cut(scope):
        fact = replace(fact, flagged=None, steers=0, steers_succeeded=0, steers_failed=0)
        reach = {"peer": scope.peer, "project": scope.project}
        own = await find_reached_sessions(conn, {candidate.session_id for candidate in cited}, **reach)
        visible = await find_reached_facts(conn, {other.id for other in history}, **reach)
        cited = [_cut(candidate) for candidate in cited if candidate.session_id in own]
        history = [other for other in history if other.id in visible]

    withheld = await find_withheld_facts(conn, {fact.id: fact.sentence})
    notable = [each for each in cited if each.operation not in (None, "add") or each.flagged is not None]
    lines = [
        *(f"hostile: told to no agent unasked, since it {harm}" for harm in withheld.values()),
        f"{fact.kind}, {fact.confidence}, trusted as said by the {fact.trust}, "
        f"in {pluralize(fact.sessions, 'session')}",
        f"belongs to {fact.agent if fact.agent == ALL_AGENTS else f'agent {fact.agent}'}"
        + (f", {fact.level} {fact.project or describe_peer(fact.peer or '')}" if fact.level != "agent" else ""),
        "true"
        + (f" since {fact.valid_from:%Y-%m-%d %H:%M}" if fact.valid_from != UNKNOWN_START else "")
        + (f" until {fact.valid_to:%Y-%m-%d %H:%M}" if fact.valid_to else ""),
        *([str(counts)] if (counts := count_steers(cited)).steers else []),
        *([] if _is_cut(scope) else [await _describe_worth(conn, fact)]),
        *(
            f"before: {other.sentence} (until {other.valid_to:%Y-%m-%d}, {other.id})"
            for other in history
            if other.id != fact.id and other.valid_to is not None and other.superseded_reason is not None
        ),
        *_superseded(fact, history),
        *(
            f"not believed from {version.superseded_at:%Y-%m-%d %H:%M} to {version.until:%Y-%m-%d %H:%M}: {reason}"
            for version in await facts.load_versions(conn, [fact.id])
            if version.superseded_at is not None
            for reason in _superseded(version, history)
        ),
        *(_decision(candidate, fact) for candidate in notable if not _is_cut(scope)),
    ]

    if not _is_cut(scope) and (rejections := await lookup.count_rejections(conn, fact)):
        reasons = ", ".join(f"{count} {reason}" for reason, count in rejections.items())
        lines.append(f"of the same subject, {sum(rejections.values())} rejected: {reasons}")

    proofs = [proof for candidate in cited for proof in _quotes(candidate)]
    extractors = sorted({candidate.extractor for candidate in cited})
    return await _build(
        conn, fact, "fact", fact.sentence, lines, proofs, extractors=extractors, learned_at=fact.recorded_at
    )


async def _describe_worth(conn: Connection, fact: FactRow) -> str:
    """Return what telling a fact was worth, or why no figure says that. It never decides: a person's word stands."""
    if fact.trust not in ("person", "user"):
        return "no figure of worth: what agents found out is said by no person again"
    worth = await injections.measure_fact(conn, fact)
    if not worth.told:
        return "no figure of worth: no session was told it since it was learned"
    untold = f", untold in {worth.untold_said} of {worth.untold}" if worth.untold else ""
    sessions = f"told in {pluralize(worth.told, 'session')}"
    return f"{sessions}, a person said it again in {worth.told_said}{untold}"


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


def _decision(candidate: CitedCandidateRow, fact: FactRow) -> str:
    """Return what was decided about a candidate that a fact cites."""
    by = "code" if candidate.decided_by == "code" else f"model {candidate.decided_by}"
    if candidate.flagged:
        return f"kept beside what it resembles ({by}): {candidate.flagged}"
    target = "" if candidate.target == fact.id else f" {candidate.target}"
    return f"{candidate.operation}{target} by {by}: {candidate.sentence} ({candidate.why})"


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
    proofs = [_Proof(*quoted) for quoted in body["evidence"]]
    return await _build(conn, procedure, "procedure", procedure.title, lines, proofs, learned_at=procedure.learned_at)


async def _explain_lesson(conn: Connection, row: LessonRow) -> dict[str, Any]:
    lesson = read_lesson(row)
    quotes = await load_call_quotes(conn, lesson.evidence)
    lines = [
        *([f"hostile: told to no agent, since it {row.harm}"] if row.harm else []),
        f"{lesson.kind.replace('_', ' ')} in {row.project}, shown by sessions of {', '.join(lesson.agents) or '-'}",
        f"in {pluralize(lesson.sessions, 'session')}: worked {pluralize(lesson.successes, 'time')}, "
        f"failed {pluralize(lesson.failures, 'time')}",
        *([f"instead: {lesson.instead}"] if lesson.instead and lesson.kind not in _CALLS else []),
        *([figure] if (figure := describe_worth(row)) else []),
        *([f"told no more, since {row.withheld}"] if row.withheld and not row.harm else []),
        *(["pinned: told whatever came of it"] if row.pinned else []),
        *([f"retired on {row.retired_at:%Y-%m-%d}"] if row.retired_at else []),
    ]
    proofs = [_Proof(*call, quotes[call]) for call in lesson.evidence]
    return await _build(conn, row, "lesson", lesson.line, lines, proofs, learned_at=row.learned_at)


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


def _describe_step(step: Mapping[str, str]) -> str:
    """Return a step of a fix: a shell's command, or a tool with what it was given."""
    is_command = is_shell_symbol(step["symbol"]) and step["argument"]
    return step["argument"] if is_command else f"{display_name(step['symbol'])} {step['argument']}".strip()


async def _explain_solution(conn: Connection, solution: SolutionRow) -> dict[str, Any]:
    body = solution.body
    lines = [body["line"]]
    for fix in body["fixes"]:
        confirmed = "confirmed" if fix["confirmed"] else "unconfirmed"
        tried = fix.get("tried", fix["worked"])
        description = fix["description"]
        if fix.get("form") and fix["last_time"] not in ("", description):
            description += f"; last time: {fix['last_time']}"
        support = count_support(fix["sessions"], fix.get("people", 1))
        lines += [
            f"fix ({confirmed}, worked in {fix['worked']} of {tried}, in {support}): {description}",
            *(f"  {name + ':':10} {fix[name]}" for name in ("failing", "resolving") if fix[name]),
            *(f"  between:   {_describe_step(step)}" for step in fix["steps"]),
        ]
    lines += [f"tried in vain: {attempt}" for attempt in body["tried"]]
    quotes = {(quote["session_id"], quote["seq"]): quote for fix in body["fixes"] for quote in fix["evidence"]}
    quotes |= {(quote["session_id"], quote["seq"]): quote for quote in body["evidence"]}
    proofs = [
        _Proof(session_id, seq, quote["quote"], quote["occurred_at"])
        for (session_id, seq), quote in sorted(quotes.items())
    ]
    learned = {"fingerprint": solution.fingerprint, "learned_at": solution.learned_at}
    return await _build(conn, solution, "solution", solution.headline, lines, proofs, **learned)


def _quotes(candidate: CitedCandidateRow) -> list[_Proof]:
    """Return the quotes of a candidate: its own, then those of the events that also prove it.

    That of a steer has `steer`: what became of the task after it.
    """
    return [
        _Proof(
            *(candidate.session_id, seq, quote, candidate.occurred_at),
            steer=candidate.steer if seq == candidate.seq else None,
        )
        for seq, quote in [(candidate.seq, candidate.quote), *candidate.evidence]
    ]


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
    viewer.check_reads_all()
    there = [proof for proof in evidence if proof["log"] == "there"]
    cited = [(str(proof["session_id"]), int(proof["seq"])) for proof in there[:read] if proof["quote"]]
    async with database.connection() as conn:
        titles = await read_titles(conn, sorted({str(proof["session_id"]) for proof in there}))
        rows = await sessions.get_each(conn, sorted({session for session, _ in cited}))
        bounds = {row.id: row.ingest_bounds for row in rows}
        spans = [Span(session, seq - 1, seq, bounds[session]) for session, seq in cited]
        read_events = await events.read_each(conn, spans, limit=1)
    texts = {place: _text_of(log[0].data) for place, log in zip(cited, read_events, strict=True) if log}
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
            return redact(truncate_middle(text, MAX_TEXT))
    return ""


def _cut_around(text: str, quote: str) -> tuple[str, str]:
    """Return what stands before and after a quote in a text, cut at words; nothing where the text lacks it."""
    begin, match, end = text.partition(quote) if quote else (text, "", "")
    if not match:
        return "", ""
    before, after = begin[-AROUND:], end[:AROUND]
    if len(begin) > AROUND:
        before = "…" + before.partition(" ")[2]
    if len(end) > AROUND:
        after = after.rpartition(" ")[0] + "…"
    return before, after
