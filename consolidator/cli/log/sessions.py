"""consolidator session list: the sessions of the log, and the calls that wait for a person."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, get_args

import typer

from consolidator.cli.common import parse_moment, parse_pairs, run
from consolidator.cli.output import (
    OUT,
    AgentOption,
    Limit,
    ProjectOption,
    Table,
    emit,
    owner_name,
    short_id,
    shorten,
    table,
)
from consolidator.errors import UsageError
from consolidator.models.session import SessionFilter, SessionRow, StoredStatus
from consolidator.service.database import Database
from consolidator.service.memory.decision_log import CHANNEL as MEMORY_CHANNEL
from consolidator.service.sessions.listing import SessionPage, list_sessions, session_status

STATUSES = get_args(StoredStatus)
_NEEDS = {"approval": "approve or deny", "uncertain": "resolve ok or failed"}
_CALLS = table(
    "calls that wait for a person",
    "call, waits for, tool, arguments, session, key",
    nothing="no call waits for a person",
    waits_for=lambda call: _NEEDS[call["kind"]],
    arguments=lambda call: shorten(call.get("arguments"), 60),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """Which sessions are listed."""

    agent: AgentOption = None
    project: ProjectOption = None
    peer: Annotated[str | None, typer.Option(help="Only sessions with this peer.")] = None
    since: Annotated[str | None, typer.Option(help="A date, a time, or a span ago such as 7d.")] = None
    status: Annotated[str | None, typer.Option(help=f"Only sessions that are {', '.join(STATUSES)}.")] = None
    trigger: Annotated[str | None, typer.Option(metavar="TYPE[:ID]", help="Only sessions that this has started.")] = (
        None
    )
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only sessions with this label; repeat.")
    ] = None
    key: Annotated[str | None, typer.Option(help="Only runs of this key.")] = None

    def to_filter(self, now: datetime) -> SessionFilter:
        """Return the filter. Raises UsageError for values that do not fit."""
        if self.status is not None and self.status not in STATUSES:
            raise UsageError(f"{self.status!r} is no status: {', '.join(STATUSES)}")
        trigger_type, _, trigger_id = (self.trigger or "").partition(":")
        parsed: dict[str, Any] = {
            "trigger_type": trigger_type or None,
            "trigger_id": trigger_id or None,
            "labels": parse_pairs(self.label, "label"),
            "since": parse_moment(self.since, now),
        }
        plain = {name: value for name, value in asdict(self).items() if name not in ("trigger", "label")}
        return SessionFilter(**plain | parsed)


def list_command(
    *,
    sessions: FilterOptions,
    limit: Limit = 30,
    attention: Annotated[bool, typer.Option("--attention", help="Only calls that wait for a person.")] = False,
) -> None:
    """List sessions, the latest first."""
    if attention:
        emit(run(_load_calls, limit), _CALLS)
        return

    async def load(database: Database) -> tuple[SessionPage, datetime]:
        now = database.clock.now()
        return await list_sessions(database, sessions.to_filter(now), limit=limit), now

    page, now = run(load)
    emit(
        page,
        lambda page: _table_of(page, now).print(page.sessions),
        encode=lambda page: [{"title": page.titles.get(row.id), **asdict(row)} for row in page.sessions],
    )


async def _load_calls(database: Database, limit: int) -> list[dict[str, Any]]:
    from consolidator.runtime.turn.sessions import list_attention  # whose module also drives sessions

    return [
        {"session": row.id, "key": row.key, "call": call_id, **request}
        for row in await list_attention(database, limit=limit)
        for call_id, request in row.attention.items()
    ]


def _table_of(page: SessionPage, now: datetime) -> Table:
    """Return the columns for a page: on a terminal without those that are the same everywhere."""
    rows, is_for_programs = page.sessions, not OUT.is_terminal  # where each place has its meaning
    shown = {
        "kind": is_for_programs or any(row.kind != "root" for row in rows),
        "trigger": any(row.trigger_type for row in rows),
        "learned": is_for_programs or any(row.consolidated_to < row.head for row in rows),
        "pruned": is_for_programs or any(row.pruned_to for row in rows),
        "error": any(row.error for row in rows),
    }
    columns: dict[str, Any] = {
        "session": lambda row: short_id(row.id),
        "agent": "agent",
        "kind": "kind",
        "of": _owner_of,
        "status": lambda row: session_status(row, now),
        "trigger": "trigger_type",
        "events": "head",
        "learned": "consolidated_to",
        "pruned": "pruned_to",
        "last": "last_occurred_at",
        "error": lambda row: shorten(row.error or "", 80),
        "title": lambda row: page.titles.get(row.id),
    }
    columns = {name: cell for name, cell in columns.items() if shown.get(name, True)}
    return Table("sessions", columns, right=("events", "learned", "pruned"), main="title")


def _owner_of(session: SessionRow) -> str:
    """Return whom a session is of; the key of a session of memory's own is a name for programs alone."""
    is_memory = session.channel == MEMORY_CHANNEL
    return owner_name(session.project, session.peer if is_memory else session.key, session.agent)
