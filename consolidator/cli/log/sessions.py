"""consolidator sessions: the sessions of the log, and the calls that wait for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, cast, get_args

import typer

from consolidator.cli.common import open_configured, parse_moment, run_async
from consolidator.cli.output import (
    OUT,
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
from consolidator.errors import UsageError
from consolidator.models.session import SessionRow
from consolidator.runtime.turn.sessions import list_attention
from consolidator.service.log.sessions import find_session_id
from consolidator.service.memory.decision_log import CHANNEL as MEMORY_CHANNEL
from consolidator.service.sessions.listing import (
    SessionFilter,
    SessionOrder,
    SessionPage,
    StoredStatus,
    list_sessions,
    session_status,
)

STATUSES = get_args(StoredStatus)
_NEEDS = {"approval": "approve or deny", "uncertain": "resolve ok or failed"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sessions")(sessions_command)


def sessions_command(
    agent: AgentOption = None,
    project: ProjectOption = None,
    peer: Annotated[str | None, typer.Option(help="Only sessions with this peer.")] = None,
    since: Annotated[str | None, typer.Option(help="A date, a time, or a span ago such as 7d.")] = None,
    status: Annotated[str | None, typer.Option(help=f"Only sessions that are {', '.join(STATUSES)}.")] = None,
    conversation: Annotated[str | None, typer.Option(help="Only the runs of this conversation, in order.")] = None,
    trigger: Annotated[str | None, typer.Option(metavar="TYPE[:ID]", help="Only those that this started.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="With this label; repeat.")] = None,
    parent: Annotated[str | None, typer.Option(metavar="SESSION", help="Only children of this session.")] = None,
    key: Annotated[str | None, typer.Option(help="Only runs of this key.")] = None,
    limit: Limit = 30,
    attention: Annotated[bool, typer.Option("--attention", help="Only calls that wait for a person.")] = False,
    hidden: Annotated[bool, typer.Option("--hidden", help="Also those deleted in a chat.")] = False,
    as_json: AsJson = False,
) -> None:
    """List sessions, the latest first; the runs of a conversation in their order."""
    if attention:
        _list_attention(limit, as_json=as_json)
        return
    if status is not None and status not in STATUSES:
        raise UsageError(f"{status!r} is no status: {', '.join(STATUSES)}")
    trigger_type, _, trigger_id = (trigger or "").partition(":")

    async def work() -> tuple[SessionPage, datetime]:
        async with open_configured() as (database, _):
            wanted = SessionFilter(
                agent=agent,
                project=project,
                peer=peer,
                status=cast("StoredStatus | None", status),
                conversation=conversation,
                trigger_type=trigger_type or None,
                trigger_id=trigger_id or None,
                labels=parse_labels(label or ()),
                parent=None if parent is None else await find_session_id(database, parent),
                key=key,
                since=parse_moment(since, database.clock.now()),
                hidden=hidden,
            )
            order: SessionOrder = "latest" if conversation is None else "runs"
            return await list_sessions(database, wanted, order=order, limit=limit), database.clock.now()

    page, now = run_async(work())
    if as_json:
        print_json([{"title": page.titles.get(row.id), **asdict(row)} for row in page.sessions])
    else:
        _print_sessions(page, now)


def _print_sessions(page: SessionPage, now: datetime) -> None:
    sessions = page.sessions
    has_trigger = any(session.trigger_type for session in sessions)
    has_error = any(session.error for session in sessions)
    # On a terminal what is the same everywhere is left out; elsewhere each place has its meaning.
    to_learn = not OUT.is_terminal or any(session.consolidated_to < session.head for session in sessions)
    has_pruned = not OUT.is_terminal or any(session.pruned_to for session in sessions)
    has_kinds = not OUT.is_terminal or any(session.kind != "root" for session in sessions)
    print_table(
        "sessions",
        (
            "session",
            "agent",
            *(["kind"] * has_kinds),
            "of",
            "status",
            *(["trigger"] * has_trigger),
            "events",
            *(["learned"] * to_learn),
            *(["pruned"] * has_pruned),
            "last",
            *(["error"] * has_error),
            "title",
        ),
        (
            (
                short_id(session.id),
                session.agent,
                *([session.kind] * has_kinds),
                _owner_of(session),
                session_status(session, now),
                *([session.trigger_type] * has_trigger),
                session.head,
                *([session.consolidated_to] * to_learn),
                *([session.pruned_to] * has_pruned),
                session.last_occurred_at,
                *([shorten(session.error or "", 80)] * has_error),
                page.titles.get(session.id),
            )
            for session in sessions
        ),
        right=("events", "learned", "pruned"),
        main="title",
    )


def _owner_of(session: SessionRow) -> str:
    """Return whom a session is of; the key of what memory was told is a name for programs alone."""
    is_memory = session.channel == MEMORY_CHANNEL
    return owner_name(session.project, session.peer if is_memory else session.key, session.agent)


def parse_labels(texts: Sequence[str]) -> dict[str, str] | None:
    """Parse labels such as "mailbox_id=m7"; raise UsageError for anything else. None without any."""
    labels: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{text!r} is no label: NAME=VALUE")
        labels[name] = value
    return labels or None


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
        nothing="no call waits for a person",
    )
