"""Answers about memory that take more than one query: explain, solve, what follows, a session's summary.

Every front end calls these, so that all of them answer the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from consolidator.database import Connection, Database
from consolidator.errors import NotFound
from consolidator.jobs.consolidation.learning import bounds_of
from consolidator.llm.redaction.redact import redact, redact_json
from consolidator.memory.facts.reconcile import LONG_AGO
from consolidator.memory.procedures.digest import Digest
from consolidator.memory.procedures.prediction import suggest
from consolidator.memory.procedures.tool_profiles import Profile
from consolidator.memory.solutions.fingerprint import fingerprint, headline, signature
from consolidator.memory.summary import SummaryFold, render
from consolidator.models.event import Event
from consolidator.store.log import events, sessions
from consolidator.store.memory import digests, lookup
from consolidator.store.queries import Row

_BESIDE_THE_LEDGER = {
    "person": "by a person",
    "review": "after a review",
    "retry": "by a retry",
    "erase": "after an erasure",
}  # what no run of the ledger made
TAIL = 2000  # events that `next` reads, and `summary` at a time


async def solve(
    database: Database,
    error: str,
    *,
    tool: str | None = None,
    agent: str | None = None,
    project: str | None = None,
    limit: int = 5,
) -> list[Row]:
    """Return what is known of an error: by its fingerprint, else by the words it shares with known ones."""
    told = redact(error)
    exact = fingerprint(tool, told) if tool else None
    async with database.connection() as conn:
        return await lookup.solutions_of(
            conn,
            fingerprint=exact,
            signature=signature(told),
            text=headline(told),
            agent=agent,
            project=project,
            limit=limit,
        )


async def explain(database: Database, identity: str) -> dict[str, Any]:
    """Return title, lines and evidence of a fact, procedure or solution; raise NotFound where there is none."""
    told = await _explained(database, identity)
    return {**told, "by": _BESIDE_THE_LEDGER.get(told["run_id"], f"by run {told['run_id']}")}


async def _explained(database: Database, identity: str) -> dict[str, Any]:
    async with database.connection() as conn:
        found = await lookup.explained(conn, identity)
        if found is None:
            raise NotFound(f"nothing learned has the id {identity!r}; `facts`, `procedures` and `solutions` list them")
        kind, row = found
        if kind == "fact":
            return await _explain_fact(conn, row)
        if kind == "procedure":
            return await _explain_procedure(conn, row)
        if kind == "solution":
            return await _explain_solution(conn, row)
        return await _explain_candidate(conn, row)


async def _explain_fact(conn: Connection, fact: Row) -> dict[str, Any]:
    cited = await lookup.evidence(conn, fact["evidence"])
    lines = [
        f"{fact['kind']}, {fact['confidence']}, trusted as said by the {fact['trust']}, "
        f"in {fact['sessions']} session{'s' if fact['sessions'] != 1 else ''}",
        f"belongs to agent {fact['agent']}" + (f", {fact['level']} {fact['project'] or fact['peer']}"
                                               if fact["level"] != "agent" else ""),
        "true" + (f" since {fact['valid_from']:%Y-%m-%d %H:%M}" if fact["valid_from"] != LONG_AGO else "")
        + (f" until {fact['valid_to']:%Y-%m-%d %H:%M}" if fact["valid_to"] else ""),
    ]  # fmt: skip
    history = await lookup.history(conn, fact)
    for other in history:
        if other["id"] != fact["id"] and other["valid_to"] is not None and other["superseded_by"] is not None:
            lines.append(f"before: {other['sentence']} (until {other['valid_to']:%Y-%m-%d}, {other['id']})")
    if fact["superseded_by"]:
        after = next((one for one in history if one["id"] == fact["superseded_by"]), None)
        told = f": {after['sentence']} (since {after['valid_from']:%Y-%m-%d}, {after['id']})" if after else ""
        lines.append(f"superseded by {told.removeprefix(': ') or fact['superseded_by']}")
    lines += [_decided(c, fact) for c in cited if c["operation"] not in (None, "add") or c["flagged"]]
    if refused := await lookup.rejections(conn, fact):
        why = ", ".join(f"{one['count']} {one['reason']}" for one in refused)
        lines.append(f"of the same subject, {sum(one['count'] for one in refused)} rejected: {why}")
    seen = await lookup.origins(conn, [c["session_id"] for c in cited])
    return {
        "kind": "fact",
        "title": fact["sentence"],
        "lines": lines,
        "evidence": [
            _proof(seen, c["session_id"], seq, quote, c["occurred_at"])
            for c in cited
            for seq, quote in [(c["seq"], c["quote"]), *c["evidence"]]
        ],
        "extractors": sorted({c["extractor"] for c in cited}),
        "learned_at": fact["recorded_at"],
        "run_id": fact["run_id"],
        "row": fact,
    }


def _decided(saying: Row, fact: Row) -> str:
    """Return what was decided of a saying that a fact rests on."""
    by = "code" if saying["decided_by"] == "code" else f"model {saying['decided_by']}"
    if saying["flagged"]:
        return f"kept beside what it resembles ({by}): {saying['flagged']}"
    onto = "" if saying["target"] == fact["id"] else f" {saying['target']}"
    return f"{saying['operation']}{onto} by {by}: {saying['sentence']} ({saying['why']})"


async def _explain_candidate(conn: Connection, candidate: Row) -> dict[str, Any]:
    seen = await lookup.origins(conn, [candidate["session_id"]])
    session, when = candidate["session_id"], candidate["occurred_at"]
    cited = [(candidate["seq"], candidate["quote"]), *candidate["evidence"]]
    return {
        "kind": "candidate",
        "title": candidate["sentence"],
        "lines": [_became(candidate)],
        "evidence": [_proof(seen, session, seq, quote, when) for seq, quote in cited],
        "extractors": [candidate["extractor"]],
        "learned_at": candidate["occurred_at"],
        "run_id": candidate["run_id"],
        "row": candidate,
    }


def _became(candidate: Row) -> str:
    """Say what became of a candidate."""
    if candidate["rejected"]:
        return f"rejected: {candidate['rejected']}"
    if candidate["quarantined"]:
        return f"in quarantine: {candidate['quarantined']}; `consolidator facts review` settles it"
    if not candidate["active"]:
        return "not taken into account: of a draft, or another generation took its place"
    if candidate["operation"] and candidate["target"]:
        return f"{candidate['operation']} {candidate['target']}: {candidate['why']}"
    return "taken into account"


async def _explain_procedure(conn: Connection, procedure: Row) -> dict[str, Any]:
    body = procedure["body"]
    lines = [f"{n}. {_step(step)}" for n, step in enumerate(body["steps"], 1)]
    success = body["success"]
    lines.append(
        f"seen in {procedure['support']} sessions; worked {success['mean']:.0%} "
        f"(by the outcome of {success['basis']}, {success['alpha'] + success['beta'] - 2:.0f} known)"
    )
    lines += [f"before: {told}" for told in body["preconditions"]]
    if body["follows"]:
        lines.append("then usually: " + ", ".join(f"{symbol} ({share:.0%})" for symbol, share in body["follows"]))
    seen = await lookup.origins(conn, [session for session, _, _ in body["evidence"]])
    shown = [_proof(seen, session, seq, quote, None) for session, seq, quote in body["evidence"]]
    return {
        "kind": "procedure",
        "title": procedure["title"],
        "lines": lines,
        "evidence": shown,
        "learned_at": procedure["learned_at"],
        "run_id": procedure["run_id"],
        "row": procedure,
    }


def _step(step: dict[str, Any]) -> str:
    """Say a step of a procedure in one line."""
    again = " (several times)" if step["repeats"] else ""
    if step["command"]:
        return f"{step['tool']}: {step['command']}{again}"
    told = ", ".join(
        f"{a['path']} = {a['text']}" + (f" ({a['precision']:.0%} of {a['n']})" if a["kind"] != "free" else "")
        for a in step["arguments"]
    )
    return f"{step['tool']}({told}){again}"


async def _explain_solution(conn: Connection, solution: Row) -> dict[str, Any]:
    body = solution["body"]
    lines = [body["line"]]
    for fix in body["fixes"]:
        sure = "confirmed" if fix["confirmed"] else "unconfirmed"
        lines.append(f"fix ({sure}, worked {fix['worked']} times in {fix['sessions']} sessions): {fix['description']}")
        lines.append(f"  failing:   {fix['failing']}")
        lines.append(f"  resolving: {fix['resolving']}")
        lines += [f"  between:   {step['symbol']} {step['argument']}" for step in fix["steps"]]
    lines += [f"tried in vain: {tried}" for tried in body["tried"]]
    proofs = {(e["session_id"], e["seq"]): e for fix in body["fixes"] for e in fix["evidence"]}
    proofs |= {(e["session_id"], e["seq"]): e for e in body["evidence"]}
    seen = await lookup.origins(conn, [session for session, _ in proofs])
    return {
        "kind": "solution",
        "title": solution["headline"],
        "lines": lines,
        "evidence": [
            _proof(seen, e["session_id"], e["seq"], e["quote"], e["occurred_at"]) for _, e in sorted(proofs.items())
        ],
        "fingerprint": solution["fingerprint"],
        "learned_at": solution["learned_at"],
        "run_id": solution["run_id"],
        "row": solution,
    }


def _proof(seen: dict[str, Row], session: str, seq: int, quote: str, when: Any) -> dict[str, Any]:
    """Return one piece of evidence, and whether the log still has it."""
    found = seen.get(session)
    log = "erased" if found is None else "pruned" if seq <= found["pruned_to"] else "there"
    origin = found["origin"] if found else None
    return {"session_id": session, "origin": origin, "seq": seq, "quote": quote, "when": when, "log": log}


async def next_calls(database: Database, word: str, *, most: int = 5) -> list[dict[str, Any]]:
    """Return the calls that usually follow in a session, from its last two thousand events."""
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find(conn, word))
        stored = await lookup.profiles(conn, session["agent"], session["project"])
        tail = await _tail(conn, session)
    profiles = {one["tool"]: Profile.from_json(one["body"]) for one in stored}
    return await asyncio.to_thread(suggestions, profiles, tail, most)


def suggestions(profiles: dict[str, Profile], tail: list[Event], most: int) -> list[dict[str, Any]]:
    """Fold a session's events with clear values, which stay in memory, and say what usually follows; redacted."""
    digest = Digest(redact, b"", keep_values=True)
    for event in tail:
        digest.feed(event)
    return following(profiles, digest, most)


def following(profiles: dict[str, Profile], digest: Digest, most: int = 5) -> list[dict[str, Any]]:
    """Say what usually follows what a digest was fed, which keeps clear values; redacted, the surest call first."""
    return [{**asdict(one), "arguments": redact_json(one.arguments)} for one in suggest(profiles, digest, most)]


async def summary_of(database: Database, word: str) -> dict[str, Any]:
    """Return a session's summary, as state and as text: as the nights folded it, and what came since."""
    async with database.connection() as conn:
        session = await sessions.get(conn, await sessions.find(conn, word))
        stored = await digests.digest(conn, session["id"])
        after = session["consolidated_to"] if stored else session["pruned_to"]
        fold = SummaryFold.from_json(stored["summary"]) if stored else SummaryFold()
        while since := await events.read(conn, session["id"], after=after, limit=TAIL, bounds=bounds_of(session)):
            for event in since:
                fold.feed(event)
            after = since[-1].seq
    state = fold.to_json()
    return {"session": session["id"], "state": state, "text": redact(render(state))}


async def _tail(conn: Connection, session: Row) -> list[Event]:
    after = max(session["head"] - TAIL, session["pruned_to"])
    return await events.read(conn, session["id"], after=after, bounds=bounds_of(session))
