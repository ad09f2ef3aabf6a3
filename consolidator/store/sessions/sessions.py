"""Sessions: opens, finds, lists, locks and configures them, and moves their watermarks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ulid import ULID

from consolidator.database.jsonb import as_jsonb, unescape
from consolidator.database.partitions import Connection
from consolidator.errors import NotFound, UsageError
from consolidator.models.session import SessionCursor, SessionFilter, SessionOrder, SessionRow
from consolidator.store.queries import (
    AttemptEach,
    Column,
    ColumnSet,
    FirstRow,
    OneRow,
    Pairs,
    Rows,
    RowsByFilter,
    Statement,
    Tuples,
    execute,
    execute_each,
    fetch_all,
    fetch_value,
    load,
)

_SQL = load("sessions/sessions")
MAX_FIRST_CHARACTERS = 1000  # of a first message
_FIRST_EVENTS, _FIRST_MESSAGES = (
    50,
    5,
)  # events of a session among which its first messages are looked for, and how many


@dataclass(frozen=True, slots=True)
class DueSession:
    """A session with events that were not learned from."""

    id: str
    agent: str
    events: int  # how many


@dataclass(frozen=True, slots=True)
class FirstMessage:
    """An early message of a session or statement to memory, its text cut to MAX_FIRST_CHARACTERS (in a blob: bytes)."""

    session_id: str
    principal: str | None
    data: dict[str, Any]  # without its text
    text: str | None
    is_statement: bool  # what memory was told to remember
    blob_head: bytes | None  # the beginning of the text, if it is in a blob

    @property
    def first_words(self) -> str:
        """The beginning of its text."""
        return unescape(self.text or "") or (self.blob_head or b"").decode("utf-8", "ignore")


def imported_session_id(format_name: str, origin: str) -> str:
    """Return the id of an imported session, which is derived from its foreign name."""
    return str(
        ULID.from_bytes(
            hashlib.blake2b(f"{format_name}:{origin}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        )
    )


async def open_session(conn: Connection, values: Mapping[str, Any], *, now: datetime) -> None:
    """Create a session if it does not exist; `values` are columns by name, `id` and `agent` at least.

    With `pruned_to` its log begins after that seq, as where the beginning was pruned before the session came here.
    """
    full = _opened_values(values, now)
    await execute(conn, _SQL["open"], full)
    if full["parent_id"] is not None:
        await execute(conn, _SQL["set_parent"], full)


async def open_roots(conn: Connection, rows: Sequence[Mapping[str, Any]], *, now: datetime) -> None:
    """Create sessions without a parent as `open_session` does, in this order, in one round trip."""
    await execute_each(conn, _SQL["open"], [_opened_values(values, now) for values in rows])


def _opened_values(values: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the parameters that create a session."""
    optional = [
        "origin",
        "key",
        "conversation_id",
        "channel",
        "peer",
        "project",
        "parent_id",
        "parent_seq",
        "model",
        "past_id",
        "past_seq",
    ]
    plain = {"kind": "root", "simulated": False, "status": "open", "base_seq": 0, "pruned_to": 0}
    root_id, details = values.get("root_id") or values["id"], as_jsonb(values.get("details") or {})
    return {**dict.fromkeys(optional), **plain, **values, "root_id": root_id, "details": details, "now": now}


async def open_current(conn: Connection, values: Mapping[str, Any], *, now: datetime) -> str:
    """Return the id of the one session that a key names now; create it from `values` if there is none.

    With `recorded_by` (a client) in `values`, the key is one of that client's: each has its own.
    """
    nothing = dict.fromkeys(("peer", "project", "recorded_by", "conversation_id"))
    full = {"id": str(ULID()), **nothing, **values, "now": now}
    await execute(conn, _SQL["end_current"], full)
    while (session_id := await fetch_value(conn, _SQL["open_current"], full)) is None:
        continue  # another transaction is creating it at this moment
    return str(session_id)


async def create_current(conn: Connection, values: Mapping[str, Any], *, now: datetime) -> None:
    """Create a session from `values` that its key, if it has one, names from now on; the caller's transaction is open.

    The session that the key named stays open, without the key.
    """
    full = {"recorded_by": None, **values, "now": now}
    created = 0
    while not created:  # another transaction may have made the key name a session in between
        await execute(conn, _SQL["clear_current_of_key"], full)
        created = await execute(conn, _SQL["create"], full)


async def find_answered(conn: Connection, key: str, recorded_by: str, idempotency_key: str) -> str | None:
    """Return the session in which a client's idempotency key was answered, if any; locks that key."""
    values = {"key": key, "recorded_by": recorded_by, "idempotency": idempotency_key}
    await execute(conn, _SQL["lock_client_key"], values)
    session_id = await fetch_value(conn, _SQL["find_answered"], values)
    return None if session_id is None else str(session_id)


MISSING = "no session {!r}; `consolidator session list` lists them"  # of an id that no session has


async def get_each(conn: Connection, ids: Sequence[str]) -> list[SessionRow]:
    """Return several sessions in the order of `ids`; missing ones are left out."""
    rows = await fetch_all(conn, SessionRow, _SQL["get_each"], {"ids": list(ids)}) if ids else []
    sessions = {row.id: row for row in rows}
    return [sessions[session_id] for session_id in ids if session_id in sessions]


async def find_session_id(conn: Connection, name: str) -> str:
    """Return the id of the session that a person means by an id, a foreign name, or a prefix of either."""
    escaped = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    matches = await _find(conn, word=name, like=escaped + "%")
    if not matches:
        raise NotFound(f"no session is named or begins with {name!r}; `consolidator session list` lists them")
    # A sub-agent's name begins with its parent's, so a whole name goes before a prefix.
    if len(matches) > 1 and matches[0][1] == matches[1][1]:
        names = ", ".join(session_id for session_id, _ in matches)
        raise UsageError(f"{name!r} names several sessions ({names}): type more of it")
    return matches[0][0]


async def describe(conn: Connection, session_id: str, values: Mapping[str, Any], *, now: datetime) -> None:
    """Set what a session is for (its trigger, labels, metadata, window) and its time to live, as far as it is named."""
    unnamed = dict.fromkeys(("context_window", "trigger_type", "trigger_id", "ttl_seconds"))
    await _describe(conn, {**unnamed, "labels": {}, "metadata": {}, **values}, id=session_id, now=now)


async def make_current(conn: Connection, session_id: str) -> bool:
    """Make an open session the one that its key names; False if it has ended, is hidden or does not exist."""
    await execute(conn, _SQL["lock_key"], {"id": session_id})
    if await fetch_value(conn, _SQL["clear_other_current"], {"id": session_id}) is None:
        return False
    await execute(conn, _SQL["set_current"], {"id": session_id})
    return True


get = OneRow[SessionRow, str](SessionRow, _SQL["get"], missing=MISSING)
get_current = FirstRow[SessionRow, str](SessionRow, _SQL["get_current"])
find_recorded = Pairs[str, str, list[str], str](_SQL["find_recorded"], "keys recorded_by", lately="", since=None)
list_ids = Column[str](_SQL["list_ids"])
list_due = Rows[DueSession](DueSession, _SQL["list_due"])
mark_started = Statement[str, int](_SQL["mark_started"], "id seq")
mark_recorded = Statement[str, str](_SQL["mark_recorded"], "id by")
rename_key = Statement[()](_SQL["rename_key"], "old key recorded_by")
set_response = Statement[str, str](_SQL["set_response"], "id key")
forget_keys = Statement[str](_SQL["forget_keys"], "id")
release_key = Statement[str](_SQL["clear_current"])
list_current = Column[str](_SQL["list_current"])
list_heads = Pairs[str, int, bool](_SQL["list_heads"], "everything")
lock_shared = ColumnSet[str, Sequence[str]](_SQL["lock_shared"])
list_first_messages = Rows[FirstMessage, Sequence[str]](
    FirstMessage,
    _SQL["first_messages"],
    "ids",
    events=_FIRST_EVENTS,
    messages=_FIRST_MESSAGES,
    characters=MAX_FIRST_CHARACTERS,
)
retire = Statement[str](_SQL["retire"], "session_id")
lock = Pairs[str, int, Sequence[str]](_SQL["lock"])
set_error = Statement[str, str](_SQL["set_error"], "id error")
# A model or cap that is None stays as it is.
configure = Statement[str](_SQL["configure"], "id")
# The id, and how exactly the word names it: 3 the whole id, 2 the whole origin, 1 it without its format, 0 a prefix.
_find = Tuples[tuple[str, int]](_SQL["find"])
# Locks the sessions of spans; False where the watermark of one is not at `after` any more.
lock_watermarks = AttemptEach(_SQL["lock_watermark"])
_describe = Statement[Mapping[str, Any]](_SQL["describe"], "*")


_PAGES = {
    order: RowsByFilter[SessionRow, SessionFilter](SessionRow, _SQL[order], "*")
    for order in ("latest", "created", "runs")
}


def cursor_of(session: SessionRow, order: SessionOrder) -> SessionCursor:
    """Return the cursor after a session."""
    return SessionCursor(session.last_occurred_at if order == "latest" else session.created_at, session.id)


async def list_page(
    conn: Connection,
    filters: SessionFilter,
    *,
    person: str | None = None,
    order: SessionOrder,
    after: SessionCursor | None = None,
    limit: int,
    now: datetime,
) -> list[SessionRow]:
    """Return the next sessions after a cursor; `person` is whose they must be: the peer of their lineage's root."""
    place = None if after is None else (after.at, after.id)
    labels = filters.labels or None
    return await _PAGES[order](conn, filters, labels=labels, person=person, after=place, limit=limit, now=now)
