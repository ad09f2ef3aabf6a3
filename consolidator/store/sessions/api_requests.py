"""Answers to requests with a key, by credential and key."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from consolidator.database.partitions import Connection
from consolidator.models.credential import UNDER_WAY, ApiRequestRow
from consolidator.store.queries import FirstRow, Value, execute, load

_SQL = load("sessions/api_requests")


async def remove_under_way(conn: Connection, credential: str, key: str, owner: str) -> None:
    """Remove the row by which a request was under way in a process."""
    values = {"credential": credential, "key": key, "status": UNDER_WAY, "owner": owner}
    await execute(conn, _SQL["remove_under_way"], values)


async def add(conn: Connection, answered: ApiRequestRow) -> None:
    """Store an answer; it takes the place of one under way, or too old to be found."""
    await execute(conn, _SQL["add"], asdict(answered))


find = FirstRow[ApiRequestRow, str, str, datetime](ApiRequestRow, _SQL["find"], "credential key since")
try_lock = Value[bool, str, str](bool, _SQL["lock"], "credential key")
