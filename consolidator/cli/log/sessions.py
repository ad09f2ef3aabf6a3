"""consolidator sessions: the sessions of the log, and the calls that wait for a person."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from consolidator.cli.common import open_configured, parse_moment, run_async
from consolidator.cli.output import (
    AgentOption,
    AsJson,
    Limit,
    ProjectOption,
    owner_name,
    print_json,
    print_table,
    short_id,
    shorten,
)
from consolidator.models.session import SessionRow
from consolidator.runtime.sessions import list_attention
from consolidator.service.log.sessions import list_sessions

_NEEDS = {"approval": "approve or deny", "uncertain": "resolve ok or failed"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sessions")(sessions_command)


def sessions_command(
    agent: AgentOption = None,
    project: ProjectOption = None,
    peer: Annotated[str | None, typer.Option(help="Only sessions with this peer.")] = None,
    since: Annotated[str | None, typer.Option(help="A date, a time, or a span ago such as 7d.")] = None,
    limit: Limit = 30,
    attention: Annotated[bool, typer.Option("--attention", help="Only calls that wait for a person.")] = False,
    hidden: Annotated[bool, typer.Option("--hidden", help="Also those deleted in a chat.")] = False,
    as_json: AsJson = False,
) -> None:
    """List sessions, the latest first."""
    if attention:
        _list_attention(limit, as_json=as_json)
        return

    async def work() -> list[SessionRow]:
        async with open_configured() as (database, _):
            return await list_sessions(
                database,
                agent=agent,
                project=project,
                peer=peer,
                hidden=hidden,
                limit=limit,
                since=parse_moment(since, database.clock.now()),
            )

    sessions = run_async(work())
    if as_json:
        print_json(sessions)
        return
    print_table(
        "sessions",
        ("session", "agent", "kind", "of", "events", "learned", "pruned", "last"),
        (
            (
                short_id(session.id),
                session.agent,
                session.kind,
                owner_name(session.project, session.key, session.agent),
                session.head,
                session.consolidated_to,
                session.pruned_to,
                session.last_occurred_at,
            )
            for session in sessions
        ),
        right=("events", "learned", "pruned"),
    )


def _list_attention(limit: int, *, as_json: bool) -> None:
    """Print the calls that wait for a person."""

    async def work() -> list[dict[str, Any]]:
        async with open_configured() as (database, _):
            rows = await list_attention(database, limit=limit)
        return [
            {"session": row.id, "key": row.key, "call": call_id, **request}
            for row in rows
            for call_id, request in row.attention.items()
        ]

    calls = run_async(work())
    if as_json:
        print_json(calls)
        return
    print_table(
        "calls that wait for a person",
        ("call", "waits for", "tool", "arguments", "session", "key"),
        (
            (
                call["call"],
                _NEEDS[call["kind"]],
                call["tool"],
                shorten(call.get("arguments"), 60),
                call["session"],
                call["key"],
            )
            for call in calls
        ),
    )
