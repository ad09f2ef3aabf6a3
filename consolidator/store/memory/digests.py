"""Memory's tables: digests and errors by session, candidates, and what is published of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from consolidator.database.jsonb import dumps, escape
from consolidator.database.partitions import Connection
from consolidator.store.queries import Row, execute, execute_each, load, row, rows, rows_each

_SQL = load("memory/digests")


def jsonb(value: Any) -> Jsonb:
    """Return a value as a jsonb parameter."""
    return Jsonb(value, dumps=dumps)


async def salt(conn: Connection) -> bytes:
    """Return the salt of this database's hashes, made at first use."""
    while (found := await row(conn, _SQL["salt"], {"salt": secrets.token_bytes(16)})) is None:
        continue  # somebody else is just making it
    return bytes(found["value"])


async def digest(conn: Connection, session: str) -> Row | None:
    """Return a session's digest row."""
    return await row(conn, _SQL["digest"], {"session": session})


async def digests(conn: Connection, ids: Sequence[str]) -> dict[str, Row]:
    """Return the digest rows of sessions, by session."""
    return {r["session_id"]: r for r in await rows(conn, _SQL["digests"], {"sessions": list(ids)})}


async def save_digests(conn: Connection, found: Sequence[Mapping[str, Any]]) -> None:
    """Replace sessions' digests; in order of session, so that two runs never wait for each other in a circle."""
    values = [{**one, "summary": jsonb(one["summary"])} for one in found]
    await execute_each(conn, _SQL["save_digest"], sorted(values, key=lambda one: str(one["session"])))


async def touch_scopes(conn: Connection, scopes: Sequence[tuple[str, str]]) -> None:
    """Tell the merger that digests of scopes have changed."""
    await execute_each(conn, _SQL["touch_scope"], [{"agent": agent, "project": project} for agent, project in scopes])


async def save_errors(conn: Connection, records: Sequence[tuple[Row, Mapping[str, Any]]]) -> None:
    """Store failed calls of sessions, each with its present status; in the order in which a merge holds them."""
    values = [
        {
            "session": session["id"],
            "seq": record["seq"],
            "agent": session["agent"],
            "project": session["project"],
            "fingerprint": escape(record["fingerprint"]),
            "status": record["status"],
            "record": jsonb(record),
        }
        for session, record in sorted(records, key=lambda one: (one[0]["id"], one[1]["seq"]))
    ]
    await execute_each(conn, _SQL["save_error"], values)


async def dirty_scopes(conn: Connection) -> list[Row]:
    """Return the scopes whose digests have changed since they were summed."""
    return await rows(conn, _SQL["dirty"])


async def agents_with_news(conn: Connection, *, undecided_too: bool = False) -> list[str]:
    """Return the agents with something to merge or reconcile, or to compare where a model can be asked."""
    return [r["agent"] for r in await rows(conn, _SQL["agents_with_news"], {"undecided": undecided_too})]


async def lock_agent(conn: Connection, agent: str) -> None:
    """Let no other merger of this agent in until the transaction ends."""
    await lock_agents(conn, [agent])


async def lock_agents(conn: Connection, agents: Iterable[str]) -> None:
    """Let no other merger of these agents in until the transaction ends; for all that it will need, at once.

    In order, and before anything that a merger locks, so that nobody waits for another in a circle.
    """
    await execute_each(conn, _SQL["lock_agent"], [{"agent": agent} for agent in sorted(agents)])


async def share_agents(conn: Connection, agents: Iterable[str]) -> None:
    """Let nobody merge these agents until the transaction ends; others may learn of them meanwhile, as the caller does.

    Before a session is locked: a rehearsal holds its agents for long, and whoever appends to a session need not wait.
    """
    await execute_each(conn, _SQL["share_agent"], [{"agent": agent} for agent in sorted(agents)])


async def terms(conn: Connection, sessions: Sequence[str]) -> dict[str, bytes]:
    """Return the packed terms of some digests, by session."""
    return {r["session_id"]: bytes(r["terms"]) for r in await rows(conn, _SQL["terms"], {"sessions": list(sessions)})}


async def quotes(conn: Connection, sessions: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
    """Return the packed seqs and quotes of some digests, by session."""
    found = await rows(conn, _SQL["quotes"], {"sessions": list(sessions)})
    return {r["session_id"]: (bytes(r["seqs"]), bytes(r["quotes"])) for r in found}


async def shared_steps(conn: Connection, agent: str) -> list[list[str]]:
    """Return the symbols of each procedure that an agent's projects are published to share."""
    return [[step["symbol"] for step in r["body"]["steps"]] for r in await rows(conn, _SQL["shared"], {"agent": agent})]


async def mark_merged(conn: Connection, scope: Row, *, sessions: int) -> None:
    """Say that a scope was summed as of its version."""
    await execute(conn, _SQL["merged"], {**scope, "sessions": sessions})


async def hold_errors(conn: Connection, agent: str) -> list[tuple[str, int]]:
    """Lock the failed calls that solutions do not know yet, or know otherwise; return their sessions and seqs."""
    return [(r["session_id"], r["seq"]) for r in await rows(conn, _SQL["hold_errors"], {"agent": agent})]


async def news_of_errors(conn: Connection, agent: str) -> list[Row]:
    """Return what is counted of every record of the fingerprints that have news."""
    return await rows(conn, _SQL["news_of_errors"], {"agent": agent})


async def errors(conn: Connection, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the records of some failed calls, by session and seq."""
    if not places:
        return {}
    values = {"sessions": [session for session, _ in places], "seqs": [seq for _, seq in places]}
    return {(r["session_id"], r["seq"]): r["record"] for r in await rows(conn, _SQL["errors"], values)}


async def mark_errors_merged(
    conn: Connection, held: Sequence[tuple[str, int]], shapes: Mapping[tuple[str, int], str]
) -> None:
    """Say that solutions know these failed calls, and store what resolved them, in short, where that is told."""
    values = {"sessions": [session for session, _ in held], "seqs": [seq for _, seq in held]}
    await execute(conn, _SQL["errors_merged"], {**values, "shapes": [shapes.get(place) for place in held]})


async def save(conn: Connection, query: str, values: dict[str, Any]) -> str | None:
    """Publish one thing with the named query; return "added", "changed", or None where nothing is different."""
    found = await row(conn, _SQL[query], values)
    if found is None:
        return None
    return "added" if found["added"] else "changed"


async def save_each(conn: Connection, query: str, values: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """Publish several things in one round trip; return of each what `save` does."""
    found = await rows_each(conn, _SQL[query], values)
    return [None if not one else "added" if one[0]["added"] else "changed" for one in found]


async def save_profiles(conn: Connection, agent: str, project: str, bodies: Mapping[str, Any]) -> None:
    """Store the profiles of a scope's tools, in place of those it had."""
    scope = {"agent": agent, "project": project}
    told = {escape(tool): jsonb(body) for tool, body in bodies.items()}
    await execute(conn, _SQL["save_profiles"], {**scope, "tools": list(told), "bodies": list(told.values())})
    await execute(conn, _SQL["drop_profiles"], {**scope, "kept": list(told)})


async def tidy(conn: Connection, query: str, values: dict[str, Any]) -> int:
    """Run one of the queries that retire what is no longer published; return how many that were."""
    return await execute(conn, _SQL[query], values)


async def published(conn: Connection) -> dict[str, dict[str, Row]]:
    """Return all that is published, by kind and id, each with its `line`; to be compared."""
    return {
        kind: {r["id"]: r for r in await rows(conn, _SQL[f"published_{kind}"])}
        for kind in ("facts", "procedures", "solutions")
    }
